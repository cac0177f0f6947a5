package runner

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/harness/measure"
	"kafkalab/harness/scenario"
	"kafkalab/harness/workload"
	"kafkalab/results/resultfile"
)

// streamOf is a scenario with a stream of each system at that rate.
func streamOf(rate float64, messages int64, systems ...scenario.System) scenario.Scenario {
	for i := range systems {
		systems[i].Rate, systems[i].Messages, systems[i].Backlog = rate, messages, ""
	}
	return scenarioOf("stream", resultfile.Stream, systems...)
}

// virtual is a time that passes only when somebody waits or takes it.
type virtual struct{ now time.Duration }

func (v *virtual) Now() time.Duration { return v.now }
func (v *virtual) Wait(ctx context.Context, until time.Duration) error {
	v.now = max(v.now, until)
	return ctx.Err()
}

// stalling is a system that delivers at once, but for one stall.
type stalling struct {
	s     *streaming
	clock *virtual
	at    int64
	stall time.Duration
}

func (p *stalling) Send(_ context.Context, payload []byte) error {
	if p.s.sent.Load() == p.at {
		p.clock.now += p.stall
	}
	return p.s.handle(payload)
}
func (p *stalling) Flush(context.Context) error { return nil }

// virtually sends a stream through a stalling system in virtual time.
func virtually(t *testing.T, rate float64, messages, at int64, stall time.Duration) (*streaming, *virtual) {
	t.Helper()
	spec := Spec{Messages: messages, PayloadBytes: 200, RunID: 7, Stall: time.Minute, Stream: &StreamSpec{Rate: rate}}
	clock := &virtual{}
	s := &streaming{
		client: &client{spec: spec, link: newLink(strings.NewReader(""), new(strings.Builder))},
		pace:   pace{rate}, clock: clock, log: newSendLog(1024), checker: workload.NewChecker(7),
		latencies: measure.NewLatencies(func(resultfile.LatencyInterval) {}),
		finished:  make(chan struct{}), all: make(chan struct{}), allArrived: make(chan struct{}),
	}
	s.target.Store(messages)
	var err error
	if s.generator, err = workload.NewGenerator(7, 200); err != nil {
		t.Fatal(err)
	}
	if s.recorder, err = measure.NewRecorder(resultfile.Stream, 200, measure.DefaultInterval, func(resultfile.Point) {}); err != nil {
		t.Fatal(err)
	}
	s.producer = &stalling{s: s, clock: clock, at: at, stall: stall}
	if err := s.send(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.latencies.Cut(clock.Now()); err != nil {
		t.Fatal(err)
	}
	return s, clock
}

// B22: a stall of 2 s in a stream of 20 s at 1,000 messages a second is in the
// latencies of the tenth of the messages that were due in it.
func TestB22AStallIsInTheLatencies(t *testing.T) {
	const stall = 2 * time.Second
	s, clock := virtually(t, 1000, 20_000, 9000, stall)
	select {
	case <-s.all:
	default:
		t.Fatal("not everything was received")
	}
	planned, sent := s.latencies.Whole()
	if planned.TotalCount() != 20_000 || sent.TotalCount() != 20_000 {
		t.Fatalf("%d and %d messages", planned.TotalCount(), sent.TotalCount())
	}
	var late int64
	for _, bar := range planned.Distribution() {
		if bar.From > int64(time.Millisecond)/2 {
			late += bar.Count
		}
	}
	if late < 1950 || late > 2050 {
		t.Errorf("%d messages of 20,000 were late, want a tenth", late)
	}
	for q, want := range map[float64]time.Duration{50: 0, 89: 0, 95: time.Second, 99: 1800 * time.Millisecond, 100: stall} {
		if got := time.Duration(planned.ValueAtPercentile(q)); got < want-20*time.Millisecond || got > want+20*time.Millisecond {
			t.Errorf("percentile %v is %v, want %v", q, got, want)
		}
	}
	// Who counts from the real send sees one late message and nothing else.
	if got := time.Duration(sent.ValueAtPercentile(99.9)); got > time.Millisecond {
		t.Errorf("from the real send percentile 99.9 is %v", got)
	}
	if got := time.Duration(sent.Max()); got < stall-20*time.Millisecond {
		t.Errorf("from the real send the longest is %v", got)
	}
	if end := clock.Now(); end != s.pace.due(19_999) {
		t.Errorf("the plan ended at %v, want %v: it must not move with a stall", end, s.pace.due(19_999))
	}
}

// B22: a system that is too slow is sent the whole plan, and its rate stands
// beside the planned one.
func TestB22AchievedRateBelowThePlanIsFlagged(t *testing.T) {
	for _, c := range []struct {
		at      int64
		stall   time.Duration
		rate    float64
		flagged bool
	}{
		{-1, 0, 1000, false},
		{1000, time.Second, 1000, false},          // caught up with
		{1999, 20 * time.Millisecond, 991, false}, // at the end, within 1 %
		{1999, 500 * time.Millisecond, 800, true},
	} {
		s, clock := virtually(t, 1000, 2000, c.at, c.stall)
		var told strings.Builder
		s.link = newLink(strings.NewReader(""), &told)
		s.result.Messages, s.result.Seconds = 2000, clock.Now().Seconds()
		s.tell()
		m := s.result.Measures
		if m["rate_wanted"] != 1000 || math.Abs(m["rate_achieved"]-c.rate) > 2 {
			t.Errorf("%+v: rates %v and %v", c, m["rate_wanted"], m["rate_achieved"])
		}
		if flagged := strings.Contains(told.String(), "% of the 1000 planned"); flagged != c.flagged {
			t.Errorf("%+v: told %q", c, told.String())
		}
		for _, name := range []string{"latency_p50_seconds", "latency_p90_seconds", "latency_p99_seconds", "latency_p999_seconds", "latency_max_seconds"} {
			if _, ok := m[name]; !ok {
				t.Errorf("no measure %s", name)
			}
		}
	}
	if got := achieved(0, 10, 1000); got != 0 {
		t.Errorf("nothing at %v messages a second", got)
	}
}

// B22: the same with processes and the machine's own clock, 120 ms in 1.2 s. A
// busy machine makes latencies longer only.
func TestB22ThroughTheTestbed(t *testing.T) {
	t.Parallel()
	const messages = 12_000
	p := newPlan(t, messages, streamOf(10_000, messages, system("x", "stall", "at", "5400")))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	a := attemptOf(t, r, "stream-x-1")
	if a.Outcome != resultfile.Valid || !a.Verified || a.Messages != messages || a.ClientMessages != messages || a.Lost+a.Doubled+a.Damaged+a.Reordered != 0 {
		t.Fatalf("%+v", a)
	}
	if a.Seconds < 1 || a.Measures["rate_wanted"] != 10_000 || a.Measures["rate_achieved"] > 10_000 || a.Measures["rate_achieved"] <= 0 {
		t.Errorf("%v s, measures %v", a.Seconds, a.Measures)
	}
	l := r.Latency(a.ID)
	if l == nil || l.Planned.TotalCount() != messages || l.Sent == nil || l.Sent.TotalCount() == 0 || len(l.Intervals) < 2 {
		t.Fatalf("latencies %+v", l)
	}
	if p99 := time.Duration(l.Planned.ValueAtPercentile(99)); p99 < 106*time.Millisecond {
		t.Errorf("percentile 99 is %v, want 108 ms", p99)
	}
	if p95 := time.Duration(l.Planned.ValueAtPercentile(95)); p95 < 58*time.Millisecond {
		t.Errorf("percentile 95 is %v, want 60 ms", p95)
	}
	if got, want := a.Measures["latency_p99_seconds"], time.Duration(l.Planned.ValueAtPercentile(99)).Seconds(); math.Abs(got-want) > want/100 {
		t.Errorf("measure %v, file %v", got, want)
	}
	if age := time.Since(l.Started); age < 0 || age > time.Minute {
		t.Errorf("the latencies began %v ago", age)
	}
	points := r.Points(a.ID)
	if last := points[len(points)-1]; last.Arrived != a.Messages || last.Seconds != a.Seconds {
		t.Errorf("last point %+v, headline %d messages in %v s", last, a.Messages, a.Seconds)
	}
	nothingLeft(t, p)
}

// What is wrong with a stream is its outcome, with the reason. They run at
// once, since each mostly waits.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	const stands = 3 * time.Second // where something stands still
	cases := []struct {
		fault   string
		stall   time.Duration
		outcome resultfile.Outcome
		reason  string
	}{
		{"stuck", stands, resultfile.Invalid, "of 2000 messages sent, 1000 never arrived: the server's count stood at 1000 for"},
		{"lost", stands, resultfile.Invalid, "1 lost, 0 doubled, 0 damaged"},
		{"mute", stands, resultfile.Invalid, "nothing more came for"},
		{"send-hang", stands, resultfile.Failed, "the sending stood at 1000 messages"},
		{"none", time.Minute, resultfile.Valid, ""},
		{"depth", time.Minute, resultfile.Valid, ""},
		{"surplus", time.Minute, resultfile.Invalid, "the server counts 2001 messages, but 2000 were sent"},
		{"doubled", time.Minute, resultfile.Invalid, "0 lost, 1 doubled"},
		{"send-error", time.Minute, resultfile.Failed, "sending message 1000: connection reset"},
		{"receive-error", time.Minute, resultfile.Failed, "connection reset"},
		{"death", time.Minute, resultfile.Failed, "the server ended by itself"},
	}
	plans, errs := make([]Plan, len(cases)), make([]error, len(cases))
	var group errgroup.Group
	group.SetLimit(4) // each starts three processes
	for i, c := range cases {
		plans[i] = newPlan(t, 2000, streamOf(20_000, 2000, system("x", c.fault)))
		plans[i].Stall = c.stall
		group.Go(func() error {
			errs[i] = Run(t.Context(), plans[i])
			return nil
		})
	}
	_ = group.Wait() // the errors are looked at one by one
	for i, c := range cases {
		if errs[i] != nil {
			t.Errorf("%s: %v", c.fault, errs[i])
			continue
		}
		a := attemptOf(t, read(t, plans[i]), "stream-x-1")
		if a.Outcome != c.outcome || !strings.Contains(a.Reason, c.reason) {
			t.Errorf("%s: %s %q, want %s %q", c.fault, a.Outcome, a.Reason, c.outcome, c.reason)
		}
		if a.Outcome == resultfile.Valid && (!a.Verified || a.Messages != 2000) {
			t.Errorf("%s: %+v", c.fault, a)
		}
		nothingLeft(t, plans[i])
	}
}

