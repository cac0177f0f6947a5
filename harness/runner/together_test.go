package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/measure"
	"kafkalab/harness/workload"
	"kafkalab/results/resultfile"
)

// logStandIn is a log in memory, to which several may send and which several may
// read: the part of a system that several producers need. Its client runs in this
// process. spoil, if not nil, changes what a consumer gets.
type logStandIn struct {
	mu    sync.Mutex
	of    map[string][][]byte
	spoil func(queue string, n int, payload []byte) []byte
	fail  error // of every Send behind the 100th
}

func newLogStandIn() *logStandIn { return &logStandIn{of: map[string][][]byte{}} }

func (*logStandIn) Name() string                                           { return "log" }
func (*logStandIn) Check(context.Context, host.Host, driver.Options) error { return nil }
func (*logStandIn) Settings(context.Context, host.Host, driver.Options) ([]driver.Setting, error) {
	return nil, nil
}
func (*logStandIn) Start(context.Context, host.Host, string, driver.Options) (driver.Server, error) {
	return nil, errors.New("it has no server")
}
func (l *logStandIn) Connect(context.Context, driver.Target, driver.Options) (driver.Client, error) {
	return &logClient{l}, nil
}

type logClient struct{ l *logStandIn }

func (c *logClient) Producer(_ context.Context, queue string) (driver.Producer, error) {
	return &logProducer{l: c.l, queue: queue}, nil
}
func (c *logClient) Consumer(_ context.Context, queue string) (driver.Consumer, error) {
	return &logConsumer{l: c.l, queue: queue}, nil
}
func (c *logClient) Arrived(_ context.Context, queue string) (int64, error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return int64(len(c.l.of[queue])), nil
}
func (c *logClient) Close(context.Context) error { return nil }

type logProducer struct {
	l     *logStandIn
	queue string
	sent  int
}

func (p *logProducer) Send(ctx context.Context, payload []byte) error {
	p.sent++
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if p.l.fail != nil && p.sent > 100 {
		return p.l.fail
	}
	p.l.of[p.queue] = append(p.l.of[p.queue], slices.Clone(payload))
	return ctx.Err()
}
func (p *logProducer) Flush(ctx context.Context) error { return ctx.Err() }

type logConsumer struct {
	l     *logStandIn
	queue string
	at    int
}

