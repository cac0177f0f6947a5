package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/producer"
)

// producing is a producer under test, with sinks in the place of brokers.
type producing struct {
	*Producer
	messages, events sink
	clock            *clock.Manual
}

func startProducer(t testing.TB, change func(*ProducerConfig)) *producing {
	t.Helper()
	p := &producing{clock: clock.NewManual(at(time.Second))}
	cfg := ProducerConfig{Messages: &p.messages, Events: &p.events, Server: "front1", Clock: p.clock, Files: folder(t)}
	if change != nil {
		change(&cfg)
	}
	var err error
	if p.Producer, err = NewProducer(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(ended) // most tests have closed it
	})
	if cfg.Clock == p.clock {
		p.clock.WaitTimers(1)
	}
	return p
}

// bodies makes n bodies.
func bodies(n int) (b [][]byte) {
	for i := range n {
		b = append(b, fmt.Appendf(nil, "body %d", i))
	}
	return b
}

func (p *producing) send(t testing.TB, topic string, n int) {
	t.Helper()
	if err := p.Send(testContext(t), topic, nil, bodies(n)...); err != nil {
		t.Fatal(err)
	}
}

// pass lets time go by, and waits until the events that are due were published, or have
// failed.
func (p *producing) pass(d time.Duration) {
	p.clock.Advance(d)
	p.clock.WaitTimers(1)
}

// judged counts messages and events that were taken as a tier, and compares them.
func (p *producing) judged(t testing.TB, drop ...uint64) *Report {
	t.Helper()
	c := newCounter(t)
	for _, h := range p.messages.headers(t) {
		dropped := false
		for _, d := range drop {
			dropped = dropped || d == h.Sequence
		}
		if !dropped {
			c.tally.message("clicks", h, at(time.Second).UnixMilli())
		}
	}
	for _, e := range p.events.events(t) {
		c.event(e)
	}
	return compare(t, c.state("live", time.Hour))
}

