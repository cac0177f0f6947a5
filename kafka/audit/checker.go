package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// HeaderReader reads the audit header of a payload, which it does not keep. Its errors
// are those of the one message, which is counted as not in an envelope
// ([envelope.ErrNotEnvelope]) or malformed; but after one that has a method Temporary()
// bool that returns true a [Watcher] waits and reads the payload again, and [CountLoaded]
// ends.
type HeaderReader func(ctx context.Context, payload []byte) (envelope.Header, error)

// plainReader returns a HeaderReader for plain envelopes, for one goroutine.
func plainReader() HeaderReader {
	var opener envelope.Opener
	return func(_ context.Context, payload []byte) (envelope.Header, error) {
		h, _, err := opener.Open(payload)
		return h, err
	}
}

// CheckerConfig describes what counts the messages of a tier. Zero fields take the
// defaults, where there are any.
type CheckerConfig struct {
	Tier   string   // its name, as in "live", "mirror" and "load"
	Topics []string // to be counted

	// Header reads the headers. Default: plain envelopes.
	Header HeaderReader

	// Window is how finely messages are told apart that no event tells of. It should
	// be that of the producers. Default: 10 s.
	Window time.Duration
	Limits Limits

	// State is the file that positions and counts are kept in.
	State string

	Logger *slog.Logger // problems, never messages; nil: nothing is logged
	Files  vfs.FS       // nil: the system's
	Clock  clock.Clock  // nil: the system's
}

// Check reports why there can be no checker of a configuration, or nil.
func (c CheckerConfig) Check() error {
	_, err := c.withDefaults()
	return err
}

func (c CheckerConfig) withDefaults() (CheckerConfig, error) {
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("tier", c.Tier)
	if c.Files == nil {
		c.Files = vfs.OS()
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	var err error
	if c.Limits, err = c.Limits.withDefaults(); err != nil {
		return c, err
	}
	switch {
	case c.Tier == "":
		return c, errors.New("audit: the tier has no name")
	case len(c.Topics) == 0:
		return c, errors.New("audit: no topic is given")
	case c.State == "":
		return c, errors.New("audit: no file for the state is given")
	}
	for i, t := range c.Topics {
		if err := message.CheckTopic(t); err != nil {
			return c, fmt.Errorf("audit: %w", err)
		}
		if slices.Contains(c.Topics[:i], t) {
			return c, fmt.Errorf("audit: topic %s is given twice", t)
		}
	}
	return c, CheckWindow(c.Window)
}

// checker counts what comes of a tier, and keeps the counts with the positions. Its
// methods may be called by several goroutines at once.
type checker struct {
	cfg  CheckerConfig
	lock io.Closer

	mu        sync.Mutex // guards all below; never held over a request or a write
	state     *State     // all but what is in tally and positions
	tally     *tally
	positions map[partitionKey]*position
	begun     map[partitionKey]int // how often one without a position was begun with
	told      int64                // problems that were logged
	toldAt    time.Duration
	saved     int64 // the tally's changes that are in the file
	moved     bool  // something beside them is not
	saveErr   error // of the last attempt
}

// partitionKey names a partition of a cluster.
type partitionKey struct {
	topic             string
	broker, partition int32
}

func (k partitionKey) String() string { return fmt.Sprintf("%s %d-%d", k.topic, k.broker, k.partition) }

// position is how far a partition has been counted.
type position struct {
	Position
	// given is where the consumer was last told to begin, while it may still begin
	// there again: when it had a chunk in hand as the partition was given up, that one
	// is counted first, and then comes once more. -1: no longer. again is where that
	// goes on, chunk by chunk, and chunks how many have come since.
	given, again int64
	chunks       int
}

func newPosition(p Position) *position { return &position{Position: p, given: -1, again: -1} }

// openChecker goes on with the state in the file, or begins one.
func openChecker(cfg CheckerConfig) (*checker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	lock, err := lockState(cfg.Files, cfg.State)
	if err != nil {
		return nil, err
	}
	state, err := openState(cfg.Files, cfg.State, cfg.Tier, cfg.Topics, cfg.Window)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	c := &checker{cfg: cfg, lock: lock, state: state, positions: map[partitionKey]*position{}, begun: map[partitionKey]int{}}
	if c.tally, err = state.tally(cfg.Limits); err != nil {
		return nil, errors.Join(fmt.Errorf("audit: state %s: %w", cfg.State, err), lock.Close())
	}
	for _, p := range state.Positions {
		c.positions[partitionKey{p.Topic, p.Broker, p.Partition}] = newPosition(p)
	}
	c.told = c.tally.problems()
	c.moved = true // so that a new state is written also before anything has come
	return c, nil
}

// counted is a message, or what should be one, that is to be counted.
type counted struct {
	offset int64
	header envelope.Header
	event  *Event
	err    error
}

// count counts the messages of a chunk of a partition, which begins at an offset and ends
// before another one, and moves the position with them.
func (c *checker) count(key partitionKey, messages []counted, first, next int64, isEvent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.place(key, first, next)
	now := c.cfg.Clock.Now().UnixMilli()
	var last *string // what is noted of the last message that is not counted by windows
	var at int64
	for _, m := range messages {
		if m.offset < p.Next {
			continue // it came before the partition was given up, and was counted
		}
		var problem *string
		switch {
		case isEvent:
			problem = c.tally.event(m.event, m.err, now)
		case m.err != nil:
			problem = c.tally.problem(key.topic, m.err)
		default:
			problem = c.tally.message(key.topic, m.header, now)
		}
		if problem != nil {
			last, at = problem, m.offset
		}
	}
	if last != nil {
		*last = fmt.Sprintf("%v, offset %d: %s", key, at, *last)
	}
	if next > p.Next {
		p.Next = next
		c.moved = true
	}
	p.Problem, p.Gone = "", 0
	c.tell(key)
}

// counted returns up to where each partition is counted.
func (c *checker) counted() map[partitionKey]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[partitionKey]int64{}
	for key, p := range c.positions {
		next[key] = p.Next
	}
	return next
}

