package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

// Sender publishes payloads to one partition of a topic, as [producer.Cluster] does.
type Sender interface {
	Send(ctx context.Context, topic string, key []byte, payloads ...[]byte) error
}

// ToPartition makes a Sender of a [producer.Producer], for which a partition must be
// named: Partition is asked for each Send. Keys are ignored.
type ToPartition struct {
	Producer  *producer.Producer
	Partition func(topic string) int32
}

// Send is [producer.Producer.Send].
func (t ToPartition) Send(ctx context.Context, topic string, _ []byte, payloads ...[]byte) error {
	return t.Producer.Send(ctx, topic, t.Partition(topic), payloads...)
}

// ProducerConfig describes a producer whose messages are audited. Zero fields take
// the defaults, where there are any.
type ProducerConfig struct {
	// Messages publishes the messages. Acked says that it waits for
	// acknowledgements, or writes in Send itself: after an error of it messages may
	// have arrived all the same.
	Messages Sender
	Acked    bool
	// RetryFor is how long a Send that fails is repeated, with the same envelopes: a
	// message that so arrives twice is counted as doubled, and one that was lost
	// with its connection arrives. 0: not at all.
	RetryFor time.Duration

	// Encode appends the payload of a body with a header to dst. An error is that of
	// the Send: none of its messages was made. Default: plain envelopes.
	Encode func(dst []byte, h envelope.Header, body []byte) ([]byte, error)

	// Events publishes the monitoring events. It must wait until they are flushed
	// ([producer.AcksFlushed]): what its Send returns nil for is taken as safe.
	Events Sender
	Topic  string // of the monitoring events; default: "audit"

	Server string        // of the envelopes; default: the name of the host
	Window time.Duration // default: 10 s; the windows begin at its multiples since 1970

	// Spool is a file for events that are not acknowledged yet. One that a process
	// leaves behind is published by the next one with the same spool; what was not
	// in a window that had closed is not in it. Empty: there is none.
	Spool string

	// NotSent, if set, is called with each error that tells of messages which were
	// taken, and counted, and are not known to have arrived.
	NotSent func(error)
	Logger  *slog.Logger // events that could not be published, never messages; nil: nothing is logged

	Files vfs.FS      // nil: the system's
	Clock clock.Clock // nil: the system's
}