// A stream is sent no longer than its cap, or twice its plan.
func TestStreamIsHeld(t *testing.T) {
	t.Parallel()
	p := newPlan(t, 1_000_000, streamOf(1000, 1_000_000, system("x", "none")))
	p.Selection.Cap = 600 * time.Millisecond
	p.Selection.Scenarios[0].Systems[0].WarmUp = 0
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	a := attemptOf(t, read(t, p), "stream-x-1")
	if a.Outcome != resultfile.Valid || a.Messages == 0 || a.Messages > 600 ||
		!slices.ContainsFunc(a.Notes, func(n string) bool { return strings.HasPrefix(n, "held to 600ms of sending: ") }) {
		t.Errorf("%+v", a)
	}
	s := streaming{client: &client{spec: Spec{Messages: 1000, Stream: &StreamSpec{Rate: 10}}}}
	if got := s.limit(); got != 210*time.Second {
		t.Errorf("without a cap 100 s are held to %v", got)
	}
}

func TestLatenciesOfTwoClocks(t *testing.T) {
	for _, c := range []struct {
		sender, receiver string
		clock            *resultfile.Clock
		withheld         bool
	}{
		{"client", "client", nil, false},
		{"client", "other", nil, true},
		{"client", "other", &resultfile.Clock{Same: true}, false},
		{"client", "other", &resultfile.Clock{OffsetSeconds: -3, ErrorSeconds: 1e-4}, false},
	} {
		if why := withheld(c.sender, c.receiver, c.clock); (why != "") != c.withheld {
			t.Errorf("%+v: %q", c, why)
		}
	}
	// What is withheld is in no file and among no measures.
	p := newPlan(t, 10, streamOf(10, 10, system("x", "none")))
	r := &run{Plan: p}
	tr, err := r.begin(entry{p.Selection.Scenarios[0], p.Selection.Scenarios[0].Systems[0]}, 1)
	if err != nil {
		t.Fatal(err)
	}
	h := resultfile.NewLatencyHistogram()
	if err := h.RecordValue(1e6); err != nil {
		t.Fatal(err)
	}
	in, err := resultfile.NewLatencyInterval(resultfile.TagPlanned, 0, 1, h)
	if err != nil {
		t.Fatal(err)
	}
	backwards := in
	in.Start = 5
	again := *tr
	again.latency = latencies{began: time.Now(), intervals: []resultfile.LatencyInterval{in, backwards}, sender: "client", receiver: "client"}
	again.attempt.Outcome = resultfile.Valid
	if err := r.putLatency(&again); err != nil || again.attempt.Outcome != resultfile.Invalid || !strings.Contains(again.attempt.Reason, "contradict themselves") {
		t.Errorf("intervals that go back: %v, %s %s", err, again.attempt.Outcome, again.attempt.Reason)
	}
	tr.latency = latencies{began: time.Now(), intervals: []resultfile.LatencyInterval{in}, sender: "client", receiver: "other"}
	tr.attempt.Measures = map[string]float64{"latency_p50_seconds": 1, "rate_wanted": 10}
	tr.attempt.Outcome, tr.attempt.Reason = resultfile.Failed, "a test"
	if err := r.put(tr); err != nil {
		t.Fatal(err)
	}
	back := read(t, p)
	a := attemptOf(t, back, "stream-x-1")
	if back.Latency(a.ID) != nil || len(a.Measures) != 1 || !strings.Contains(fmt.Sprint(a.Notes), "are withheld") {
		t.Errorf("%+v", a)
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		rate float64
		n    int64
		due  time.Duration
	}{{1000, 0, 0}, {1000, 1, time.Millisecond}, {0.5, 3, 6 * time.Second}, {115_740, 208_332_000, 1800 * time.Second}} {
		if got := (pace{c.rate}).due(c.n); got < c.due-time.Microsecond || got > c.due+time.Microsecond {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The machine's clock never returns early from a wait, and ends it with the
// context.
func TestWallClock(t *testing.T) {
	c := &wallClock{began: time.Now()}
	for _, until := range []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 0} {
		if err := c.Wait(t.Context(), until); err != nil || c.Now() < until {
			t.Errorf("waited until %v for %v: %v", c.Now(), until, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx, time.Hour); err == nil {
		t.Error("a wait outlives its context")
	}
}

// A send time is known as long as its place is its own.
func TestSendLog(t *testing.T) {
	l := newSendLog(4)
	for n := range int64(6) {
		l.note(n, time.Duration(n)*time.Second)
	}
	for n, want := range []bool{false, false, true, true, true, true} {
		if at, ok := l.at(int64(n)); ok != want || ok && at != time.Duration(n)*time.Second {
			t.Errorf("message %d: %v, %v", n, at, ok)
		}
	}
}

// The two halves of a stream allocate nothing for a message.
func TestStreamAllocatesNothing(t *testing.T) {
	var small, large float64
	for _, m := range []struct {
		messages int64
		allocs   *float64
	}{{1000, &small}, {11_000, &large}} {
		*m.allocs = testing.AllocsPerRun(3, func() { virtually(t, 1000, m.messages, -1, 0) })
	}
	if more := large - small; more > 100 {
		t.Errorf("%v allocations for 10,000 messages", more)
	}
}
