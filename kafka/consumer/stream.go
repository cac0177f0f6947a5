package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Stream is a never-ending iterator over the messages of one partition. It is
// for one goroutine; Close, Stats and ConsumedOffset may be called from any.
//
// The stream has no goroutine of its own. What was asked for ahead gathers in
// the socket while the application works, and one that does not ask for more
// holds up nobody but itself.
type Stream struct {
	cfg PartitionConfig

	life    context.Context // ends with Close
	endLife context.CancelFunc

	mu    sync.Mutex // guards conn and stats; conn is only set by the stream's goroutine
	conn  *client.Conn
	stats Stats

	consumed atomic.Int64
	handed   int64            // the offset behind what the application holds
	it       message.Iterator // over the complete messages of the current chunk
	inflated []byte           // what it decompresses into
	chunkErr error            // the damage that the application met in the last chunk of NextChunk
	failed   error            // why the stream cannot go on from here, or nil

	// tail holds the bytes of the log from offset base on that are in no chunk
	// yet: less than a message. While receiving is set it is the front of buf,
	// and what has arrived of an answer follows it there; otherwise buf holds
	// the current chunk, and the tail behind it.
	buf       []byte
	tail      []byte
	base      int64
	receiving bool
	need      int   // size of the message at base, or 0 if that is not known
	tornAt    int64 // the base at which a message was found to have no end, -1: none
	given     int64 // the offset that the application has named, for which nobody vouches; -1: none

	fetch      fetchSize   // of what is asked for next
	share      *fetchShare // of what the streams of a consumer may ask for
	lent       bool        // it is the one that cfg.large lets in
	answeredAt time.Time   // when the last answer came

	asked []ask // requests on their way, oldest first
	next  int64 // where the next range to ask for begins
	atEnd bool  // the last range came short: wait instead of asking ahead

	outOfRange bool // the policy of resetting is to be followed
	connects
	quietUntil time.Time // no request before
	lastReset  time.Time
	out        []byte
	result     []wire.FetchResult
}

// connects is how a stream goes about its connections.
type connects struct {
	backoff   time.Duration
	lastErr   error // why the last connection ended or could not be made
	cutOffs   int   // answers in a row that the broker has broken off
	waitKnown bool  // the broker has answered a WaitFetch
	noWait    bool  // this connection's broker seems not to know WaitFetch
	down      bool  // the application was told that the connection is lost
}

// Stats counts what a stream has done.
type Stats struct {
	Messages     int64 // fetched complete; a compressed one counts as one
	Bytes        int64 // of the log, that were fetched
	Fetches      int64 // answered
	Discarded    int64 // of them, those that did not begin where needed
	Resets       int64 // times that the reset policy was followed
	SkippedBytes int64 // of the log, over all resets that went forward
	Reconnects   int64 // also to leave a request behind that the broker holds back
	FetchBytes   int   // how much is asked for at once now
}

// OpenPartition connects to the broker of a partition, finds out where to
// start, and returns its stream, which must be closed. ctx bounds only the
// opening.
func OpenPartition(ctx context.Context, cfg PartitionConfig) (*Stream, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	conn, err := client.Dial(ctx, cfg.Broker, cfg.client())
	if err != nil {
		return nil, fmt.Errorf("consume %s-%d: %w", cfg.Topic, cfg.Partition, err)
	}
	s := &Stream{cfg: cfg, conn: conn, atEnd: true}
	start := cfg.Start
	if start < 0 {
		if start, err = s.boundary(ctx, start); err != nil {
			_ = conn.Close() // the first error tells what happened
			return nil, s.errorf("%w", err)
		}
	}
	s.life, s.endLife = context.WithCancel(context.Background())
	s.fetch = fetchSize{now: cfg.FetchBytes, most: min(MaxAdaptedFetchBytes, cfg.MaxFetchBytes)}
	if cfg.adaptive {
		s.share, s.fetch.now = cfg.memory.join(cfg.FetchBytes)
	}
	s.stats.FetchBytes = s.fetch.now
	s.moveTo(start)
	if cfg.Start >= 0 {
		s.given = start
	}
	s.consumed.Store(start)
	s.handed = start
	return s, nil
}

func (s *Stream) errorf(format string, args ...any) error {
	return fmt.Errorf("consume %s-%d: %w", s.cfg.Topic, s.cfg.Partition, fmt.Errorf(format, args...))
}

// moveTo lets the stream go on at an offset. Answers that are still on their
// way will not fit, and be thrown away.
func (s *Stream) moveTo(offset int64) {
	s.base, s.need, s.tornAt, s.given, s.atEnd = offset, 0, -1, -1, true
	s.tail, s.receiving = nil, true
	s.keepRoom()
	s.giveBack()
	s.dropAhead()
	s.it = message.Set(nil).Iterate(offset)
	s.chunkErr = nil
}

// iterate returns an iterator over a chunk that begins at an offset. A message
// that it gives is valid until the next one is asked for.
func (s *Stream) iterate(chunk []byte, offset int64) message.Iterator {
	if s.cfg.Shallow {
		return message.Set(chunk).IterateShallow(offset)
	}
	it := message.Set(chunk).Iterate(offset)
	it.LimitDecompressed(s.cfg.MaxDecompressedBytes)
	it.ReuseBuffer(&s.inflated)
	return it
}