func (c ProducerConfig) withDefaults() (ProducerConfig, error) {
	if c.Topic == "" {
		c.Topic = DefaultTopic
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Files == nil {
		c.Files = vfs.OS()
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Encode == nil {
		c.Encode = func(dst []byte, h envelope.Header, body []byte) ([]byte, error) {
			return envelope.Append(dst, h, body), nil
		}
	}
	if c.NotSent == nil {
		c.NotSent = func(error) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Server == "" {
		name, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("audit: the name of this host, for the envelopes: %w", err)
		}
		c.Server = name
	}
	switch {
	case c.Messages == nil || c.Events == nil:
		return c, errors.New("audit: a producer needs one Sender for messages and one for events")
	case c.RetryFor < 0:
		return c, fmt.Errorf("audit: repeat a Send for %v: give 0 or more", c.RetryFor)
	}
	return c, errors.Join(message.CheckTopic(c.Topic), envelope.CheckServer(c.Server), CheckWindow(c.Window))
}

// ErrUnpublished is returned by Send when so many windows wait for their events to be
// published that no more are taken: the topic of the events has been out of reach for
// very long.
var ErrUnpublished = errors.New("monitoring events cannot be published")

// maxWindows bounds the windows of a producer, of all topics: at the default length
// more than a day of ten topics.
const maxWindows = 100_000

// Producer publishes messages in envelopes that carry time, server, producer id and
// sequence number, counts them by topic and window, and publishes the counts as
// monitoring events (NetDB'11 §4). Its methods may be called by several goroutines at
// once.
//
// # What is counted
//
// A message counts as made when Messages.Send has taken it. One that it refused
// without doubt has never been: its sequence number goes to the next one. One of which
// that is not known is counted as in doubt: it is not missing where it is not there,
// and not too many where it is.
//
// The event of a window is published when the window is over; again, as the next
// revision, when a Send that has begun within it comes to its end later. [Producer.Close]
// closes all windows. Events that cannot be published are tried again until they are.
//
// The windows are those of this host's clock. When it is put back, messages go to a
// window whose event is published already: then that window has two events, of two
// parts.
type Producer struct {
	cfg ProducerConfig
	id  envelope.ProducerID

	life      context.Context // ends with Close
	endLife   context.CancelFunc
	ended     chan struct{} // closed when the publishing goroutine has ended
	spool     *spool
	closeOnce sync.Once
	closeErr  error

	mu      sync.Mutex // guards all below; never held over a Send
	closing bool
	topics  map[string]*topicCount
	windows int           // of all topics
	sending int           // Sends under way
	calm    chan struct{} // closed when there are none, while closing
	waiting []*Event      // found in the spool, not published yet
	stats   ProducerStats
}

// ProducerStats counts what a producer has done since it was made.
type ProducerStats struct {
	Made    int64 // messages that Messages.Send has taken
	InDoubt int64 // of which it is not known whether it has
	NotSent int64 // of Made, those that are known not to have arrived, or not for certain
	Retried int64 // Sends that were repeated
	Events  int64 // acknowledged, revisions too
	Waiting int   // events that are to be published: of windows that are over, and of earlier processes
}

// NewProducer returns a producer with an id of its own, which must be closed.
func NewProducer(cfg ProducerConfig) (*Producer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Producer{cfg: cfg, id: envelope.NewProducerID(), ended: make(chan struct{}), topics: map[string]*topicCount{}, calm: make(chan struct{})}
	if p.spool, p.waiting, err = openSpool(cfg.Files, cfg.Spool); err != nil {
		return nil, err
	}
	p.life, p.endLife = context.WithCancel(context.Background())
	go p.publishWindows()
	return p, nil
}

// ID returns the id that is in the envelopes.
func (p *Producer) ID() envelope.ProducerID { return p.id }

// Stats returns the counts so far.
func (p *Producer) Stats() ProducerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Waiting = len(p.waiting)
	now := p.cfg.Clock.Now().UnixMilli()
	for _, t := range p.topics {
		for _, w := range t.windows {
			if w.due(now, p.cfg.Window.Milliseconds()) {
				s.Waiting++
			}
		}
	}
	return s
}

// Send publishes bodies in envelopes, with one call of Messages.Send, and repeats it
// as RetryFor says. Its errors are those of that Send, in the same form: after a
// [*producer.PartialError] the first Taken bodies were taken.
func (p *Producer) Send(ctx context.Context, topic string, key []byte, bodies ...[]byte) error {
	if len(bodies) == 0 {
		return nil
	}
	s := sendings.Get().(*sending)
	defer s.release()
	if err := p.begin(s, topic, len(bodies)); err != nil {
		return fmt.Errorf("send to %s: %w", topic, err)
	}
	taken, inDoubt := 0, false
	err := s.encode(p.cfg.Encode, envelope.Header{Time: time.UnixMilli(s.milli), Server: p.cfg.Server, Producer: p.id}, bodies)
	if err != nil {
		err = fmt.Errorf("send to %s: %w", topic, err)
	} else {
		taken, inDoubt, err = p.send(ctx, s.payloads, topic, key)
	}
	p.end(s, taken, inDoubt)
	if err != nil && taken > 0 && taken < len(bodies) {
		err = &producer.PartialError{Taken: taken, Err: err}
	}
	return err
}

// Pauses between two attempts to send the same messages.
const (
	firstRetryPause = 20 * time.Millisecond
	maxRetryPause   = time.Second
)

// send publishes payloads, and tries again. It returns how many of them, the first
// ones, were taken, and whether the others may have arrived.
func (p *Producer) send(ctx context.Context, payloads [][]byte, topic string, key []byte) (taken int, inDoubt bool, err error) {
	began := p.cfg.Clock.Elapsed()
	for pause := firstRetryPause; ; pause = min(2*pause, maxRetryPause) {
		err = p.cfg.Messages.Send(ctx, topic, key, payloads[taken:]...)
		if err == nil {
			return len(payloads), false, nil
		}
		var partial *producer.PartialError
		if errors.As(err, &partial) {
			taken += partial.Taken
			err = partial.Err
		}
		p.noteLoss(err)
		final := errors.Is(err, producer.ErrTooLarge) || errors.Is(err, producer.ErrClosed)
		if p.cfg.Acked && !final && !errors.Is(err, producer.ErrQueueFull) {
			inDoubt = true
		}
		if final || ctx.Err() != nil || p.cfg.Clock.Elapsed()-began+pause > p.cfg.RetryFor {
			return taken, inDoubt, err
		}
		timer := p.cfg.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
		p.mu.Lock()
		p.stats.Retried++
		p.mu.Unlock()
	}
}

// noteLoss counts the messages that an error tells of although they were taken. With
// acks the error of a Send is about its own.
func (p *Producer) noteLoss(err error) {
	var lost *producer.NotSentError
	if !p.cfg.Acked && errors.As(err, &lost) {
		p.Lost(err)
	}
}

// Lost tells of messages that were taken, and counted, and have not arrived, or not
// for certain: when the producer behind Messages returns a [*producer.NotSentError]
// from its Flush or Close. Other errors, and nil, change nothing. It is to come before
// Close.
func (p *Producer) Lost(err error) {
	var lost *producer.NotSentError
	if !errors.As(err, &lost) {
		return
	}
	p.mu.Lock()
	p.stats.NotSent += lost.Messages
	for _, t := range p.topics {
		if t.current != nil {
			t.current.dirty = true // its event is to tell of it
		}
	}
	p.mu.Unlock()
	p.cfg.NotSent(err)
}
