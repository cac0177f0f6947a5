package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func localHost(t *testing.T) host.Host {
	t.Helper()
	return hosttest.Local(t, "")
}

func nullTarget(t *testing.T) Target {
	t.Helper()
	s, err := NewNull().Start(t.Context(), localHost(t), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Target()
}

func nullConnect(t *testing.T, target Target) Client {
	t.Helper()
	c, err := NewNull().Connect(t.Context(), target, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	return c
}

// send sends n messages of run 7 to the queue, from sequence number first.
func send(t *testing.T, c Client, queue string, first uint64, n int) {
	t.Helper()
	p, err := c.Producer(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	g, err := workload.NewGenerator(7, 200)
	if err != nil {
		t.Fatal(err)
	}
	g.Seek(first)
	for range n {
		if err := p.Send(t.Context(), g.Next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What one client sent, another one, as in another process, gets.
func TestNullMakesEveryMessageAgain(t *testing.T) {
	target := nullTarget(t)
	const n = 2500
	first := nullConnect(t, target)
	send(t, first, "q", 0, 2000)
	send(t, first, "q", 2000, n-2000) // a second producer goes on
	send(t, first, "other", 5, 3)     // a queue of its own
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	second := nullConnect(t, target)
	if got, err := second.Arrived(t.Context(), "q"); err != nil || got != n {
		t.Fatalf("Arrived = %d, %v; want %d", got, err, n)
	}
	c, err := second.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	checker := workload.NewChecker(7)
	for checker.Received() < n {
		if err := c.Receive(t.Context(), checker.Check); err != nil {
			t.Fatal(err)
		}
	}
	if got := checker.Result(n); got != (workload.Result{Received: n}) {
		t.Errorf("received %+v, want %d clean ones", got, n)
	}
}

func TestNullConsumerWaitsForMessages(t *testing.T) {
	c := nullConnect(t, nullTarget(t))
	consumer, err := c.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := consumer.Receive(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Receive on an empty queue = %v, want the end of its context", err)
	}
	received := make(chan error, 1)
	go func() { received <- consumer.Receive(t.Context(), func([]byte) error { return nil }) }()
	send(t, c, "q", 0, 1)
	select {
	case err := <-received:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the message never came")
	}
}

func TestNullHandleEndsReceive(t *testing.T) {
	c := nullConnect(t, nullTarget(t))
	send(t, c, "q", 0, 10)
	consumer, err := c.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	if err := consumer.Receive(t.Context(), func([]byte) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("Receive = %v, want the error of handle", err)
	}
	// The one that was handed over is not handed over again.
	checker := workload.NewChecker(7)
	if err := consumer.Receive(t.Context(), checker.Check); err != nil {
		t.Fatal(err)
	}
	if got := checker.Result(10); got.Lost != 1 || got.Received != 9 {
		t.Errorf("the rest: %+v, want 9 messages", got)
	}
}

func TestNullRefuses(t *testing.T) {
	h := localHost(t)
	if err := NewNull().Check(t.Context(), h, Options{"batch": "50"}); err == nil || !strings.Contains(err.Error(), `unknown option "batch"`) {
		t.Errorf("Check with an option = %v", err)
	}
	if _, err := NewNull().Connect(t.Context(), Target{Addr: "127.0.0.1:9092"}, nil); err == nil {
		t.Error("connected to a server of another kind")
	}
	c := nullConnect(t, nullTarget(t))
	send(t, c, "q", 0, 3)
	p, err := c.Producer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	g, err := workload.NewGenerator(7, 200)
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string][]byte{"a gap": func() []byte { g.Seek(4); return g.Next() }(), "text": []byte("hello"), "another size": make([]byte, 300)} {
		if err := p.Send(t.Context(), payload); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Arrived(t.Context(), "q"); err == nil {
		t.Error("a closed client answers")
	}
}

func TestNullFillsInEveryRow(t *testing.T) {
	rows, err := NewNull().Settings(t.Context(), nil, nil)
	if err != nil || len(rows) != len(SettingRows) {
		t.Fatalf("Settings = %v, %v", rows, err)
	}
	for i, r := range rows {
		if r.Row != SettingRows[i] || r.Value == "" {
			t.Errorf("row %d is %+v, want %q", i, r, SettingRows[i])
		}
	}
}

func TestNullSendAllocatesNothing(t *testing.T) {
	for _, size := range []int{workload.MinPayloadBytes, 200} {
		p, err := nullConnect(t, nullTarget(t)).Producer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		g, err := workload.NewGenerator(7, size)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(1000, func() {
			if err := p.Send(t.Context(), g.Next()); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations a message of %d bytes", n, size)
		}
	}
}

// A small payload does not say which run it is of, but is of it all the same.
func TestNullMakesSmallMessagesAgain(t *testing.T) {
	const run, n = 0x0123456789abcdef, 2500
	for _, size := range []int{10, 17, 23} {
		c := nullConnect(t, nullTarget(t))
		p, err := c.Producer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		g, err := workload.NewGenerator(run, size)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := p.Send(t.Context(), g.Next()); err != nil {
				t.Fatal(err)
			}
		}
		consumer, err := c.Consumer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		checker := workload.NewChecker(run)
		for checker.Received() < n {
			if err := consumer.Receive(t.Context(), checker.Check); err != nil {
				t.Fatal(err)
			}
		}
		if got := checker.Result(n); got != (workload.Result{Received: n}) {
			t.Errorf("%d bytes: received %+v, want %d clean ones", size, got, n)
		}
		g.Seek(n + 1)
		if err := p.Send(t.Context(), g.Next()); err == nil {
			t.Errorf("%d bytes: a gap was taken", size)
		}
	}
}

// The ceiling of the testbed's client: a message made and handed over, and one
// made, handed over, made again and checked. A system must stay far below it to
// be judged by this testbed.
func BenchmarkCeiling(b *testing.B) {
	c, err := NewNull().Connect(b.Context(), nullServer{dir: b.TempDir()}.Target(), nil)
	if err != nil {
		b.Fatal(err)
	}
	open := func(b *testing.B, queue string) (Producer, *workload.Generator) {
		p, err := c.Producer(b.Context(), queue)
		if err != nil {
			b.Fatal(err)
		}
		g, err := workload.NewGenerator(7, 200)
		if err != nil {
			b.Fatal(err)
		}
		return p, g
	}
	b.Run("Produce", func(b *testing.B) {
		p, g := open(b, b.Name()+fmt.Sprint(b.N))
		for b.Loop() {
			if err := p.Send(b.Context(), g.Next()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ThereAndBack", func(b *testing.B) {
		queue := b.Name() + fmt.Sprint(b.N)
		p, g := open(b, queue)
		consumer, err := c.Consumer(b.Context(), queue)
		if err != nil {
			b.Fatal(err)
		}
		checker := workload.NewChecker(7)
		for b.Loop() {
			if err := p.Send(b.Context(), g.Next()); err != nil {
				b.Fatal(err)
			}
			if err := consumer.Receive(b.Context(), checker.Check); err != nil {
				b.Fatal(err)
			}
		}
	})
}
