package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

// svgOf draws a figure and sees to it that nothing in it is no number.
func svgOf(t testing.TB, c chart) string {
	t.Helper()
	svg, err := render(c, "svg", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{"NaN", "Inf"} {
		if bytes.Contains(svg, []byte(odd)) {
			t.Errorf("%s: %s stands in the figure", c.name(), odd)
		}
	}
	return string(svg)
}

// textOf is what stands in a figure, one text behind the other.
func textOf(svg string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(svg, "</text>") {
		_, words, _ := strings.Cut(part[strings.LastIndex(part, "<text")+1:], ">")
		b.WriteString(words + " ")
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Every chart says what it shows: title, axes with their units, systems, the
// limit's course, where it was measured; and it is drawn the same twice.
func TestEveryChartExplainsItself(t *testing.T) {
	dir := world{repeat: 2}.make(t) // two: with a spread
	r, again := read(t, dir), read(t, dir)
	want := map[string][]string{
		"batch-sweep": {"Messages per second, logarithmic", "Broker&#39;s processor time (µs/message)", "read and write calls (1/message)", "Messages a request (logarithmic)", "kafka, batches", "Physical limit (raw TCP)"},
		"overhead":    {"Disk space beyond the payload (B/message)", "Bytes given to the network", "Disk space, split", "RabbitMQ, stream queue", "(extra)", "header", "index"},
		"soak":        {"Broker&#39;s memory (MiB)", "Garbage collection&#39;s share", "Time since the first message (min)", "Kafka"},
		"latency":     {"1,000 messages/s planned: latency", "20,000 messages/s planned", "99.9 %", "1 ms", "kafka", "thin: from the real send"},
		"loss-budget": {"Lost in a crash, not acknowledged (messages)", "Time to start again after the crash (ms)", "Kafka, flushed"},
		"rebalance":   {"Time to settle (ms)", "Tries of a rebalance, at most", "Consumers of the group"},
	}
	for i, s := range r.Run.Scenarios {
		for j, n := range figuresOf(r, s) {
			text := textOf(svgOf(t, n.chart))
			for _, w := range append(want[s.Name], plain(s.Title), "emulated", "lowest to highest", "What was the limit", "Hosts: emulated", "Gap between") {
				if s.Name == "soak" && w == "lowest to highest" {
					continue // it draws every repetition
				}
				if !strings.Contains(text, w) {
					t.Errorf("%s does not say %q:\n%s", n.name, w, text)
				}
			}
			other := figuresOf(again, again.Run.Scenarios[i])[j]
			for _, format := range formats {
				if format == "png" && i > 0 {
					continue // one of them says enough
				}
				a, err := render(n.chart, format, r.Run.Started)
				if err != nil {
					t.Fatal(err)
				}
				b, err := render(other.chart, format, r.Run.Started)
				if err != nil || !bytes.Equal(a, b) {
					t.Errorf("%s.%s differs between two calls, %v", n.name, format, err)
				}
			}
		}
	}
}

// TestB23FailedSystemIsNamedInEveryChart: a system without a valid attempt stands
// in the figure with its reason, one that failed at a place of a sweep leaves a
// gap there, and the time of an attempt begins at 0 (fault B23).
func TestB23FailedSystemIsNamedInEveryChart(t *testing.T) {
	failed := map[string]bool{"rabbitmq": true, "kafka-5": true, "rabbitmq-1000": true, "activemq": true, "kafka-flushed": true, "rabbitmq-20000": true, "kafka-dropped": true}
	w := world{repeat: 1, outcome: func(a *resultfile.Attempt) {
		if failed[a.System] && a.Scenario != "rebalance" || a.System == "kafka-4" {
			a.Outcome, a.Reason = resultfile.Failed, "the broker died"
		}
	}}
	r := read(t, w.make(t))
	for _, s := range r.Run.Scenarios {
		for _, n := range figuresOf(r, s) {
			if text := textOf(svgOf(t, n.chart)); !strings.Contains(text, "failed: the broker died") && !strings.Contains(text, "failed: the broker") {
				t.Errorf("%s does not say that a system failed:\n%s", n.name, text)
			}
		}
		switch c := figuresOf(r, s)[0].chart.(type) {
		case board:
			if s.Chart == resultfile.OverTime && c.x.min != 0 {
				t.Errorf("%s begins at %v", s.Name, c.x.min)
			}
			if s.Name == "batch-sweep" {
				line := c.panels[0].curves[0]
				if len(line.points) != 9 || len(line.runs()) != 2 {
					t.Errorf("the gap at 5 is closed: %d points in %d runs", len(line.points), len(line.runs()))
				}
			}
		}
	}
}

func TestChartsOfRunsWithoutAnything(t *testing.T) {
	for name, w := range map[string]world{
		"no attempt": {}, "no valid attempt": {repeat: 1, outcome: func(a *resultfile.Attempt) { a.Outcome, a.Reason = resultfile.Interrupted, "by the user" }},
	} {
		r := read(t, w.make(t))
		for _, s := range r.Run.Scenarios {
			for _, n := range figuresOf(r, s) {
				if text := textOf(svgOf(t, n.chart)); name == "no attempt" && !strings.Contains(text, "not run") {
					t.Errorf("%s, %s:\n%s", name, n.name, text)
				}
			}
		}
		if _, err := Page(r); err != nil {
			t.Error(err)
		}
	}
}

// Whatever numbers there are, figures and tables come out, and no NaN in them.
func TestChartsOfOddNumbers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("KAFKALAB_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KAFKALAB_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	odd := func() float64 {
		return []float64{0, -1, 1e-300, 1e300, 5e-324, math.NaN(), math.Inf(1), math.Inf(-1), rnd.Float64(), 1e6 * rnd.Float64(), 1}[rnd.IntN(11)]
	}
	finite := func() float64 { // what a file of results cannot hold otherwise
		for {
			if v := odd(); !math.IsNaN(v) && !math.IsInf(v, 0) {
				return v
			}
		}
	}
	names := []string{
		"broker_syscalls", "broker_disk_read_bytes", "broker_gc_seconds", "broker_resident_peak_bytes", "latency_p50_seconds", "latency_p99_seconds", "rate_wanted", "rate_achieved",
		"store_log_bytes", "store_index_bytes", "store_journal_bytes", "store_other_bytes", "crash_lost_unpromised", "restart_seconds", "settle_median_seconds", "tries_max",
	}
	for range 12 {
		run := resultfile.Run{Name: "odd", Repeat: rnd.IntN(8), Testbed: resultfile.Testbed{Kind: "netns", Emulated: true, LinkGoodputMbps: finite(), LinkReverseGoodputMbps: finite()},
			Ceilings: []resultfile.Ceiling{{Work: resultfile.Produce, PayloadBytes: 200, MessagesPerSecond: finite()}}}
		for _, s := range worldScenarios() {
			if s.Chart == resultfile.Sweep && rnd.IntN(3) == 0 {
				for i := range s.Systems {
					s.Systems[i].X = []float64{0, 1, 7, -3, 1e12, 1e-9}[rnd.IntN(6)]
				}
			}
			if rnd.IntN(4) == 0 {
				s.Shows = []string{"no such quantity", "store bytes", "latency p99", "GC share"}
			}
			if rnd.IntN(6) == 0 {
				s.Systems = nil
			}
			run.Scenarios = append(run.Scenarios, s)
			for _, y := range s.Systems {
				for rep := 1; rep <= run.Repeat; rep++ {
					a := resultfile.Attempt{ID: fmt.Sprintf("%s-%s-%d", s.Name, y.ID, rep), Scenario: s.Name, System: y.ID, Repetition: rep, Outcome: resultfile.Valid,
						Messages: 1 + rnd.Int64N(1e12), PayloadBytes: rnd.Int64N(1e12), StoredBytes: rnd.Int64N(1e9), Seconds: math.Abs(odd()) + 1e-9, ClientMessages: rnd.Int64N(1e12),
						BrokerCPUSeconds: rnd.Float64(), StoreBytesAfter: rnd.Int64N(1e9), StoreBytesBefore: rnd.Int64N(1e9), Lost: rnd.Int64N(3), Measures: map[string]float64{}}
					if math.IsNaN(a.Seconds) || math.IsInf(a.Seconds, 0) {
						a.Seconds = 1
					}
					for _, n := range names {
						if rnd.IntN(3) > 0 {
							a.Measures[n] = odd()
						}
					}
					run.Attempts = append(run.Attempts, a)
				}
			}
		}
		r := &resultfile.Result{Run: run}
		for _, s := range run.Scenarios {
			for _, n := range figuresOf(r, s) {
				svgOf(t, n.chart)
			}
		}
		page, err := Page(r)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(page, []byte("NaN")); i >= 0 {
			t.Fatalf("tables: …%s…", page[max(0, i-200):min(len(page), i+50)])
		}
		if t.Failed() {
			return
		}
	}
}

// Lines are told apart without colour: by shape and dashes together, and where
// both are alike by how light they are.
func TestLooksDifferInGrey(t *testing.T) {
	light := func(c color.NRGBA) float64 { return 0.299*float64(c.R) + 0.587*float64(c.G) + 0.114*float64(c.B) }
	many := resultfile.Scenario{Name: "many"}
	for _, d := range []string{"kafka", "kafka", "kafka", "kafka", "kafka", "kafka", "rabbitmq", "rabbitmq", "rabbitmq", "activemq", "activemq", "activemq", "activemq", "nats", "nats", "nats"} {
		many.Systems = append(many.Systems, resultfile.System{ID: fmt.Sprintf("%s-%d", d, len(many.Systems)), Driver: d, Role: resultfile.RoleSystem})
	}
	styles := stylesOf(many)
	for i, a := range many.Systems {
		for _, b := range many.Systems[:i] {
			x, y := styles[a.ID], styles[b.ID]
			if x.shape == y.shape && slices.Equal(x.dashes, y.dashes) && math.Abs(light(x.color)-light(y.color)) < 12 {
				t.Errorf("%s and %s look alike in grey", a.ID, b.ID)
			}
		}
	}
	for i, p := range storeParts {
		for _, q := range storeParts[:i] {
			if p.fill.lines == q.fill.lines && math.Abs(light(p.fill.color)-light(q.fill.color)) < 12 {
				t.Errorf("%s and %s look alike in grey", p.name, q.name)
			}
		}
	}
}

// A stack is the parts of the disk space, and no byte of it counts twice.
func TestStackSplitsTheDiskSpace(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Work: resultfile.Produce, PayloadBytes: 200}
	for _, c := range []struct {
		what                     string
		log, index, journal, own float64 // own: bytes of the format, 0 not known
		want                     []float64
	}{
		{"a log whose format is known", 209, 1, 0, 209, []float64{200, 9, 0, 1, 0, 0, 0}},
		{"a log with more than its messages", 300, 0, 0, 209, []float64{200, 9, 91, 0, 0, 0, 0}},
		{"messages in the journal", 0, 40, 560, 0, []float64{200, 0, 0, 40, 360, 0, 0}},
		{"messages in the index", 0, 330, 0.5, 0, []float64{200, 0, 0, 130, 0.5, 0, 0}},
		{"an index larger than the journal", 0, 700, 560, 0, []float64{200, 0, 0, 700, 360, 0, 0}},
		{"less than the payload", 120, 0, 0, 0, []float64{120, 0, 0, 0, 0, 0, 0}},
		{"nothing", 0, 0, 0, 0, []float64{0, 0, 0, 0, 0, 0, 0}},
	} {
		a := measuredAttempt()
		f := float64(a.Messages)
		a.StoredBytes = int64(c.own * f)
		a.Measures = map[string]float64{"store_log_bytes": c.log * f, "store_index_bytes": c.index * f, "store_journal_bytes": c.journal * f}
		r := oneAttempt(s, a)
		if got := splitOf(r, r.Run.Scenarios[0], r.Run.Scenarios[0].Systems[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	a := measuredAttempt()
	a.Measures = nil
	if r := oneAttempt(s, a); splitOf(r, r.Run.Scenarios[0], r.Run.Scenarios[0].Systems[0]) != nil {
		t.Error("nothing is known, and split all the same")
	}
}

func TestTailAxis(t *testing.T) {
	for _, c := range []struct{ percentile, at float64 }{{0, 0}, {90, 1}, {99, 2}, {99.9, 3}, {99.99, 4}} {
		if got := tail(c.percentile); math.Abs(got-c.at) > 1e-9 {
			t.Errorf("%v %% stands at %v, want %v", c.percentile, got, c.at)
		}
		if got := tailPercentile(c.at); math.Abs(got-c.percentile) > 1e-9 {
			t.Errorf("%v is %v %%, want %v", c.at, got, c.percentile)
		}
	}
	var labels []string
	for _, x := range tailTicks(5.2) {
		labels = append(labels, x.label)
	}
	if want := []string{"0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"}; !slices.Equal(labels, want) {
		t.Errorf("labels %q, want %q", labels, want)
	}
}

// A line over time has a gap where nothing was counted, and a rate elsewhere.
func TestGrowth(t *testing.T) {
	at := []float64{0, 1, 2, 3, 4}
	points := growth(at, []float64{0, 10, 20, 20, 50}, []float64{0, 1, 2, 2, 4})
	var got []float64
	for _, p := range points {
		got = append(got, p.y)
	}
	if !slices.Equal(got, []float64{10, 10, 15}) || !points[2].gap || points[1].gap {
		t.Errorf("%+v", points)
	}
	if growth([]float64{1}, []float64{1}, []float64{1}) != nil || growth(nil, nil, nil) != nil || growth([]float64{1, 1}, []float64{1, 2}, []float64{1, 2}) != nil {
		t.Error("a line of one moment")
	}
}

func TestPlotsOfOneScenarioStandTogether(t *testing.T) {
	out := t.TempDir()
	written, err := Draw(read(t, world{repeat: 1, only: []string{"overhead"}}.make(t)), out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range written {
		names = append(names, filepath.Base(path))
	}
	if !slices.Equal(names, []string{"overhead.png", "overhead.svg", "overhead.pdf", "tables.md"}) {
		t.Errorf("files %v", names)
	}
}