func (p *producing) mustClose(t testing.TB) {
	t.Helper()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// Each topic has sequence numbers of its own, from 1; events come when windows are over,
// and the rest on Close.
func TestWindowsAreCounted(t *testing.T) {
	p := startProducer(t, nil)
	p.send(t, "clicks", 3)
	p.send(t, "searches", 1)
	p.pass(5 * time.Second)
	p.send(t, "clicks", 2)
	if n := len(p.events.all()); n != 0 {
		t.Fatalf("%d events before the window is over", n)
	}
	p.pass(5 * time.Second)
	if got, want := eventTexts(p.events.events(t)), "clicks 0s r1 1-5\nsearches 0s r1 1\n"; got != want {
		t.Fatalf("events\n%swant\n%s", got, want)
	}
	p.send(t, "clicks", 1)
	p.pass(length)
	p.pass(length) // nothing happens in it
	p.send(t, "clicks", 4)
	p.mustClose(t)
	if got, want := eventTexts(p.events.events(t)[2:]), "clicks 10s r1 6\nclicks 30s r1 7-10\n"; got != want {
		t.Errorf("events\n%swant\n%s", got, want)
	}
	if err := p.Send(testContext(t), "clicks", nil, []byte("late")); !errors.Is(err, producer.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
	if s := p.Stats(); s.Made != 11 || s.Events != 4 || s.Waiting != 0 || s.InDoubt+s.NotSent+s.Retried != 0 {
		t.Errorf("%+v", s)
	}
	if r := p.judged(t); !r.Clean || len(r.Rows) != 3 || r.Tiers[0].Complete != 3 {
		t.Errorf("%+v", r)
	}
}

// eventTexts writes events, a line each.
func eventTexts(events []*Event) (text string) {
	for _, e := range events {
		text += fmt.Sprintf("%s %v", e.Topic, e.Window.Sub(noon))
		if e.Part > 0 {
			text += fmt.Sprintf(" p%d", e.Part)
		}
		text += fmt.Sprintf(" r%d %v", e.Revision, &e.Made)
		if !e.InDoubt.Empty() {
			text += fmt.Sprintf(" in doubt %v", &e.InDoubt)
		}
		text += "\n"
	}
	return text
}

// A Send that ends after its window, as it waited for room, has its messages in the next
// revision of the window's event.
func TestWindowThatClosesLate(t *testing.T) {
	p := startProducer(t, nil)
	p.send(t, "clicks", 1)
	entered, release := make(chan struct{}), make(chan struct{})
	p.messages.fail = nil
	slow := blockingSender{to: &p.messages, entered: entered, release: release}
	p.cfg.Messages = slow
	var wg sync.WaitGroup
	wg.Go(func() { p.send(t, "clicks", 2) })
	<-entered
	p.pass(length)
	if got := eventTexts(p.events.events(t)); got != "clicks 0s r1 1\n" {
		t.Errorf("events while a Send is under way\n%s", got)
	}
	close(release)
	wg.Wait()
	p.pass(length)
	if got := eventTexts(p.events.events(t)); got != "clicks 0s r1 1\nclicks 0s r2 1-3\n" {
		t.Errorf("events after it\n%s", got)
	}
	p.mustClose(t)
	if r := p.judged(t); !r.Clean || r.Tiers[0].Complete != 1 {
		t.Errorf("%+v", r)
	}
	wantRows(t, p.judged(t, 3), "live front1 0s: missing, 3 made, 2 counted, 1 missing")
}

type blockingSender struct {
	to               Sender
	entered, release chan struct{}
}

func (b blockingSender) Send(ctx context.Context, topic string, key []byte, payloads ...[]byte) error {
	close(b.entered)
	<-b.release
	return b.to.Send(ctx, topic, key, payloads...)
}

// Only what the producer behind it has taken counts; the sequence numbers of what it
// refused go to the next messages, so that there is no gap.
func TestRefusedMessagesWereNeverMade(t *testing.T) {
	p := startProducer(t, nil)
	p.send(t, "clicks", 2)
	p.messages.failWith(func(b [][]byte) (int, error) {
		return 1, &producer.PartialError{Taken: 1, Err: producer.ErrQueueFull}
	})
	var partial *producer.PartialError
	if err := p.Send(testContext(t), "clicks", nil, bodies(3)...); !errors.As(err, &partial) || partial.Taken != 1 || !errors.Is(err, producer.ErrQueueFull) {
		t.Errorf("a Send of which one was taken: %v", err)
	}
	p.messages.failWith(func([][]byte) (int, error) { return 0, producer.ErrTooLarge })
	if err := p.Send(testContext(t), "clicks", nil, bodies(4)...); !errors.Is(err, producer.ErrTooLarge) {
		t.Errorf("a Send that was refused: %v", err)
	}
	p.messages.failWith(nil)
	p.send(t, "clicks", 5)
	p.mustClose(t)
	if got := eventTexts(p.events.events(t)); got != "clicks 0s r1 1-8\n" {
		t.Errorf("events\n%s", got)
	}
	if r := p.judged(t); !r.Clean || r.Tiers[0].Counted != 8 || r.Tiers[0].Complete != 1 {
		t.Errorf("%+v", r)
	}
}

// With acks a Send that fails is repeated with the same envelopes; what is given up is in
// doubt, whether it has arrived or not.
func TestRepeatedWithTheSameEnvelopes(t *testing.T) {
	p := startProducer(t, func(c *ProducerConfig) {
		c.Acked, c.RetryFor, c.Clock = true, 10*time.Second, nil
		c.Window = MaxWindow
	})
	lost := errors.New("the connection broke")
	attempts := 0
	p.messages.failWith(func(b [][]byte) (int, error) {
		attempts++
		switch attempts {
		case 1:
			return 0, lost
		case 2:
			return 2, lost // all arrived, and nobody knows
		}
		return len(b), nil
	})
	p.send(t, "clicks", 2)
	headers := p.messages.headers(t)
	if attempts != 3 || len(headers) != 4 || headers[0] != headers[2] || headers[1] != headers[3] {
		t.Fatalf("%d attempts: %+v", attempts, headers)
	}
	p.cfg.RetryFor = 0
	p.messages.failWith(func(b [][]byte) (int, error) { return 1, lost })
	if err := p.Send(testContext(t), "clicks", nil, bodies(2)...); !errors.Is(err, lost) {
		t.Errorf("a Send that is given up: %v", err)
	}
	p.messages.failWith(nil)
	p.send(t, "clicks", 1)
	p.mustClose(t)
	e := p.events.events(t)
	if len(e) != 1 || e[0].Made.String() != "1-2,5" || e[0].InDoubt.String() != "3-4" {
		t.Fatalf("events\n%s", eventTexts(e))
	}
	if s := p.Stats(); s.Made != 3 || s.InDoubt != 2 || s.Retried != 2 {
		t.Errorf("%+v", s)
	}
}

// Without acks a loss is told of by a later Send: that one is repeated, and the loss is
// counted, and in the event.
func TestLossesWithoutAcks(t *testing.T) {
	var told []error
	p := startProducer(t, func(c *ProducerConfig) {
		c.RetryFor, c.Clock, c.Window = 10*time.Second, nil, MaxWindow
		c.NotSent = func(err error) { told = append(told, err) }
	})
	p.send(t, "clicks", 5)
	first := true
	p.messages.failWith(func(b [][]byte) (int, error) {
		if first {
			first = false
			return 0, &producer.NotSentError{Messages: 3, Unconfirmed: 3, Err: errors.New("the connection broke")}
		}
		return len(b), nil
	})
	p.send(t, "clicks", 1)
	p.Lost(&producer.NotSentError{Messages: 1, Err: errors.New("at the end")})
	p.Lost(nil)
	p.Lost(errors.New("something else"))
	p.mustClose(t)
	e := p.events.events(t)
	if len(e) != 1 || e[0].Made.String() != "1-6" || e[0].NotSent != 4 || len(told) != 2 || p.Stats().NotSent != 4 {
		t.Errorf("%d losses told, %+v, events\n%s", len(told), p.Stats(), eventTexts(e))
	}
}

// Events that cannot be published are tried again, as the next revision; on Close they
// are kept in the spool, from which the next producer publishes them.
func TestRestartPublishesWhatIsInTheSpool(t *testing.T) {
	files := folder(t)
	spooled := func(c *ProducerConfig) { c.Files, c.Spool = files, "/d/spool" }
	away := errors.New("the topic of the events is away")
	p := startProducer(t, spooled)
	if _, err := NewProducer(ProducerConfig{Messages: &p.messages, Events: &p.events, Files: files, Spool: "/d/spool"}); err == nil || !strings.Contains(err.Error(), "another producer") {
		t.Errorf("a second producer with the spool: %v", err)
	}
	p.events.failWith(func([][]byte) (int, error) { return 0, away })
	p.send(t, "clicks", 2)
	p.pass(length) // fails, and is tried again a second later
	p.events.failWith(nil)
	p.pass(publishPause)
	if got := eventTexts(p.events.events(t)); got != "clicks 0s r2 1-2\n" {
		t.Fatalf("events\n%s", got)
	}
	if _, err := files.Stat("/d/spool"); err == nil {
		t.Error("the spool is there although all is published")
	}
	p.events.failWith(func([][]byte) (int, error) { return 0, away })
	p.send(t, "clicks", 3)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Close(ended); !errors.Is(err, away) || !strings.Contains(err.Error(), "kept in /d/spool") {
		t.Errorf("Close: %v", err)
	}
	if err := p.Close(testContext(t)); !errors.Is(err, away) {
		t.Errorf("second Close: %v", err)
	}
	next := startProducer(t, func(c *ProducerConfig) { spooled(c); c.Files = files.CrashClone(nil) })
	next.send(t, "clicks", 1)
	next.mustClose(t)
	e := next.events.events(t)
	if len(e) != 2 || e[0].Producer != p.ID() || e[0].Made.String() != "3-5" || e[1].Producer != next.ID() || e[1].Made.String() != "1" {
		t.Errorf("events of the next producer\n%s", eventTexts(e))
	}
}

// Events that can neither be published nor kept in the spool are lost, and Close says so.
func TestCloseTellsOfASpoolThatIsNotWritten(t *testing.T) {
	files := folder(t)
	p := startProducer(t, func(c *ProducerConfig) { c.Files, c.Spool = files, "/d/spool" })
	away, full := errors.New("the topic of the events is away"), errors.New("the disk is full")
	p.events.failWith(func([][]byte) (int, error) { return 0, away })
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			return full
		}
		return nil
	})
	p.send(t, "clicks", 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Close(ended); !errors.Is(err, away) || !errors.Is(err, full) || !strings.Contains(err.Error(), "they are lost") || strings.Contains(err.Error(), "kept in") {
		t.Errorf("Close: %v", err)
	}
	if _, err := files.Stat("/d/spool"); err == nil {
		t.Error("the spool is there")
	}
}

