package plots

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"kafkalab/results/resultfile"
)

// world is an invented run of scenarios with every kind of figure. Whatever is
// drawn of it says that it is synthetic.
type world struct {
	repeat  int
	outcome func(a *resultfile.Attempt) // may change an attempt before it is put
	only    []string                    // scenarios; none means all
}

func worldSystem(id, label, driver string) resultfile.System {
	return resultfile.System{ID: id, Label: label, Driver: driver, Role: resultfile.RoleSystem, Settings: []resultfile.Setting{{Row: "version", Value: "synthetic " + driver + " 1.0"}}}
}

// worldScenarios are one scenario for each chart, and one that was drawn before
// there were others.
func worldScenarios() []resultfile.Scenario {
	var out []resultfile.Scenario
	add := func(s resultfile.Scenario) {
		s.Title += " (synthetic)"
		s.Purpose, s.Limit = "invented", "invented"
		if s.PayloadBytes == 0 {
			s.PayloadBytes = 200
		}
		out = append(out, s)
	}
	sweep := resultfile.Scenario{Name: "batch-sweep", Title: "Messages a request", Work: resultfile.Produce, Chart: resultfile.Sweep,
		Axis: &resultfile.Axis{Label: "messages a request", Log: true}, Shows: []string{"message rate", "broker CPU", "broker syscalls"}}
	for _, d := range []string{"kafka", "rabbitmq"} {
		for _, x := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
			y := worldSystem(fmt.Sprintf("%s-%d", d, x), fmt.Sprintf("%s, batch %d", d, x), d)
			y.Series, y.X = d+", batches", float64(x)
			sweep.Systems = append(sweep.Systems, y)
		}
	}
	limit := worldSystem("limit", "Physical limit (raw TCP)", "rawlimit")
	limit.Role = resultfile.RoleLimit
	sweep.Systems = append(sweep.Systems, limit)
	add(sweep)

	overhead := resultfile.Scenario{Name: "overhead", Title: "What a message takes", Work: resultfile.Produce, Chart: resultfile.Bars,
		Shows: []string{"store overhead", "wire bytes", "store bytes", "message rate"}}
	overhead.Systems = []resultfile.System{worldSystem("kafka", "Kafka", "kafka"), worldSystem("rabbitmq", "RabbitMQ", "rabbitmq"),
		worldSystem("rabbitmq-best", "RabbitMQ, stream queue, confirms in bulk", "rabbitmq"), worldSystem("activemq", "ActiveMQ, receipt for each message", "activemq"), limit}
	overhead.Systems[2].Role, overhead.Systems[2].View = resultfile.RoleExtra, resultfile.ViewBest
	add(overhead)

	soak := resultfile.Scenario{Name: "soak", Title: "Thirty minutes at ten times the rate of the paper", Work: resultfile.Stream, Chart: resultfile.OverTime}
	soak.Systems = []resultfile.System{worldSystem("kafka", "Kafka", "kafka"), worldSystem("activemq", "ActiveMQ", "activemq")}
	for i := range soak.Systems {
		soak.Systems[i].Rate = 20_000
	}
	add(soak)

	late := resultfile.Scenario{Name: "latency", Title: "Latency at fixed rates", Work: resultfile.Stream, Chart: resultfile.Latencies}
	for _, rate := range []float64{1000, 20_000} {
		for _, d := range []string{"kafka", "rabbitmq", "nats"} {
			y := worldSystem(fmt.Sprintf("%s-%.0f", d, rate), d+" at a rate", d)
			y.Rate, y.Series = rate, d
			late.Systems = append(late.Systems, y)
		}
	}
	add(late)

	loss := resultfile.Scenario{Name: "loss-budget", Title: "Lost in a crash", Work: resultfile.Crash, Chart: resultfile.Bars, Shows: []string{"lost unpromised", "lost promised", "restart time"}}
	loss.Systems = []resultfile.System{worldSystem("kafka-none", "Kafka, no acknowledgement", "kafka"), worldSystem("kafka-flushed", "Kafka, flushed", "kafka")}
	add(loss)

	rebalance := resultfile.Scenario{Name: "rebalance", Title: "Consumers that come and go", Work: resultfile.Rebalance, Chart: resultfile.Sweep,
		Axis: &resultfile.Axis{Label: "consumers of the group"}, Shows: []string{"settle time", "rebalance tries", "quiet requests"}}
	for _, x := range []int{2, 4, 8} {
		y := worldSystem(fmt.Sprintf("kafka-%d", x), fmt.Sprintf("Kafka, %d consumers", x), "kafka")
		y.Series, y.X, y.Consumers = "Kafka", float64(x), x
		rebalance.Systems = append(rebalance.Systems, y)
	}
	add(rebalance)

	pipes := resultfile.Scenario{Name: "pipeline", Title: "The whole pipeline", Work: resultfile.Pipeline, Chart: resultfile.OverTiers,
		Shows: []string{"delay to live", "delay to load", "mean delay to load", "audit missing"}}
	for _, id := range []string{"kafka", "kafka-dropped"} {
		y := worldSystem(id, "Pipeline, "+id, "kafka")
		y.Rate = 300
		pipes.Systems = append(pipes.Systems, y)
	}
	add(pipes)
	return out
}

