package schema

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Defaults of [StoreConfig].
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultChangeTimeout  = 10 * time.Second
	DefaultMaxStoreBytes  = 256 << 20
)

// retryInterval is the pause before the broker is tried again.
const retryInterval = 200 * time.Millisecond

// StoreConfig describes a store. Zero fields take the defaults.
type StoreConfig struct {
	// Locate returns the address, host and port, of the broker that has the topic: see
	// [AtBroker]. It is called for each connection, by two goroutines at a time at
	// most; its context has a deadline. Two registries of one topic must be told the
	// same broker.
	Locate func(ctx context.Context) (broker string, err error)

	// Claim, if set, is told which log it is that was found, by a name that no other one
	// has: at the start, before anything counts of it; "" for one in which nothing does
	// yet. Who keeps the first name for good, and answers another one by an error that
	// wraps [ErrBroken], lets no log be followed that is not the one that was begun. Other
	// errors are tried again.
	Claim func(ctx context.Context, log string) error

	ConnectTimeout time.Duration // of [Open]: how long the broker is tried at the start
	ChangeTimeout  time.Duration // of one change, or of one look at the end of the log
	MaxBytes       int64         // of all schemas together (inclusive): their texts, and what versions and subjects cost
	Logger         *slog.Logger  // nil: nothing is logged
}

func (c StoreConfig) withDefaults() (StoreConfig, error) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.ChangeTimeout == 0 {
		c.ChangeTimeout = DefaultChangeTimeout
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxStoreBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("topic", message.SchemasTopic)
	switch {
	case c.Locate == nil:
		return c, errors.New("schema store: it is not said how the topic is found: give Locate")
	case c.ConnectTimeout < 0 || c.ChangeTimeout < 0 || c.MaxBytes < 0:
		return c, errors.New("schema store: a limit is negative: give 0 for the default")
	}
	return c, nil
}

// Store holds the schemas of a cluster, as its topic has them. Its methods may be
// called by several goroutines at once.
type Store struct {
	cfg    StoreConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutine that follows the log

	link link          // for what is asked and appended
	turn chan struct{} // a token: one change at a time, so that they do not race each other

	mu      sync.RWMutex // guards all below
	state   *state
	next    int64    // the offset behind what was read of the log
	last    lastRead // before that
	foreign int64    // messages that are no records
	// toldForeign is when the user was last told of one.
	toldForeign time.Time
	attempt     *attempt // the change that is under way
	broken      error    // why nothing can be read or changed any more
	changed     chan struct{}
}

// lastRead is the last message that was read, by which a log is known again.
type lastRead struct {
	offset  int64    // -1: nothing was read yet
	payload [32]byte // hash of the first message at the offset
}

// attempt is a change on its way.
type attempt struct {
	writer string
	made   *record // that counts
}

// Open reads the topic from its start to its end, and goes on following it until
// Close. ctx bounds the opening.
func Open(ctx context.Context, cfg StoreConfig) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, state: newState(), last: lastRead{offset: -1}, turn: make(chan struct{}, 1), changed: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.link = newLink(s.ctx, cfg.Locate)
	if err := s.load(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("schema store: %w", err)
	}
	return s, nil
}

// load waits for the broker, and then for all that the log holds.
func (s *Store) load(ctx context.Context) error {
	for until := time.Now().Add(s.cfg.ConnectTimeout); ; {
		_, err := s.logEnd(ctx)
		if err == nil {
			break
		}
		if errors.Is(err, ErrBroken) || !time.Now().Before(until) || pause(ctx, retryInterval) != nil {
			return err
		}
	}
	s.wg.Go(s.follow)
	for {
		// There may be much to read, so only the caller bounds this.
		err := s.catchUp(ctx)
		if err == nil && s.Stats().Sequence == 0 && s.cfg.Claim != nil {
			err = s.cfg.Claim(ctx, "")
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrBroken) {
			return err
		}
		s.cfg.Logger.Warn("the schemas could not be read to the end, trying again", "error", err)
		if err := pause(ctx, retryInterval); err != nil {
			return err
		}
	}
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the following of the log and whatever is under way. What was known can
// still be read. A second Close does nothing.
func (s *Store) Close() {
	s.cancel()
	s.wg.Wait()
	s.link.close()
}

// Broken returns why the store has ended to follow the topic, an [ErrBroken], or nil.
func (s *Store) Broken() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.broken
}