// Windows in which all was refused have no event, and are forgotten as others are: a broker
// that is away for days does not fill the producer with them.
func TestWindowsOfRefusedMessagesAreForgotten(t *testing.T) {
	p := startProducer(t, nil)
	p.messages.failWith(func([][]byte) (int, error) { return 0, producer.ErrQueueFull })
	for range 20 {
		if err := p.Send(testContext(t), "clicks", nil, bodies(2)...); !errors.Is(err, producer.ErrQueueFull) {
			t.Fatalf("a Send that is refused: %v", err)
		}
		p.pass(length)
	}
	p.mu.Lock()
	if windows := len(p.topics["clicks"].windows); windows > 3 || windows != p.windows {
		t.Errorf("%d windows are kept, and %d counted", windows, p.windows)
	}
	p.mu.Unlock()
	p.messages.failWith(nil)
	p.send(t, "clicks", 3)
	p.mustClose(t)
	if got, want := eventTexts(p.events.events(t)), "clicks 3m20s r1 1-3\n"; got != want {
		t.Errorf("events\n%swant\n%s", got, want)
	}
}

// A process that is killed between the end of a window and the acknowledgement of its
// event has the event in the spool.
func TestKilledWhilePublishing(t *testing.T) {
	files := folder(t)
	var killed *vfs.Mem
	p := startProducer(t, func(c *ProducerConfig) { c.Files, c.Spool = files, "/d/spool" })
	p.events.failWith(func(b [][]byte) (int, error) {
		if killed == nil {
			killed = files.CrashClone(nil)
		}
		return len(b), nil // it arrived, and the process is dead: the next one sends it again
	})
	p.send(t, "clicks", 2)
	p.pass(length)
	next := startProducer(t, func(c *ProducerConfig) { c.Files, c.Spool = killed, "/d/spool" })
	next.mustClose(t)
	e := next.events.events(t)
	if len(e) != 1 || e[0].Producer != p.ID() || e[0].Revision != 1 || e[0].Made.String() != "1-2" {
		t.Fatalf("events of the next producer\n%s", eventTexts(e))
	}
	c := newCounter(t)
	for _, twice := range [][]*Event{p.events.events(t), e} {
		for _, e := range twice {
			c.event(e)
		}
	}
	for _, h := range p.messages.headers(t) {
		c.tally.message("clicks", h, at(time.Second).UnixMilli())
	}
	if r := compare(t, c.state("live", time.Hour)); !r.Clean || r.Tiers[0].Made != 2 {
		t.Errorf("%+v", r.Tiers[0])
	}
}