func (w world) make(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "synthetic-world")
	facts := []resultfile.Fact{{Name: "processor", Value: "Invented 9000"}, {Name: "cores", Value: "2"}, {Name: "memory", Value: "23.4 GiB"},
		{Name: "sequential write", Value: "1000 MB/s (direct I/O, 1000 MB)"}, {Name: "sequential read", Value: "2000 MB/s (direct I/O, 1000 MB)"}}
	started := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	scenarios := slices.DeleteFunc(worldScenarios(), func(s resultfile.Scenario) bool { return len(w.only) > 0 && !slices.Contains(w.only, s.Name) })
	out, err := resultfile.Create(dir, resultfile.Run{
		Started: started, Commit: "0123456789abcdef0123", Command: "testbed run (synthetic: no system was measured)",
		Testbed: resultfile.Testbed{Kind: "netns", Emulated: true, ClientHost: resultfile.Host{Name: "client", Facts: facts}, BrokerHost: resultfile.Host{Name: "broker", Facts: facts},
			LinkGoodputMbps: 940, LinkReverseGoodputMbps: 940, BrokerLimits: &resultfile.Limits{Cores: "0-1"}, Clock: &resultfile.Clock{Same: true}},
		Messages: 100_000, Repeat: w.repeat, CapSeconds: 45, Scenarios: scenarios,
		Ceilings: []resultfile.Ceiling{{Work: resultfile.Produce, PayloadBytes: 200, MessagesPerSecond: 900_000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	rnd := rand.New(rand.NewPCG(3, 4))
	order := 0
	for rep := 1; rep <= w.repeat; rep++ {
		for _, s := range scenarios {
			for i, y := range s.Systems {
				order++
				w.put(t, out, rnd, s, y, i, rep, order, started)
			}
		}
	}
	return dir
}

func (w world) put(t testing.TB, out *resultfile.Writer, rnd *rand.Rand, s resultfile.Scenario, y resultfile.System, i, rep, order int, started time.Time) {
	t.Helper()
	noise := 1 + 0.1*(rnd.Float64()-0.5)
	base := map[string]float64{"kafka": 500_000, "rabbitmq": 40_000, "activemq": 20_000, "nats": 200_000, "rawlimit": 562_000}[y.Driver]
	rate := base * noise
	if y.Series != "" && y.X > 0 {
		rate *= y.X / (y.X + 3)
	}
	messages, seconds := int64(100_000), 100_000/rate
	if s.Work == resultfile.Stream {
		seconds, messages = 60, int64(y.Rate*60)
		if s.Name == "soak" {
			seconds, messages = 1800, int64(y.Rate*1800)
		}
	}
	a := resultfile.Attempt{
		ID: fmt.Sprintf("%s-%s-%d", s.Name, y.ID, rep), Scenario: s.Name, System: y.ID, Repetition: rep, Order: order, Started: started, Outcome: resultfile.Valid,
		Messages: messages, PayloadBytes: messages * 200, Seconds: seconds, ClientMessages: messages, ClientSeconds: seconds, Verified: true,
		BrokerCPUSeconds: seconds * 0.9, ClientCPUSeconds: seconds * 0.3, StoreBytesAfter: messages * int64(209+180*i), BrokerResidentBytes: 20 << 20,
	}
	if y.Driver == "kafka" || y.Driver == "rawlimit" {
		a.StoredBytes = messages * 209
	}
	f := float64(messages)
	a.Measures = map[string]float64{
		"broker_syscalls": f * 0.02 * float64(i+1), "broker_disk_read_bytes": 0, "broker_resident_peak_bytes": 20e6 * (1 + float64(i)),
		"store_log_bytes": f * 209, "store_index_bytes": f * 24 * float64(i), "store_journal_bytes": f * 30 * float64(i), "store_metadata_bytes": 4096, "store_other_bytes": f * 9 * float64(i),
		"crash_lost_unpromised": 3000 * noise / float64(1+i*i*1000), "crash_lost_promised": 0, "restart_seconds": 0.4 * noise,
		"settle_median_seconds": 0.05 * (1 + y.X) * noise, "settle_max_seconds": 0.2 * (1 + y.X), "tries_max": 1 + math.Floor(y.X/4), "quiet_requests_per_second": 0.5 * y.X,
	}
	if s.Work == resultfile.Pipeline {
		for k, tier := range resultfile.Tiers() {
			a.Measures["delay_"+tier+"_mean_seconds"], a.Measures["delay_"+tier+"_p50_seconds"] = float64(3*k+1), float64(3*k+1)*0.9
			a.Measures["delay_"+tier+"_p99_seconds"], a.Measures["delay_"+tier+"_max_seconds"] = float64(3*k+2), float64(3*k+3)
			a.Measures["lost_"+tier], a.Measures["audit_missing_"+tier], a.Measures["doubled_"+tier], a.Measures["audit_doubled_"+tier] = float64(180*i), float64(180*i), 0, 0
		}
		a.Measures["audit_missing"], a.Measures["audit_wrong"] = float64(180*i), 0
	}
	if y.Driver == "rawlimit" {
		a.Measures = nil
		a.StoreBytesAfter = 0
	}
	if y.Driver == "kafka" {
		a.Measures["broker_gc_seconds"] = seconds * 0.004
	}
	if s.Work == resultfile.Stream {
		a.Measures["rate_wanted"], a.Measures["rate_achieved"] = y.Rate, y.Rate*0.999
	}
	if w.outcome != nil {
		w.outcome(&a)
	}
	var points []resultfile.Point
	var samples []resultfile.Sample
	if a.Outcome == resultfile.Valid {
		points, samples = worldSeries(rnd, a, i)
		if s.Chart == resultfile.OverTiers {
			delays, audit := worldTiers(t, i)
			if err := out.PutLatency(a.ID, delays); err != nil {
				t.Fatal(err)
			}
			if err := out.PutAudit(a.ID, audit); err != nil {
				t.Fatal(err)
			}
		}
		if s.Chart == resultfile.Latencies {
			if err := out.PutLatency(a.ID, worldLatency(rnd, i, y.Rate)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := out.PutAttempt(a, points, samples); err != nil {
		t.Fatal(err)
	}
}

// worldTiers is a pipeline of 40 s: a load every 10 s, and of the second system a
// set of 180 messages that the audit misses.
func worldTiers(t testing.TB, i int) (*resultfile.Latency, []resultfile.AuditWindow) {
	l := &resultfile.Latency{}
	var audit []resultfile.AuditWindow
	for k, tier := range resultfile.Tiers() {
		for second := range 40 {
			if k == 2 && second%10 != 9 {
				continue
			}
			h := resultfile.NewLatencyHistogram()
			record(h, float64(3*k+1)*1e9)
			in, err := resultfile.NewLatencyInterval(tier, float64(second), 1, h)
			if err != nil {
				t.Fatal(err)
			}
			l.Intervals = append(l.Intervals, in)
		}
		for window := range 8 {
			w := resultfile.AuditWindow{Tier: tier, Start: float64(5*window) - 2, Seconds: 5, Made: 1500, Counted: 1500}
			if i == 1 && window == 4 {
				w.Missing, w.Counted = 180, 1320
			}
			audit = append(audit, w)
		}
	}
	return l, audit
}

func worldSeries(rnd *rand.Rand, a resultfile.Attempt, i int) (points []resultfile.Point, samples []resultfile.Sample) {
	const steps = 200
	rates := make([]float64, steps)
	sum := 0.0
	for k := range rates {
		rates[k] = 1 + 0.2*rnd.Float64()
		sum += rates[k]
	}
	done := 0.0
	points = append(points, resultfile.Point{})
	for k, v := range rates {
		done += v / sum
		n := int64(math.Round(done * float64(a.Messages)))
		if k == steps-1 {
			n = a.Messages
		}
		at := a.Seconds * float64(k+1) / steps
		points = append(points, resultfile.Point{Seconds: at, Messages: n, Bytes: n * 200, Arrived: n})
	}
	for k := 0; k <= steps; k++ {
		at := a.Seconds * float64(k) / steps
		bytes := int64(float64(points[k].Messages) * 209)
		samples = append(samples,
			resultfile.Sample{Seconds: at, Host: "client", CPUSeconds: at * 1.2, ProcessSeconds: at * 0.3, NetTxBytes: bytes, NetRxBytes: bytes / 50, MemoryFree: 1 << 30},
			resultfile.Sample{Seconds: at, Host: "broker", CPUSeconds: at * 1.2, ProcessSeconds: at * 0.9, NetRxBytes: bytes, NetTxBytes: bytes / 50, DiskWriteBytes: bytes, MemoryFree: 1 << 30,
				ProcessResidentBytes: int64(20e6*float64(i+1) + 2e6*math.Sin(float64(k)/9)), ProcessWriteBytes: bytes, GCSeconds: at * 0.004 * float64(1-i%2), ProcessSyscalls: int64(k) * 100})
	}
	return points, samples
}

func worldLatency(rnd *rand.Rand, i int, rate float64) *resultfile.Latency {
	l := &resultfile.Latency{Planned: resultfile.NewLatencyHistogram(), Sent: resultfile.NewLatencyHistogram()}
	for range 20_000 {
		v := math.Exp(rnd.NormFloat64()*0.7) * 200e3 * float64(1+i%3) * (1 + rate/20_000)
		record(l.Sent, v)
		if rnd.IntN(200) == 0 {
			v += 50e6 * rnd.Float64()
		}
		record(l.Planned, v)
	}
	return l
}

func record(h *hdrhistogram.Histogram, v float64) {
	if err := h.RecordValue(int64(v)); err != nil {
		panic(err)
	}
}
