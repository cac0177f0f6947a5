package rawlimit

import (
	"context"
	"testing"

	"kafkalab/harness/workload"
)

// A consumer that asks first gets each message by itself, at once; one that
// comes later gets everything too; and one that goes holds nobody up.
func TestPingSendsOnAtOnce(t *testing.T) {
	addr, _ := serve(t, PathPing)
	early, late, gone := dial(t, addr, PathPing), dial(t, addr, PathPing), dial(t, addr, PathPing)
	checker := workload.NewChecker(3)
	first, err := early.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	came, ended := make(chan int64, 1000), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		var err error
		for err == nil && checker.Received() < 300 {
			err = first.Receive(ctx, func(payload []byte) error {
				defer func() { came <- checker.Received() }()
				return checker.Check(payload)
			})
		}
		ended <- err
	}()
	p := send(t, dial(t, addr, PathPing), "q", 3, 0, 1, 200)
	g := generator(t, 3, 1, 200)
	leaving, err := gone.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	receive(t, leaving, 3, 1)
	// No message is sent before the one before it has come back.
	for n := int64(1); n < 300; n++ {
		select {
		case got := <-came:
			if got != n {
				t.Fatalf("message %d came when %d was awaited", got, n)
			}
		case err := <-ended:
			t.Fatalf("message %d: %v", n, err)
		}
		if n == 100 {
			if err := gone.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := p.Send(ctx, g.Next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := checker.Result(300).Err(); err != nil {
		t.Error(err)
	}
	later, err := late.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	receive(t, later, 3, 300)
}

func TestPingSendAllocatesNothing(t *testing.T) {
	addr, _ := serve(t, PathPing)
	p := send(t, dial(t, addr, PathPing), "q", 3, 0, 1, 200)
	g := generator(t, 3, 1, 200)
	ctx := t.Context()
	if n := testing.AllocsPerRun(2000, func() {
		if err := p.Send(ctx, g.Next()); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

// A send whose context ends fails with that, and one with another context goes
// on where nothing was cut off.
func TestPingHeedsEachContext(t *testing.T) {
	addr, _ := serve(t, PathPing)
	p := send(t, dial(t, addr, PathPing), "q", 3, 0, 1, 200)
	g := generator(t, 3, 1, 200)
	first, cancel := context.WithCancel(t.Context())
	if err := p.Send(first, g.Next()); err != nil {
		t.Fatal(err)
	}
	cancel()
	payload := g.Next()
	if err := p.Send(first, payload); err == nil {
		t.Error("a message was sent for a context that had ended")
	}
	if err := p.Send(t.Context(), payload); err != nil {
		t.Error(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}