// The clock is put back: the messages go to a window that is over, which gets an event of
// its own, so that no event that was published is ever contradicted.
func TestClockIsPutBack(t *testing.T) {
	p := startProducer(t, nil)
	p.send(t, "clicks", 1)
	p.pass(length)
	p.send(t, "clicks", 1)
	p.pass(length)
	p.pass(length)
	p.send(t, "clicks", 1)
	p.pass(length)
	p.clock.Step(-4 * length)
	p.send(t, "clicks", 2)
	p.mustClose(t)
	if r := p.judged(t); !r.Clean || r.Tiers[0].Counted != 5 || r.Tiers[0].Made != 5 {
		t.Errorf("%+v\n%s", r.Tiers[0], eventTexts(p.events.events(t)))
	}
	if got := eventTexts(p.events.events(t)[3:]); got != "clicks 0s p1 r1 4-5\n" {
		t.Errorf("events\n%s", got)
	}
}

// Whatever is refused, in doubt, late or published twice, in any order: a tier that gets
// what was taken is complete, and one that misses some misses exactly those.
func TestCountsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := startProducer(t, func(c *ProducerConfig) { c.Acked = rapid.Bool().Draw(rt, "acked") })
		refusal := errors.New("refused")
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			taken := rapid.IntRange(-1, 3).Draw(rt, "taken")
			p.messages.failWith(func(b [][]byte) (int, error) {
				if taken < 0 || taken >= len(b) {
					return len(b), nil
				}
				return taken, &producer.PartialError{Taken: taken, Err: refusal}
			})
			_ = p.Send(t.Context(), "clicks", nil, bodies(rapid.IntRange(1, 5).Draw(rt, "n"))...)
			if rapid.IntRange(0, 3).Draw(rt, "pass") == 0 {
				p.pass(time.Duration(rapid.IntRange(1, 15).Draw(rt, "seconds")) * time.Second)
			}
		}
		p.mustClose(t)
		c := newCounter(t)
		lost := uint64(0)
		for _, h := range p.messages.headers(t) {
			if rapid.IntRange(0, 9).Draw(rt, "lose") == 0 {
				lost++
				continue
			}
			c.tally.message("clicks", h, at(time.Second).UnixMilli())
		}
		for _, e := range p.events.events(t) {
			c.event(e)
			c.event(e)
		}
		s := compare(t, c.state("live", 2*time.Hour)).Tiers[0]
		if made := uint64(p.Stats().Made); s.Made != made || s.Missing != lost || s.Counted != made-lost || s.Doubled != 0 || s.Unreported != 0 || s.Clean != (lost == 0) {
			rt.Fatalf("%d made, %d lost: %+v", made, lost, s)
		}
	})
}

