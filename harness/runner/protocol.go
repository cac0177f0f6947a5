package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/scenario"
	"kafkalab/harness/workload"
	"kafkalab/results/resultfile"
)

// Phase is a part of an attempt.
type Phase string

// The phases, in order.
const (
	Reset  Phase = "reset"
	Start  Phase = "start"
	WarmUp Phase = "warm-up"
	// Fill stores what the measuring needs, Restart and DropCache are what
	// System.Before asks for.
	Fill      Phase = "fill"
	Restart   Phase = "restart"
	DropCache Phase = "drop cache"
	Measure   Phase = "measure"
	Drain     Phase = "drain"
	Verify    Phase = "verify"
)

// Spec is what a client process is told: one line of JSON on its standard
// input.
type Spec struct {
	Driver       string          `json:"driver"`
	Options      driver.Options  `json:"options"`
	Target       driver.Target   `json:"target"`
	Work         resultfile.Work `json:"work"`
	Queue        string          `json:"queue"`
	PayloadBytes int             `json:"payload_bytes"`
	RunID        uint64          `json:"run_id"` // in every payload
	// Messages is how many to send, or how many the backlog has.
	Messages int64 `json:"messages"`
	// First is the sequence number of the first message to send: so many the
	// queue holds already.
	First int64 `json:"first,omitempty"`
	// Backlog is how many the queue holds, of which a consume measures Messages
	// and checks all; 0: Messages.
	Backlog int64 `json:"backlog,omitempty"`
	// Queues are the queues of several consumers at once, each of which gets
	// everything; none: one consumer of Queue.
	Queues []string `json:"queues,omitempty"`
	// Fill makes a produce an unmeasured one, whose messages are to reach
	// Consumers consumers.
	Fill      bool `json:"fill,omitempty"`
	Consumers int  `json:"consumers,omitempty"`
	// Measured says that a consume is an attempt of its own. Otherwise it only
	// checks contents, and all of it is verification.
	Measured bool `json:"measured"`

	// Producers share the messages of a produce; 0 and 1: one does it. Beside are
	// consumers that receive, each, the First messages of the queue meanwhile.
	Producers int `json:"producers,omitempty"`
	Beside    int `json:"beside,omitempty"`
	// Shares is how many messages each of several producers has sent, of what a
	// consume has to check, behind the First ones.
	Shares []int64 `json:"shares,omitempty"`

	Stream *StreamSpec `json:"stream,omitempty"` // of work = stream alone
	Stock  *StockSpec  `json:"stock,omitempty"`  // of what comes after a crash
	Group  *GroupSpec  `json:"group,omitempty"`  // of work = rebalance alone
	// Pipeline is of work = pipeline alone.
	Pipeline *PipelineSpec `json:"pipeline,omitempty"`

	WarmUpQueue    string `json:"warm_up_queue,omitempty"`
	WarmUpMessages int64  `json:"warm_up_messages,omitempty"`
	// WarmUpBytes is their payload, and WarmUpOptions are those of the client
	// meanwhile: PayloadBytes and Options if there are none.
	WarmUpBytes   int            `json:"warm_up_bytes,omitempty"`
	WarmUpOptions driver.Options `json:"warm_up_options,omitempty"`

	// MayReorder says that messages out of order are no fault.
	MayReorder bool `json:"may_reorder,omitempty"`

	// Cap is the longest time of measuring, and VerifyLimit that of what is
	// consumed after it; 0 is without bound.
	Cap         time.Duration `json:"cap_ns"`
	VerifyLimit time.Duration `json:"verify_limit_ns"`
	// Stall is how long nothing may move before the client gives up.
	Stall time.Duration `json:"stall_ns"`
}