// behind returns how many bytes that logs hold are not counted up to some ends. Of a log
// that is empty nothing can be counted any more; what was deleted before it was is noted.
func (c *checker) behind(ends map[partitionKey]logEnds) map[partitionKey]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	lag := map[partitionKey]int64{}
	for key, e := range ends {
		p, next := c.positions[key], e.first
		if p != nil {
			next = max(next, p.Next)
		}
		lag[key] = max(e.end-next, 0)
		if e.first >= e.end && p != nil {
			c.gone(key, p, e.first)
		}
	}
	return lag
}

// gone notes that a log, which is empty, begins at an offset. Messages that the consumer has
// in hand may still be counted, so the position stays. mu is held.
func (c *checker) gone(key partitionKey, p *position, first int64) {
	n := max(first-p.Next, 0)
	if n == p.Gone {
		return
	}
	p.Gone, c.moved = n, true
	if n > 0 {
		c.cfg.Logger.Error("the rest of the log was deleted before it was counted: what was in it will be missing", "partition", key.String(),
			"from", p.Next, "to", first, "bytes", n)
	}
}

// place compares where a chunk begins with where the partition was counted up to.
func (c *checker) place(key partitionKey, first, next int64) *position {
	p := c.positions[key]
	if p == nil {
		p = newPosition(Position{Topic: key.topic, Broker: key.broker, Partition: key.partition, Next: first})
		if c.begun[key] > 1 {
			p.given = first // it was given up and claimed again with this chunk in hand
		}
		delete(c.begun, key)
		c.positions[key] = p
	}
	switch {
	case first > p.Next:
		p.Skipped += first - p.Next
		c.cfg.Logger.Error("part of the log was deleted before it was counted: what was in it will be missing", "partition", key.String(),
			"from", p.Next, "to", first, "bytes", first-p.Next)
		p.Next = first
	case first < p.Next && (first == p.given || first == p.again):
		p.again = next
	case first < p.Next:
		p.BeganAnew++
		c.cfg.Logger.Error("the log began anew: it was deleted, and is another one", "partition", key.String(), "counted", p.Next, "begins", first)
		p.Next = first
	}
	if p.chunks++; p.chunks > 1 && first >= p.Next {
		p.given, p.again = -1, -1 // nothing comes again any more
	}
	return p
}

