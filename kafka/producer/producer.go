package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Acks says which answer a request waits for.
type Acks int

// The levels of acknowledgement, weakest first.
const (
	AcksNone     Acks = iota // no answer, as in the paper
	AcksReceived             // the broker has read and checked the message set
	AcksAppended             // it is in the log, and lost by a power loss before its flush
	AcksFlushed              // it is on disk and visible to consumers
)

var acksNames = [...]string{"none", "received", "appended", "flushed"}

func (a Acks) String() string {
	if a < 0 || int(a) >= len(acksNames) {
		return fmt.Sprintf("acks(%d)", int(a))
	}
	return acksNames[a]
}

// ParseAcks reads the name of a level, as [Acks.String] writes it.
func ParseAcks(name string) (Acks, error) {
	for a, n := range acksNames {
		if n == name {
			return Acks(a), nil
		}
	}
	return 0, fmt.Errorf("acks %q: give none, received, appended or flushed", name)
}

// wire returns the level as requests carry it.
func (a Acks) wire() wire.Acks { return wire.Acks(a - AcksReceived) }

// Defaults of [Config].
const (
	DefaultBatchMessages   = 200             // 0.7's batch.size
	DefaultQueueInterval   = 5 * time.Second // 0.7's queue.time
	DefaultAckTimeout      = 10 * time.Second
	DefaultMaxInFlight     = 64
	DefaultMaxMessageBytes = 1_000_000 // 0.7's max.message.size
	DefaultMaxBufferBytes  = 1 << 20
	DefaultDialTimeout     = 5 * time.Second // 0.7's connect.timeout.ms
	// DefaultReconnectInterval is the default for the static list of a cluster
	// alone. 0.7 had a new connection after 30,000 requests, which a producer of
	// today has sent in a tenth of a second, or 10,000 s, in which a broker that
	// has come back behind a load balancer gets nothing.
	DefaultReconnectInterval = time.Minute
)

// Config describes a producer. Zero fields take the defaults.
type Config struct {
	// Brokers are addresses, host and port. One is picked at random for each
	// connection, and the others are tried when it cannot be reached.
	Brokers []string

	Async         bool
	BatchMessages int           // messages of a batch, asynchronous only
	QueueInterval time.Duration // how long a partial batch waits, asynchronous only

	Acks        Acks
	AckTimeout  time.Duration // how long the broker may hold an answer back
	MaxInFlight int           // requests that wait for an answer

	// NoCoalesce writes each request by itself, and a synchronous Send returns
	// after the write of its own.
	NoCoalesce bool

	// Codec compresses what would be a message set into one message of magic 1,
	// which every consumer of 0.7 reads. Default: none, and messages of magic 0.
	Codec message.Codec

	// MaxMessageBytes bounds a payload as it is sent (inclusive): with a codec, a
	// compressed one. It should be what the broker takes.
	MaxMessageBytes int
	// MaxBufferBytes bounds each of the two buffers, and the message set of a
	// batch before it is compressed. A request that is larger has a buffer to
	// itself. The open batches together may take four times it, and what empty ones
	// keep for the next messages of their partitions eight times, and a sixteenth of it
	// for each of up to 1024 partitions.
	MaxBufferBytes int

	// QueueFull is what Send does when the buffers, and what waits for
	// acknowledgements, leave no room for its messages. A producer that writes in
	// Send itself (synchronous, with acks or NoCoalesce) keeps nothing for later
	// and has QueueWait alone: bound its Send by ctx.
	QueueFull    QueuePolicy
	QueueTimeout time.Duration // of one Send, with QueueWaitAtMost alone

	// DialTimeout bounds the connecting to one broker, and how long a caller
	// whose context has no deadline waits while no broker can be reached.
	DialTimeout    time.Duration
	RequestTimeout time.Duration // of one write, and of one answer beside AckTimeout; 0: the client package's

	// ReconnectRequests and ReconnectInterval end a connection on purpose, after
	// so many requests (at least) or so much time, so that a load balancer deals
	// the next one anew (NetDB'11 §4; Kafka 0.7's reconnect.interval and
	// reconnect.time.interval.ms). The next send makes the new connection, once
	// all on the old one has been confirmed: nothing is in doubt for it. The first
	// interval is shorter, by chance, so that producers that start together do not
	// reconnect together. 0 or less: never; but see [ClusterConfig.StaticBrokers].
	ReconnectRequests int
	ReconnectInterval time.Duration

	Logger *slog.Logger // connections and losses, never messages; nil: nothing is logged
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Brokers) == 0 {
		return c, errors.New("producer: no broker is given: name at least one host:port")
	}
	return c.withLimits()
}