// StoreStats tells how far a store is.
type StoreStats struct {
	Sequence   uint64 // changes that count
	NextOffset int64  // behind what was read of the topic
	Schemas    int    // ids
	Subjects   int
	Bytes      int64 // what counts against MaxBytes
	Foreign    int64 // messages of the topic that are no records
}

// Stats returns how far the store is.
func (s *Store) Stats() StoreStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return StoreStats{s.state.sequence, s.next, len(s.state.byID), len(s.state.subjects), s.state.bytes, s.foreign}
}

// read calls f with the state. If f does not find something, it is called again with
// a state that has all that the log holds now: only then it is missing.
func (s *Store) read(ctx context.Context, f func(*state) error) error {
	err := s.look(f)
	var missing *Error
	if !errors.As(err, &missing) || missing.Status() != 404 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ChangeTimeout)
	defer cancel()
	if err := s.catchUp(ctx); err != nil {
		return storeError(ctx, err)
	}
	return s.look(f)
}

func (s *Store) look(f func(*state) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return f(s.state)
}

// storeError is what a client is told when the topic could not be reached.
func storeError(ctx context.Context, err error) *Error {
	var already *Error
	if errors.As(err, &already) {
		return already
	}
	if ctx.Err() != nil {
		return errorf(CodeTimeout, "The topic of schemas was not reached in time: %v", err)
	}
	return errorf(CodeStore, "The topic of schemas cannot be used: %v", err)
}

// catchUp waits until all is read that the log holds now.
func (s *Store) catchUp(ctx context.Context) error {
	end, err := s.logEnd(ctx)
	if err != nil {
		return err
	}
	return s.readUpTo(ctx, end)
}

// readUpTo waits until the log is read up to an offset.
func (s *Store) readUpTo(ctx context.Context, end int64) error {
	for {
		s.mu.RLock()
		next, broken, changed := s.next, s.broken, s.changed
		s.mu.RUnlock()
		switch {
		case broken != nil:
			return broken
		case next >= end:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s-0 is read up to offset %d of %d: %w", message.SchemasTopic, next, end, ctx.Err())
		case <-s.ctx.Done():
			return errClosed
		}
	}
}

var errClosed = errors.New("the schema store is closed")

// logEnd asks for the end of what is visible of the log, and checks that the log is
// still the one that was read.
func (s *Store) logEnd(ctx context.Context) (int64, error) {
	s.mu.RLock()
	last, next := s.last, s.next
	s.mu.RUnlock()
	st, same, err := s.link.look(ctx, last, next)
	switch {
	case err != nil && errors.Is(err, wire.CodeNoSuchTopic) && next > 0:
		err = fmt.Errorf("%w: it was deleted: %w", ErrBroken, err)
	case err != nil && !errors.Is(err, wire.CodeOffsetOutOfRange):
		return 0, err
	default:
		if err = checkLog(st.First, st.Watermark, next); err == nil && !same {
			err = otherMessage(last.offset)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakOn(err)
	return st.Watermark, s.broken
}

// checkLog says whether a log can be the one that was read up to next.
func checkLog(first, end, next int64) error {
	switch {
	case first != 0:
		return fmt.Errorf("%w: %s-0 begins at offset %d: what was before is lost, and its ids would be given again", ErrBroken, message.SchemasTopic, first)
	case end < next:
		return fmt.Errorf("%w: %s-0 ends at offset %d, and was read up to %d before", ErrBroken, message.SchemasTopic, end, next)
	}
	return nil
}

func otherMessage(offset int64) error {
	return fmt.Errorf("%w: at offset %d of %s-0 is another message than before: the topic was made anew", ErrBroken, offset, message.SchemasTopic)
}

// breakOn makes an error, if there is one, the end of following the log. The caller
// holds mu.
func (s *Store) breakOn(err error) {
	if err == nil || s.broken != nil {
		return
	}
	s.broken = err
	s.cfg.Logger.Error("the topic of schemas cannot be followed any more: known ids are still answered, nothing can be changed; mend the topic and start the registry again",
		"offset", s.next, "error", err)
	s.broadcast()
}

// broadcast lets all look again who wait. The caller holds mu.
func (s *Store) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}