// check refuses what no runner would send.
func (s Spec) check() error {
	switch s.Work {
	case resultfile.Produce, resultfile.Consume, resultfile.Stream, resultfile.Crash, resultfile.Rebalance, resultfile.Pipeline:
	default:
		return fmt.Errorf("work %q: %q, %q, %q, %q, %q or %q is wanted", s.Work,
			resultfile.Produce, resultfile.Consume, resultfile.Stream, resultfile.Crash, resultfile.Rebalance, resultfile.Pipeline)
	}
	if s.Queue == "" || s.Messages <= 0 || s.Stall <= 0 || s.Cap < 0 || s.VerifyLimit < 0 || s.WarmUpMessages < 0 {
		return fmt.Errorf("queue %q, %d messages, stall %v, cap %v, verify limit %v, warm-up %d: a name, at least one message and times are wanted",
			s.Queue, s.Messages, s.Stall, s.Cap, s.VerifyLimit, s.WarmUpMessages)
	}
	if s.First < 0 || s.Backlog != 0 && s.Backlog < s.Messages || s.Fill && (s.Work != resultfile.Produce || s.First > 0) {
		return fmt.Errorf("first message %d, backlog %d of which %d are consumed, filling %v: what a queue holds already cannot be filled in, and no less than is consumed",
			s.First, s.Backlog, s.Messages, s.Fill)
	}
	if produce := s.Work == resultfile.Produce && !s.Fill; s.Producers < 0 || s.Beside < 0 || s.Producers > 1 && !produce || s.Beside > 0 && (!produce || s.First == 0) {
		return fmt.Errorf("work %q, %d producers, %d consumers beside them, %d messages before: several producers, and consumers of what was there before, belong to a produce",
			s.Work, s.Producers, s.Beside, s.First)
	}
	if len(s.Shares) > 0 && s.Work != resultfile.Consume {
		return fmt.Errorf("work %q: the shares of several producers are for a consume", s.Work)
	}
	if (s.Work == resultfile.Stream) != (s.Stream != nil) || s.Stream != nil && !(s.Stream.Rate > 0 && s.Stream.Rate <= scenario.MaxRate) {
		return fmt.Errorf("work %q, stream %+v: a planned rate belongs to every stream, and to no other work", s.Work, s.Stream)
	}
	if s.Stock != nil && (s.Work != resultfile.Consume || s.Measured || s.Stock.Promised < 0) {
		return fmt.Errorf("work %q, measured %v, stock %+v: taking stock is an unmeasured consume", s.Work, s.Measured, s.Stock)
	}
	if (s.Work == resultfile.Rebalance) != (s.Group != nil) || s.Group != nil && s.Group.Consumers < 2 {
		return fmt.Errorf("work %q, group %+v: a group of at least 2 consumers belongs to every rebalance, and to no other work", s.Work, s.Group)
	}
	if p := s.Pipeline; (s.Work == resultfile.Pipeline) != (p != nil) || p != nil && (!(p.Rate > 0 && p.Rate <= scenario.MaxRate) || p.Program == "" || p.Dir == "") {
		return fmt.Errorf("work %q, pipeline %+v: a planned rate, a program and a folder belong to every pipeline, and to no other work", s.Work, p)
	}
	if s.WarmUpMessages > 0 && (s.WarmUpQueue == "" || s.WarmUpQueue == s.Queue) {
		return fmt.Errorf("warm-up queue %q: another name than the measured one's is wanted", s.WarmUpQueue)
	}
	return nil
}

// backlog is how many messages are there for each consumer.
func (s Spec) backlog() int64 { return max(s.Backlog, s.Messages) }

// total is how many messages all consumers together, or the producer, move
// while measuring.
func (s Spec) total() int64 { return s.Messages * int64(max(len(s.Queues), 1)) }