// start returns where a partition is to be consumed from; ok is false for the
// beginning.
func (c *checker) start(key partitionKey) (offset int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.positions[key]
	if p == nil {
		c.begun[key]++
		return 0, false
	}
	p.given, p.again, p.chunks = p.Next, -1, 0
	return p.Next, true
}

// stalled notes why a partition stands still.
func (c *checker) stalled(key partitionKey, err error) {
	c.cfg.Logger.Error("a partition stands still", "partition", key.String(), "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.positions[key]; p != nil { // of one that was never read, the tier is not caught up
		p.Problem = shortError{err}.Error()
		c.moved = true
	}
}

// problems counts what makes messages and events uncounted. mu is held.
func (t *tally) problems() int64 {
	n := t.events.Malformed + t.events.Future + t.events.Uncounted
	for _, c := range t.topics {
		n += c.NotEnvelope + c.Malformed + c.Future + c.Uncounted
	}
	return n
}

// tellInterval is the least time between two lines about messages that are not counted:
// a topic may be full of them.
const tellInterval = 10 * time.Second

// tell logs what has become of a topic's messages that are not counted by windows, if there
// are new ones. mu is held.
func (c *checker) tell(key partitionKey) {
	problems, now := c.tally.problems(), c.cfg.Clock.Elapsed()
	if problems == c.told || c.told > 0 && now-c.toldAt < tellInterval {
		return
	}
	c.told, c.toldAt = problems, now
	if of := c.tally.topics[key.topic]; of != nil {
		c.cfg.Logger.Warn("messages that are not counted by windows", "topic", key.topic, "not_enveloped", of.NotEnvelope,
			"malformed", of.Malformed, "future", of.Future, "uncounted", of.Uncounted, "last", of.LastProblem)
		return
	}
	e := &c.tally.events
	c.cfg.Logger.Warn("monitoring events that are not counted", "topic", key.topic, "malformed", e.Malformed, "future", e.Future,
		"uncounted", e.Uncounted, "last", e.LastProblem)
}

// caughtUp notes that the tier held nothing more at a time. One that lies ahead was noted
// when the clock was wrong, and would have windows judged before they are counted.
func (c *checker) caughtUp(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.state.CaughtUp) || c.state.CaughtUp.After(c.cfg.Clock.Now()) {
		c.state.CaughtUp = at.UTC().Truncate(time.Millisecond)
		c.moved = true
	}
}

// snapshot returns the content that the file is to have, and what it stands for; none
// if that is in it already.
func (c *checker) snapshot() (content []byte, changes int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now()
	c.tally.fold(now.UnixMilli())
	if c.tally.changes == c.saved && !c.moved && c.saveErr == nil {
		return nil, 0, nil
	}
	c.fillState(now)
	content, err = c.state.encode()
	c.moved = false
	return content, c.tally.changes, err
}

// fillState brings the state up to date. mu is held.
func (c *checker) fillState(now time.Time) {
	c.state.Saved = now.UTC().Truncate(time.Millisecond)
	c.state.Positions = c.state.Positions[:0]
	for _, p := range c.positions {
		c.state.Positions = append(c.state.Positions, p.Position)
	}
	slices.SortFunc(c.state.Positions, Position.compare)
	c.tally.fill(c.state)
}

// save writes positions and counts, if there is anything new.
func (c *checker) save() error {
	content, changes, err := c.snapshot()
	if err == nil && content == nil {
		return nil
	}
	if err == nil {
		err = replaceFile(c.cfg.Files, c.cfg.State, stateKind, content)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saveErr = err; err != nil {
		return fmt.Errorf("audit: positions and counts are not safe: %w", err)
	}
	c.saved = changes
	return nil
}

// close gives the state's file up.
func (c *checker) close() error { return c.lock.Close() }
