package main

import (
	"bytes"
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// simulated is a time that goes on only while somebody waits.
type simulated struct {
	mu sync.Mutex
	t  time.Time
}

func (s *simulated) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.t
}

func (s *simulated) sleepUntil(_ context.Context, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.After(s.t) {
		s.t = t
	}
	return nil
}

// TestB22StallCounts: a broker that stands still for 2 s in a run of 20 s at 1000
// messages a second. Every message that the stall has held up counts with how
// long it was held up, counted from when it was to be sent (fault B22).
func TestB22StallCounts(t *testing.T) {
	const messages, rate = 20_000, 1000
	clock := &simulated{t: time.Unix(1_000_000_000, 0)}
	var done atomic.Int64
	s := &perfSending{
		o:     perfOptions{messages: messages, messageSize: 50, batch: 1, producers: 1, rate: rate, acks: producer.AcksAppended},
		clock: clock, begin: clock.t, done: &done, latencies: newLatencies(),
	}
	p := perfProducer{perfSending: s, messages: messages}
	stallAt := clock.t.Add(10 * time.Second)
	stalled := false
	err := p.sendAnswered(t.Context(), func(payloads ...[]byte) error {
		if !stalled && !clock.now().Before(stallAt) {
			stalled = true
			return clock.sleepUntil(t.Context(), stallAt.Add(2*time.Second))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > want/100+0.001 {
			t.Errorf("%s is %.3f ms, %.3f wanted", what, got, want)
		}
	}
	l := s.latencies.result("acknowledged")
	if l.Messages != messages || done.Load() != messages {
		t.Errorf("%d times of %d messages, %d counted", l.Messages, messages, done.Load())
	}
	// A tenth of the messages waited, evenly between 2 s and nothing.
	near("the median", l.P50Ms, 0)
	near("95 %", l.P95Ms, 1000)
	near("99 %", l.P99Ms, 1800)
	near("99.9 %", l.P999Ms, 1980)
	near("the worst", l.MaxMs, 2000)
	near("the mean", l.MeanMs, 100)
	if r := s.rate(); r.Missed || math.Abs(r.Achieved-rate) > 1 {
		t.Errorf("the rate was caught up with, and %+v", r)
	}
}

// TestRateNotReached: a broker that is too slow is told from one that keeps up.
func TestRateNotReached(t *testing.T) {
	for each, missed := range map[time.Duration]bool{900 * time.Microsecond: false, 1100 * time.Microsecond: true} {
		clock := &simulated{t: time.Unix(1_000_000_000, 0)}
		s := &perfSending{
			o:     perfOptions{messages: 1000, messageSize: 50, batch: 1, producers: 1, rate: 1000, acks: producer.AcksAppended},
			clock: clock, begin: clock.t, done: new(atomic.Int64), latencies: newLatencies(),
		}
		p := perfProducer{perfSending: s, messages: 1000}
		if err := p.sendAnswered(t.Context(), func(...[]byte) error { return clock.sleepUntil(t.Context(), clock.now().Add(each)) }); err != nil {
			t.Fatal(err)
		}
		if r := s.rate(); r.Missed != missed {
			t.Errorf("%v for each message: %+v", each, r)
		}
	}
}

// TestPerfPlansBatches: every message of a batch counts from its own time, so the
// first ones wait for the last.
func TestPerfPlansBatches(t *testing.T) {
	clock := &simulated{t: time.Unix(1_000_000_000, 0)}
	begin := clock.t
	s := &perfSending{
		o:     perfOptions{messages: 25, messageSize: 50, batch: 10, producers: 1, rate: 1000, acks: producer.AcksAppended},
		clock: clock, begin: begin, done: new(atomic.Int64), latencies: newLatencies(),
	}
	p := perfProducer{perfSending: s, messages: 25}
	check := perfCheck{next: map[uint64]uint64{}}
	var sent []time.Duration
	i := 0
	err := p.sendAnswered(t.Context(), func(payloads ...[]byte) error {
		sent = append(sent, clock.now().Sub(begin))
		for _, b := range payloads {
			if planned := check.payload(b); planned != begin.Add(time.Duration(i)*time.Millisecond).UnixNano() {
				t.Errorf("message %d is planned for %v", i, time.Unix(0, planned).Sub(begin))
			}
			i++
		}
		return nil
	})
	if err != nil || i != 25 || check.perfContent != (perfContent{}) {
		t.Errorf("%d messages, %+v, %v", i, check.perfContent, err)
	}
	if len(sent) != 3 || sent[0] != 9*time.Millisecond || sent[1] != 19*time.Millisecond || sent[2] != 24*time.Millisecond {
		t.Errorf("batches went at %v", sent)
	}
	if l := s.latencies.result(""); l.MaxMs != 9 {
		t.Errorf("%+v", l)
	}
}

func TestPerfContent(t *testing.T) {
	sender, buffers := newPerfSender(1, 60, true)
	message := func() []byte { return bytes.Clone(sender.next(buffers[0], time.Unix(5, 6))) }
	m0, m1, m2, m3 := message(), message(), message(), message()
	other, otherBuffers := newPerfSender(1, perfHeaderBytes, false)
	o0 := other.next(otherBuffers[0], time.Unix(7, 0))
	broken := bytes.Clone(m2)
	broken[40] ^= 1
	when := bytes.Clone(m2)
	when[20] ^= 1
	for name, test := range map[string]struct {
		payloads [][]byte
		middle   bool
		want     perfContent
	}{
		"all":             {[][]byte{m0, o0, m1, m2, m3}, false, perfContent{}},
		"one lost":        {[][]byte{m0, m1, m3}, false, perfContent{Lost: 1}},
		"the first lost":  {[][]byte{m2, m3}, false, perfContent{Lost: 2}},
		"from the middle": {[][]byte{m2, m3}, true, perfContent{}},
		"a hole behind":   {[][]byte{m1, m3}, true, perfContent{Lost: 1}},
		"one again":       {[][]byte{m0, m1, m0, m2}, false, perfContent{Doubled: 1}},
		"damaged":         {[][]byte{m0, m1, broken, m2}, false, perfContent{Damaged: 1}},
		"wrong time":      {[][]byte{m0, m1, when, m2}, false, perfContent{Damaged: 1}},
		"foreign":         {[][]byte{m0, []byte("hello"), nil, make([]byte, 50), m1}, false, perfContent{Foreign: 3}},
	} {
		c := perfCheck{next: map[uint64]uint64{}, middle: test.middle}
		for _, b := range test.payloads {
			c.payload(b)
		}
		if c.perfContent != test.want {
			t.Errorf("%s: %+v", name, c.perfContent)
		}
	}
	c := perfCheck{next: map[uint64]uint64{}}
	if ns := c.payload(m0); ns != 5_000_000_006 {
		t.Errorf("planned for %d", ns)
	}
}

func TestLatencies(t *testing.T) {
	l := newLatencies()
	if l.result("x") != nil {
		t.Error("nothing has a distribution")
	}
	now := time.Unix(1_000_000, 0)
	l.record(now, now.Add(-time.Millisecond), now.Add(time.Second)) // a clock that went back
	l.recordNs(now, []int64{now.Add(-3 * time.Hour).UnixNano()})    // longer than is told apart
	r := l.result("x")
	if r.Messages != 3 || r.P50Ms != 1 || r.MaxMs != 3*3_600_000 || r.P99Ms < 3_590_000 || r.P99Ms > 3_610_000 {
		t.Errorf("%+v", r)
	}
}

// lines is a writer that says when a line has come.
type lines struct {
	mu  sync.Mutex
	b   bytes.Buffer
	has chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.has <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestProgressLines: what is no terminal gets lines, and none at interval 0.
func TestProgressLines(t *testing.T) {
	out := &lines{has: make(chan struct{}, 1)}
	p := startProgress(out, "sent", 10, time.Millisecond)
	p.done.Store(7)
	for !strings.Contains(out.String(), "7 of 10 messages sent, ") {
		<-out.has
	}
	p.stop()
	p.stop()
	silent := &lines{}
	p = startProgress(silent, "read", 0, 0)
	if p.done.Add(5); !strings.HasPrefix(p.text(), "5 messages read, ") {
		t.Errorf("%q", p.text())
	}
	p.stop()
	if silent.String() != "" {
		t.Errorf("%q", silent.String())
	}
}

// TestPerfSaysWhatIsMissing: the log of the broker counts, not what was handed to
// a producer.
func TestPerfSaysWhatIsMissing(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.MaxMessageBytes = 100 })
	// Without acks a set with a message above the broker's limit is dropped, and
	// nobody says so.
	var out, errs bytes.Buffer
	if status := realMain(t.Context(), []string{"topics", "create", "--broker-list", b.HostPort(), "t"}, stdio{Out: &out, Err: &errs}); status != 0 {
		t.Fatal(errs.String())
	}
	status := realMain(t.Context(), []string{"perf", "produce", "--broker-list", b.HostPort(), "--topic", "t", "--messages", "10", "--message-size", "150"},
		stdio{Out: &out, Err: &errs})
	if status != 1 || !strings.Contains(errs.String(), "the log of t has grown by 0 bytes, not 1590: messages are missing") {
		t.Errorf("status %d: %s%s", status, out.String(), errs.String())
	}
}

// following is a perf consume --follow in the background.
type following struct {
	t         *testing.T
	out       *lines // progress
	interrupt context.CancelFunc
	result    chan *perfResult
	conn      *client.Conn
	sender    *perfSender
	buffers   [][]byte
}

func follow(t *testing.T, o perfOptions) *following {
	t.Helper()
	b := kafkatest.Start(t)
	conn, err := client.Dial(t.Context(), b.HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f := &following{t: t, conn: conn, out: &lines{has: make(chan struct{}, 1)}, result: make(chan *perfResult, 1)}
	f.sender, f.buffers = newPerfSender(1, 50, false)
	f.send(1) // makes the topic
	var ctx context.Context
	ctx, f.interrupt = context.WithCancel(t.Context())
	o.broker, o.topic, o.interval, o.progress = b.HostPort(), "t", time.Millisecond, f.out
	o.consumers, o.start, o.follow, o.fetchSize = 1, wire.TimeEarliest, true, 1000
	go func() {
		r, err := perfConsume(ctx, o)
		if err != nil {
			t.Error(err)
		}
		f.result <- r
	}()
	f.wait("1 messages read")
	return f
}

// send sends messages and waits until they are visible.
func (f *following) send(n int) {
	f.t.Helper()
	for range n {
		set := message.Append(nil, f.sender.next(f.buffers[0], time.Now()))
		if _, err := f.conn.AckedProduce(f.t.Context(), "t", 0, set, wire.AcksFlushed, time.Minute); err != nil {
			f.t.Fatal(err)
		}
	}
}

// wait waits for a line of progress.
func (f *following) wait(text string) {
	f.t.Helper()
	for !strings.Contains(f.out.String(), text) {
		select {
		case <-f.out.has:
		case <-f.t.Context().Done():
			f.t.Fatalf("no line %q", text)
		}
	}
}

// TestPerfEndToEnd: messages that were sent while it follows are timed from when
// they were planned, those of before are not.
func TestPerfEndToEnd(t *testing.T) {
	f := follow(t, perfOptions{messages: 21})
	f.send(20)
	r := <-f.result
	if r.Messages != 21 || r.Bytes != 21*59 || r.Latency == nil || r.Latency.Messages != 20 || r.Latency.MaxMs <= 0 || *r.perfContent != (perfContent{}) {
		t.Errorf("%+v, %v, %+v", r, r.Latency, r.perfContent)
	}
	f.interrupt()
}

// TestPerfFollowEndsWithAnInterrupt: the result is printed, and it is no failure.
func TestPerfFollowEndsWithAnInterrupt(t *testing.T) {
	f := follow(t, perfOptions{idleTimeout: time.Hour})
	f.interrupt()
	if r := <-f.result; r.Messages != 1 || r.Bytes != 59 || r.Latency != nil {
		t.Errorf("%+v", r)
	}
}