// withLimits fills in and checks all but the brokers.
func (c Config) withLimits() (Config, error) {
	setDefault(&c.BatchMessages, DefaultBatchMessages)
	setDefault(&c.QueueInterval, DefaultQueueInterval)
	setDefault(&c.AckTimeout, DefaultAckTimeout)
	setDefault(&c.MaxInFlight, DefaultMaxInFlight)
	setDefault(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	setDefault(&c.MaxBufferBytes, DefaultMaxBufferBytes)
	setDefault(&c.DialTimeout, DefaultDialTimeout)
	setDefault(&c.RequestTimeout, client.DefaultRequestTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Acks < AcksNone || c.Acks > AcksFlushed:
		return c, fmt.Errorf("producer: %v: give one of none, received, appended, flushed", c.Acks)
	case c.Codec > message.CodecSnappy:
		return c, fmt.Errorf("producer: codec %v: give one of none, gzip, snappy", c.Codec)
	case c.QueueFull < QueueWait || c.QueueFull > QueueError:
		return c, fmt.Errorf("producer: when the queue is full, %v: give one of wait, wait at most, drop, error", c.QueueFull)
	case c.QueueFull != QueueWait && c.writesInSend():
		return c, fmt.Errorf("producer: when the queue is full, %v: a synchronous producer with acks or NoCoalesce has no queue: bound its Send by a deadline, or set Async", c.QueueFull)
	case c.QueueFull == QueueWaitAtMost && c.QueueTimeout <= 0:
		return c, fmt.Errorf("producer: when the queue is full, %v %v: say how long, more than 0", c.QueueFull, c.QueueTimeout)
	case c.QueueFull != QueueWaitAtMost && c.QueueTimeout != 0:
		return c, fmt.Errorf("producer: queue timeout %v when the queue is full: %v: it goes with wait at most alone", c.QueueTimeout, c.QueueFull)
	case c.BatchMessages < 0 || c.QueueInterval < 0 || c.AckTimeout < 0 || c.MaxInFlight < 0 || c.MaxMessageBytes < 0 ||
		c.MaxBufferBytes < 0 || c.DialTimeout < 0 || c.RequestTimeout < 0:
		return c, errors.New("producer: a limit is negative: give 0 for the default")
	case c.MaxMessageBytes > maxMessageBytes:
		return c, fmt.Errorf("producer: messages of %d bytes do not fit a request: at most %d do", c.MaxMessageBytes, maxMessageBytes)
	case c.MaxBufferBytes > maxSetBytes:
		return c, fmt.Errorf("producer: a buffer of %d bytes could fill with one batch, and that would not fit a request: at most %d do", c.MaxBufferBytes, maxSetBytes)
	}
	return c, nil
}

// writesInSend reports whether Send writes its request itself instead of leaving
// it to the writer goroutine.
func (c *Config) writesInSend() bool { return !c.Async && (c.NoCoalesce || c.Acks != AcksNone) }

const (
	// maxSetBytes is the largest message set for which there is a request, with
	// room for the longest topic.
	maxSetBytes = wire.MaxRequestSize - 1024
	// maxMessageBytes is the largest payload that makes such a set.
	maxMessageBytes = maxSetBytes - message.Overhead0
)

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Producer publishes messages over one connection at a time. Its methods may
// be called by several goroutines at once.
type Producer struct {
	cfg Config

	// gathers says that a Send of few payloads puts them into the buffer as they are,
	// and leaves the rest to the writer goroutine.
	gathers bool

	ctx     context.Context // of the background work: ends in Close
	cancel  context.CancelFunc
	stopped chan struct{}  // closed when the writer goroutine has ended
	readers sync.WaitGroup // one for each connection
	wake    chan struct{}  // a token when the writer goroutine has work

	closeOnce sync.Once
	closeErr  error

	mu      sync.Mutex // guards all below; never held over I/O
	closing bool       // Close has begun
	ended   bool       // it has settled everything
	topic   string     // the last one that was found legal
	fill    buffer     // what Send encodes into
	spare   buffer     // empty, or being written while writing is set
	writing bool       // one goroutine writes or connects
	idle    bool       // the writer goroutine waits for wake

	batches   map[batchKey]*batch // asynchronous: open batches, and empty ones for reuse
	last      *batch              // the one that was used last
	openBytes int                 // of all open batches
	kept      int                 // memory of the empty ones that are large, in bytes
	packed    []byte              // the last one that was compressed
	full      int                 // batches that are full and wait for room in fill
	dueWaits  bool                // a batch that is due waits for room, too

	link    *link // the connection, or nil
	dialing bool  // who has set writing is still connecting, and has taken nothing out of fill
	reconnect

	// Of a cluster: whose producer this is, or nil.
	owner             *member
	retired           bool     // takes nothing more, as its broker has gone
	left              []parcel // what was left unwritten after retired or Close
	flying            count    // without acks: what is being written
	movedIn, movedOut int64    // messages that came from, and went to, other producers of the cluster

	// Flush counts rounds: a round is confirmed when the answer of a barrier
	// that was sent after it began has come.
	wanted, confirmed int64
	// Acknowledged requests in order: put into fill so far, and resolved.
	put, resolved int64

	changed chan struct{} // closed and replaced when waiters must look again
	waiters int

	loss  loss // not yet reported
	stats Stats
}

// Stats counts what a producer has done since it was made. At any time
// Sent = Delivered + Dropped + Failed + what it has taken and not settled yet,
// which is nothing after Close.
type Stats struct {
	Sent      int64 // messages that Send has taken, dropped or refused; again when it is called again
	Delivered int64 // that a broker has read or, with acks, acknowledged
	Dropped   int64 // by QueueDrop
	// Failed counts messages for which there is, or will be, an error: those that
	// Send refused, and those that it had taken and a NotSentError counts.
	Failed       int64
	Bytes        int64 // of the entries taken, uncompressed: payloads and 9 bytes each
	Requests     int64 // encoded
	RequestBytes int64 // of their message sets: with a codec, fewer than Bytes
	Writes       int64 // system calls that were asked for
	Connects     int64
}

// New connects to one of the brokers and returns a producer, which must be
// closed. ctx bounds only the connecting.
func New(ctx context.Context, cfg Config) (*Producer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := newProducer(cfg, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.connect(ctx); err != nil {
		p.cancel()
		return nil, err
	}
	go p.run()
	return p, nil
}

// newProducer returns a producer without a connection, whose goroutine is still to
// be started.
func newProducer(cfg Config, owner *member) *Producer {
	p := &Producer{
		cfg:     cfg,
		gathers: owner == nil && !cfg.Async && !cfg.writesInSend() && cfg.Codec == message.CodecNone,
		owner:   owner,
		stopped: make(chan struct{}),
		wake:    make(chan struct{}, 1),
		changed: make(chan struct{}),
		batches: map[batchKey]*batch{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Stats returns the counts so far.
func (p *Producer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// wait releases mu until something has changed or ctx ends.
func (p *Producer) wait(ctx context.Context) error {
	p.waiters++
	changed := p.changed
	p.mu.Unlock()
	var err error
	select {
	case <-changed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	p.waiters--
	return err
}

// broadcast lets all waiters look again.
func (p *Producer) broadcast() {
	if p.owner != nil && p.owner.cluster.roomWaiters.Load() > 0 {
		p.owner.cluster.broadcast()
	}
	if p.waiters > 0 {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// signal wakes the writer goroutine if it is idle. A busy one looks by itself.
func (p *Producer) signal() {
	if p.idle {
		p.idle = false
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}