// Event is one line that a client process reports.
type Event struct {
	// Phase says that this phase begins. If Wait is set, the client goes on
	// when it reads a line from its input.
	Phase Phase `json:"phase,omitempty"`
	Wait  bool  `json:"wait,omitempty"`
	// Point is a point of the measured phase.
	Point *resultfile.Point `json:"point,omitempty"`
	// Latency is what a stream's messages of the last interval have taken.
	Latency *StreamLatency `json:"latency,omitempty"`
	// Moved is how many messages were sent or received so far in a phase that
	// has no points. An event without anything is a sign of life.
	Moved int64  `json:"moved,omitempty"`
	Note  string `json:"note,omitempty"`
	// Part is something to be done to the server, of work = pipeline alone. The
	// client goes on with it when it reads a line.
	Part *PartEvent `json:"part,omitempty"`
	// GivingUp says why the client ends early. A driver that does not return
	// may keep it from saying more.
	GivingUp string  `json:"giving_up,omitempty"`
	Result   *Result `json:"result,omitempty"` // the last event
}

// Result is what a client process found, as far as it came.
type Result struct {
	Sent          int64   `json:"sent"`           // handed over, or consumed while measuring
	ClientSeconds float64 `json:"client_seconds"` // until the last Send returned
	Messages      int64   `json:"messages"`       // arrived at the server, or consumed while measuring
	Seconds       float64 `json:"seconds"`        // from the first send until the last of Messages
	StoredSize    int     `json:"stored_size"`    // of a message in the server's own format, 0 if not known
	CPUSeconds    float64 `json:"cpu_seconds"`    // of the client, while measuring and draining
	// BeganUnixNano is when measuring began, by the clock of the client host; 0: it
	// did not.
	BeganUnixNano int64 `json:"began_unix_nano,omitempty"`

	// Checked says that Contents holds every message, Partly that it holds
	// those that came within the time for it.
	Checked  bool            `json:"checked"`
	Partly   bool            `json:"partly"`
	Contents workload.Result `json:"contents"`

	// Shares is how many messages each of several producers has sent.
	Shares []int64 `json:"shares,omitempty"`
	// Queues are where a fill's messages went, one for each consumer.
	Queues []string `json:"queues,omitempty"`
	// Measures go into those of the attempt.
	Measures map[string]float64 `json:"measures,omitempty"`

	// Promised is how many of the messages sent before a crash the server had
	// confirmed, and Ended why no more were sent.
	Promised int64  `json:"promised,omitempty"`
	Ended    string `json:"ended,omitempty"`
	// LostPromised is how many of them taking stock has not found.
	LostPromised int64                   `json:"lost_promised,omitempty"`
	Group        *driver.RebalanceResult `json:"group,omitempty"` // of a rebalance
	Pipeline     *driver.PipelineResult  `json:"pipeline,omitempty"`

	Cut     bool     `json:"cut"` // held to the cap
	Blocked []string `json:"blocked,omitempty"`
	Fault   string   `json:"fault,omitempty"`   // counts or contents are wrong: the attempt is invalid
	Failure string   `json:"failure,omitempty"` // it did not run to its end
}

// maxLineBytes bounds a line of the protocol; the longest is a result with an
// error's text.
const maxLineBytes = 1 << 20

// link is the client's end of the protocol.
type link struct {
	in *bufio.Scanner // for its reader alone

	mu  sync.Mutex
	out *json.Encoder
	err error // the first failure to write, after which the runner is gone
}

func newLink(in io.Reader, out io.Writer) *link {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	return &link{in: s, out: json.NewEncoder(out)}
}

// send reports an event. Events of several goroutines do not mix.
func (l *link) send(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.out.Encode(e)
	}
}

// sent returns the first failure of send.
func (l *link) sent() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// lines hands each whole line that is written to it to a function, in the
// writer's goroutine. A line that is too long ends it with an error.
type lines struct {
	part   []byte
	handle func(line []byte) error
}

func (w *lines) Write(p []byte) (int, error) {
	for rest := p; ; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if len(w.part)+len(line) > maxLineBytes {
			return 0, fmt.Errorf("a line of more than %d bytes", maxLineBytes)
		}
		w.part = append(w.part, line...)
		if !whole {
			return len(p), nil
		}
		err := w.handle(w.part)
		w.part = w.part[:0]
		if err != nil {
			return 0, err
		}
		rest = after
	}
}