// Next returns the next message. It blocks until there is one, ctx ends or the
// stream is closed; after ctx has ended it may be called again. Lost
// connections are made again. Errors that stay until [Stream.SeekTo]: damage (a
// [*message.CorruptError], [ErrTorn]), a message above a limit ([ErrTooLarge],
// [message.ErrTooLarge]), and an offset out of range under [ResetFail]
// ([wire.CodeOffsetOutOfRange]). After other errors a further call tries again.
func (s *Stream) Next(ctx context.Context) (Message, error) {
	s.handBack()
	if err := ctx.Err(); err != nil {
		return Message{}, err
	}
	for s.chunkErr != nil || !s.it.Next() {
		if err := s.advance(ctx); err != nil {
			return Message{}, err
		}
	}
	s.handed = s.it.NextOffset()
	m := s.it.Message()
	return Message{
		Partition:  s.cfg.Partition,
		Offset:     s.it.Offset(),
		NextOffset: s.handed,
		Payload:    m.Payload,
		Codec:      m.Codec(),
	}, nil
}

// NextChunk returns all messages that have been fetched and not yet been
// handed out; it blocks like Next. The application walks them and must look at
// [message.Iterator.Err] at the end: damage that it has met there is the error of
// further calls, as it is with Next. They are valid until the next call, which
// also counts them as consumed. A chunk holds at least one message, unless all in
// it are compressed ones that hold none.
func (s *Stream) NextChunk(ctx context.Context) (message.Iterator, error) {
	s.handBack()
	if err := ctx.Err(); err != nil {
		return message.Iterator{}, err
	}
	for s.chunkErr != nil || s.it.Err() != nil || len(s.it.Rest()) == 0 {
		if err := s.advance(ctx); err != nil {
			return message.Iterator{}, err
		}
	}
	chunk := s.it // goes on also in the middle of a compressed message
	chunk.ReuseBuffer(nil)
	chunk.ReportTo(&s.chunkErr)
	s.handed = chunk.NextOffset() + int64(len(chunk.Rest()))
	s.it = message.Set(nil).Iterate(s.handed)
	return chunk, nil
}

// handBack counts what the application holds as consumed, of a chunk what comes
// before any damage.
func (s *Stream) handBack() {
	if corrupt, ok := s.chunkErr.(*message.CorruptError); ok {
		s.handed = corrupt.Offset
	}
	s.consumed.Store(s.handed)
}

// advance gets the next chunk after the current one has been walked to its end.
func (s *Stream) advance(ctx context.Context) error {
	if err := cmp.Or(s.it.Err(), s.chunkErr); err != nil && s.failed == nil {
		s.failed = s.undecodable(err)
	}
	if s.chunkErr == nil && s.handed < s.it.NextOffset() {
		// The chunk ended with compressed messages that hold none.
		s.handed = s.it.NextOffset()
		s.consumed.Store(s.handed)
	}
	if s.life.Err() != nil {
		return s.errorf("%w", ErrClosed)
	}
	if s.failed != nil {
		return s.failed
	}
	return s.fill(ctx)
}

// undecodable is the error of a stream that has met a message which cannot be
// handed out.
func (s *Stream) undecodable(err error) error {
	doubt := ""
	var corrupt *message.CorruptError
	if errors.As(err, &corrupt) {
		doubt = s.doubt(corrupt.Offset)
	}
	if errors.Is(err, message.ErrTooLarge) {
		return s.errorf("%s%w: raise the limit of what is decompressed", doubt, err)
	}
	return s.errorf("%s%w", doubt, err)
}

// doubt is what an error of the message at an offset begins with: where the
// application has named the offset, that it may be wrong is the first to think of.
func (s *Stream) doubt(at int64) string {
	if at != s.given || at == 0 { // a log begins with a message
		return ""
	}
	return fmt.Sprintf("offset %d is perhaps not the start of a message: ", at)
}

// SeekTo lets the stream go on at an offset: one that the application has seen,
// to consume again from there, or one beyond damage. The messages it holds
// become invalid.
func (s *Stream) SeekTo(offset int64) error {
	if offset < 0 {
		return s.errorf("seek to offset %d: give one from 0 on", offset)
	}
	for _, a := range s.asked {
		// The broker may hold an answer back for long, and what is asked for next would
		// wait behind it. Or it is a large message, which nobody wants any more, and has
		// been let in for nothing.
		if s.conn != nil && (a.wait || s.cfg.large != nil && a.maxBytes > s.fetch.now) {
			s.disconnect()
			break
		}
	}
	s.moveTo(offset)
	s.given = offset
	s.failed, s.outOfRange = nil, false
	s.handed = offset
	s.consumed.Store(offset)
	return nil
}

// ConsumedOffset returns the offset behind the last message that the
// application is known to be done with: it has asked for the next one since.
// Starting there repeats at most the messages it holds, and loses none.
func (s *Stream) ConsumedOffset() int64 { return s.consumed.Load() }

// Stats returns the counts so far.
func (s *Stream) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// count changes the counts.
func (s *Stream) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// Close closes the connection and ends a Next in progress with [ErrClosed]. A
// second Close does nothing.
func (s *Stream) Close() error {
	s.endLife()
	if s.share != nil {
		s.share.leave()
	}
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return nil
	}
	return conn.Close()
}