// Stamping and counting cost no memory for each message.
func TestSendAllocatesNothing(t *testing.T) {
	p := startProducer(t, func(c *ProducerConfig) { c.Messages = nothing{} })
	b := bodies(50)
	ctx := t.Context()
	if n := testing.AllocsPerRun(200, func() {
		if err := p.Send(ctx, "clicks", nil, b...); err != nil {
			t.Fatal(err)
		}
	}); n > 20 { // far fewer than messages: the pool may be emptied meanwhile, which the race detector does at random
		t.Errorf("%v allocations for 50 messages", n)
	}
	p.mustClose(t)
}

type nothing struct{}

func (nothing) Send(context.Context, string, []byte, ...[]byte) error { return nil }

// Settings that make no sense are refused.
func TestProducerConfig(t *testing.T) {
	for name, change := range map[string]func(*ProducerConfig){
		"no sender": func(c *ProducerConfig) { c.Events = nil },
		"window":    func(c *ProducerConfig) { c.Window = time.Millisecond },
		"fraction":  func(c *ProducerConfig) { c.Window = time.Second + time.Microsecond },
		"server":    func(c *ProducerConfig) { c.Server = "a\nb" },
		"topic":     func(c *ProducerConfig) { c.Topic = ".." },
		"retry":     func(c *ProducerConfig) { c.RetryFor = -1 },
	} {
		cfg := ProducerConfig{Messages: nothing{}, Events: nothing{}}
		change(&cfg)
		if p, err := NewProducer(cfg); err == nil {
			t.Errorf("%s: taken", name)
			_ = p.Close(t.Context())
		}
	}
}