func (c *logConsumer) Receive(ctx context.Context, handle func([]byte) error) error {
	for {
		c.l.mu.Lock()
		there := c.l.of[c.queue]
		c.l.mu.Unlock()
		if c.at < len(there) {
			end := min(c.at+50, len(there))
			for ; c.at < end; c.at++ {
				payload := there[c.at]
				if c.l.spoil != nil {
					payload = c.l.spoil(c.queue, c.at, payload)
				}
				if err := handle(payload); err != nil {
					return err
				}
			}
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// clientOf runs a client in this process, and returns what it found and said.
func clientOf(t *testing.T, d driver.Driver, spec Spec) (Result, []Event) {
	t.Helper()
	spec.Driver, spec.Queue, spec.PayloadBytes, spec.RunID = d.Name(), "bench", 200, 77
	if spec.Stall == 0 {
		spec.Stall = 20 * time.Second
	}
	in, toClient := io.Pipe()
	fromClient, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := RunClient(t.Context(), in, out, driver.NewTable(d))
		out.Close()
		ended <- err
	}()
	to, from := json.NewEncoder(toClient), json.NewDecoder(fromClient)
	if err := to.Encode(spec); err != nil {
		t.Fatal(err)
	}
	var events []Event
	for {
		var e Event
		if err := from.Decode(&e); err != nil {
			t.Fatalf("the client ended without a result: %v, %v", err, <-ended)
		}
		events = append(events, e)
		if e.Result != nil {
			break
		}
		if e.Wait {
			if err := to.Encode("go"); err != nil {
				t.Fatal(err)
			}
		}
	}
	toClient.Close()
	fromClient.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return *events[len(events)-1].Result, events
}

// filledLog is a log that holds so many messages of the run.
func filledLog(t *testing.T, messages int64) *logStandIn {
	t.Helper()
	l := newLogStandIn()
	r, _ := clientOf(t, l, Spec{Work: resultfile.Produce, Fill: true, Messages: messages})
	if r.Sent != messages || r.Failure != "" {
		t.Fatalf("%+v", r)
	}
	return l
}

// slowly lets a consumer have 50 messages in a millisecond at most.
func slowly(_ string, n int, payload []byte) []byte {
	if n%50 == 0 {
		time.Sleep(time.Millisecond)
	}
	return payload
}

// Several producers share the messages, and each one's are checked by themselves.
func TestSeveralProducers(t *testing.T) {
	const producers, messages = 3, 10_000
	l := newLogStandIn()
	r, events := clientOf(t, l, Spec{Work: resultfile.Produce, Messages: messages, Measured: true, Producers: producers})
	if r.Failure+r.Fault != "" || r.Sent != messages || r.Messages != messages || r.Cut || len(r.Measures) != 0 {
		t.Fatalf("%+v", r)
	}
	if !slices.Equal(r.Shares, []int64{3334, 3333, 3333}) {
		t.Errorf("shares %v", r.Shares)
	}
	var last *resultfile.Point
	for _, e := range events {
		if e.Point != nil {
			last = e.Point
		}
	}
	if last == nil || last.Messages != messages || last.Arrived != messages {
		t.Errorf("last point %+v", last)
	}
	check := Spec{Work: resultfile.Consume, Messages: messages, Shares: r.Shares}
	if r, _ := clientOf(t, l, check); r.Failure+r.Fault != "" || !r.Checked || r.Contents.Received != messages {
		t.Errorf("%+v", r)
	}
	// One that is changed, one in the place of another, and one of nobody here.
	foreign, err := workload.NewGenerator(shareID(77, producers), 200)
	if err != nil {
		t.Fatal(err)
	}
	l.spoil = func(_ string, n int, payload []byte) []byte {
		switch n {
		case 10:
			payload = slices.Clone(payload)
			payload[150]++
		case 20:
			return l.of["bench"][19]
		case 30:
			return foreign.Next()
		}
		return payload
	}
	check.Stall = time.Second // what is lost is waited for
	r, _ = clientOf(t, l, check)
	if c := r.Contents; c.Damaged != 2 || c.Foreign != 1 || c.Doubled != 1 {
		t.Errorf("%+v", r)
	}
}

// Shares behind messages that were there before are told from those.
func TestSharesBehindAFill(t *testing.T) {
	l := filledLog(t, 500)
	r, _ := clientOf(t, l, Spec{Work: resultfile.Produce, Messages: 1001, First: 500, Measured: true, Producers: 2})
	if r.Failure+r.Fault != "" || r.Messages != 1001 {
		t.Fatalf("%+v", r)
	}
	s := newShares(77, r.Shares)
	for _, payload := range l.of["bench"][1:] {
		if err := s.Check(payload); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Result(1501); got.Lost != 1 || got.Received != 1500 || got.Damaged+got.Doubled+got.Reordered+got.Unexpected != 0 {
		t.Errorf("%+v", got)
	}
	if got := newShares(77, []int64{3, 4}).Result(10); got.Lost != 10 {
		t.Errorf("of nothing: %+v", got)
	}
}

// Consumers beside the producers receive what was there before; nobody goes on
// when one side has come to its end.
func TestProducersAndConsumersTogether(t *testing.T) {
	for _, c := range []struct {
		name           string
		fill, messages int64
		producers      int
		consumers      int
	}{
		{"the consumers end first", 200, 2_000_000, 1, 3},
		{"the producer ends first", 200_000, 100, 1, 2},
		{"several of each", 300, 2_000_000, 4, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := filledLog(t, c.fill)
			if c.messages < 1000 {
				l.spoil = slowly
			}
			r, _ := clientOf(t, l, Spec{Work: resultfile.Produce, Messages: c.messages, First: c.fill, Measured: true, Producers: c.producers, Beside: c.consumers})
			if r.Failure+r.Fault != "" || r.Cut || r.Messages != r.Sent || r.Sent == 0 || r.Seconds <= 0 {
				t.Fatalf("%+v", r)
			}
			received := r.Measures["consumed_per_second"] * r.Measures["together_seconds"]
			all := float64(c.fill) * float64(c.consumers)
			if c.messages > 1000 && (r.Sent >= c.messages || received < all*0.999) {
				t.Errorf("%d of %d were sent, and %v of %v received", r.Sent, c.messages, received, all)
			}
			if c.messages < 1000 && (r.Sent != c.messages || received >= all) {
				t.Errorf("%d of %d were sent, and %v of %v received", r.Sent, c.messages, received, all)
			}
			l.spoil = nil
			check := Spec{Work: resultfile.Consume, Messages: c.fill + r.Sent, Shares: r.Shares}
			if r, _ := clientOf(t, l, check); r.Failure+r.Fault != "" || !r.Checked {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestTogetherFails(t *testing.T) {
	spec := Spec{Work: resultfile.Produce, Messages: 1_000_000, First: 5_000, Measured: true, Producers: 2, Beside: 2}
	l := filledLog(t, 5_000)
	l.fail = errors.New("connection reset")
	if r, _ := clientOf(t, l, spec); !strings.Contains(r.Failure, "of 2: sending message 100: connection reset") || len(r.Measures) != 0 {
		t.Errorf("a producer that fails: %+v", r)
	}
	l = filledLog(t, 5_000)
	l.spoil = func(_ string, n int, payload []byte) []byte {
		if n == 7 {
			return make([]byte, 200)
		}
		return payload
	}
	if r, _ := clientOf(t, l, spec); !strings.Contains(r.Fault, "consumer 1 of 2 beside the producers") || !strings.Contains(r.Fault, "1 damaged") {
		t.Errorf("a consumer that gets damage: %+v", r)
	}
	l = filledLog(t, 4_999)
	if r, _ := clientOf(t, l, spec); !strings.Contains(r.Failure, "4999 messages in bench before the first was sent, where 5000 are") {
		t.Errorf("less than was filled in: %+v", r)
	}
	for name, s := range map[string]Spec{
		"consumers without a fill": {Work: resultfile.Produce, Messages: 1, Beside: 1},
		"producers of a consume":   {Work: resultfile.Consume, Messages: 1, Producers: 2},
		"shares of a produce":      {Work: resultfile.Produce, Messages: 1, Shares: []int64{1}},
	} {
		s.Queue, s.Stall = "bench", time.Second
		if err := s.check(); err == nil {
			t.Errorf("%s are taken", name)
		}
	}
}

// With a cap everybody stops at it, and the attempt says so.
func TestTogetherIsHeld(t *testing.T) {
	l := filledLog(t, 50_000)
	l.spoil = slowly
	r, _ := clientOf(t, l, Spec{Work: resultfile.Produce, Messages: 1_000_000_000, First: 50_000, Measured: true, Beside: 1, Cap: 200 * time.Millisecond})
	if r.Failure+r.Fault != "" || !r.Cut || r.Sent == 0 {
		t.Errorf("%+v", r)
	}
}

// As a part of a run, with a server and its verification.
func TestRunWithConsumersBeside(t *testing.T) {
	t.Parallel()
	x := system("x", "slow") // so that each side gets its turn while the other is at work
	x.FillMessages, x.Beside = 20_000, 2
	p := newPlan(t, 5_000, scenarioOf("send", resultfile.Produce, x))
	if err := errors.Join(p.Check(t.Context()), Run(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
	a := attemptOf(t, read(t, p), "send-x-1")
	if a.Outcome != resultfile.Valid || !a.Verified || a.Messages == 0 || a.Measures["consumed_per_second"] <= 0 {
		t.Errorf("%+v", a)
	}
	nothingLeft(t, p)
}

// The link is without a rate for the scenarios that ask for that, and for no
// others; it has its rate again at the end, however that comes.
func TestLinkOfScenarios(t *testing.T) {
	free := scenarioOf("free", resultfile.Produce, system("x", "none"), system("y", "none"))
	free.Unshaped = true
	t.Run("to the end", func(t *testing.T) {
		t.Parallel()
		p := newPlan(t, 2_000, scenarioOf("send", resultfile.Produce, system("x", "none"), system("y", "none")), free)
		p.Selection.Repeat = 2
		lifted, wrong := false, 0
		p.Unshape = func(_ context.Context, lift bool) error { lifted = lift; return nil }
		touched := 0
		p.TouchMemory = func(context.Context) (measure.Held, error) {
			touched++
			return measure.Held{TouchedBytes: 1 << 26, Seconds: 0.5}, nil
		}
		p.Progress = func(u Update) {
			if u.Phase == Measure && lifted != (u.Attempt.Scenario == "free") {
				wrong++
			}
		}
		if err := Run(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if wrong > 0 || lifted {
			t.Errorf("%d updates with the other link; lifted at the end: %v", wrong, lifted)
		}
		// Memory is made ready once for each.
		attempts := read(t, p).Run.Attempts
		for _, a := range attempts {
			if a.Measures["memory_touched_bytes"] != 1<<26 || a.Measures["memory_touching_seconds"] != 0.5 {
				t.Errorf("%s: %v", a.ID, a.Measures)
			}
		}
		if touched != len(attempts) || touched != 8 {
			t.Errorf("touched %d times for %d attempts", touched, len(attempts))
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		p := newPlan(t, 2_000, free)
		ctx, interrupt := context.WithCancel(t.Context())
		var calls []bool
		p.Unshape = func(ctx context.Context, lift bool) error { calls = append(calls, lift); return ctx.Err() }
		p.Progress = func(u Update) {
			if u.Phase == Measure {
				interrupt()
			}
		}
		if err := Run(ctx, p); !errors.Is(err, ErrInterrupted) {
			t.Errorf("%v", err)
		}
		if !slices.Equal(calls, []bool{true, false}) {
			t.Errorf("lifted: %v", calls)
		}
	})
	t.Run("not possible", func(t *testing.T) {
		t.Parallel()
		p := newPlan(t, 2_000, free)
		p.Unshape = func(_ context.Context, lift bool) error {
			if lift {
				return errors.New("no tc here")
			}
			return nil
		}
		if err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "no tc here") {
			t.Errorf("%v", err)
		}
	})
}
