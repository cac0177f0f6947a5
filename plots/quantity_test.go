package plots

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"kafkalab/results/resultfile"
)

// measured are the quantities that follow from an attempt's measures, and what
// they are of the attempt below.
var measured = map[Quantity]float64{
	BrokerSyscalls: 0.25, DiskReads: 2, GCShare: 0.05, ResidentPeak: 5e7, ResidentMemory: 5e7, LatencyP50: 0.001, LatencyP90: 0.002, LatencyP99: 0.003, LatencyP999: 0.004, latencyMax: 0.005,
	RateAchieved: 0.99, SlowestConsumer: 1234, ConsumedBeside: 4321, LogBytes: 209, IndexBytes: 3, JournalBytes: 4, MetadataBytes: 5, OtherBytes: 6,
	LostUnpromised: 70, LostPromised: 0, RestartTime: 0.5, SettleTime: 0.1, SettleTimeLongest: 0.2, RebalanceTries: 3, QuietRequests: 0.4, QuietCommits: 0.3, QuietProofs: 0.7, SettleAfterKill: 6,
	RepeatsClean: 0, RepeatsUnclean: 12, RepeatsBeyond: 2,
	DelayLive: 3, DelayReplica: 3.5, DelayLoad: 8, DelayLoadMean: 8.5, DelayLoadP99: 16, AuditMissing: 180, AuditDoubled: 5, AuditUnreported: 2, AuditWrong: 1, AuditBeyond: 4,
}

func measuredAttempt() resultfile.Attempt {
	return resultfile.Attempt{
		Scenario: "s", System: "x", Repetition: 1, Outcome: resultfile.Valid, Messages: 1000, PayloadBytes: 200_000, Seconds: 1, BrokerCPUSeconds: 2,
		Measures: map[string]float64{
			"broker_syscalls": 250, "broker_disk_read_bytes": 2000, "broker_gc_seconds": 0.1, "broker_resident_peak_bytes": 5e7,
			"latency_p50_seconds": 0.001, "latency_p90_seconds": 0.002, "latency_p99_seconds": 0.003, "latency_p999_seconds": 0.004, "latency_max_seconds": 0.005,
			"rate_wanted": 1000, "rate_achieved": 990, "consumer_slowest_rate": 1234, "consumed_per_second": 4321,
			"store_log_bytes": 209_000, "store_index_bytes": 3000, "store_journal_bytes": 4000, "store_metadata_bytes": 5000, "store_other_bytes": 6000,
			"crash_lost_unpromised": 70, "crash_lost_promised": 0, "restart_seconds": 0.5, "settle_median_seconds": 0.1, "settle_max_seconds": 0.2, "tries_max": 3,
			"quiet_requests_per_second": 0.4, "quiet_commits_per_second": 0.3, "quiet_proofs_per_second": 0.7, "settle_after_kill_seconds": 6, "repeats_clean": 0, "repeats_unclean": 12, "repeats_bound": 10,
			"delay_live_p50_seconds": 3, "delay_replica_p50_seconds": 3.5, "delay_load_p50_seconds": 8, "delay_load_mean_seconds": 8.5, "delay_load_p99_seconds": 16,
			"audit_missing": 180, "audit_doubled": 5, "audit_unreported": 2, "audit_wrong": 1, "audit_missing_beyond_dropped": 4,
		},
	}
}

// oneAttempt is a result of one scenario with one system, which has these
// attempts.
func oneAttempt(s resultfile.Scenario, as ...resultfile.Attempt) *resultfile.Result {
	if len(s.Systems) == 0 {
		s.Systems = []resultfile.System{{ID: "x", Label: "X", Driver: "kafka", Role: resultfile.RoleSystem}}
	}
	return &resultfile.Result{Run: resultfile.Run{Name: "synthetic", Scenarios: []resultfile.Scenario{s}, Attempts: as}}
}

func TestQuantitiesOfMeasures(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Work: resultfile.Produce, PayloadBytes: 200}
	r := oneAttempt(s, measuredAttempt())
	for q, want := range measured {
		if q == LatencyP999 {
			continue // of so few messages nobody knows it
		}
		if got := Values(r, "s", "x", q); len(got) != 1 || math.Abs(got[0]-want) > 1e-9*math.Max(want, 1) {
			t.Errorf("%s: %v, want %v", q, got, want)
		}
	}
	// What was not measured is not 0.
	bare := measuredAttempt()
	bare.Measures = nil
	r = oneAttempt(s, bare)
	for q := range measured {
		if got := Values(r, "s", "x", q); len(got) != 0 {
			t.Errorf("%s of an attempt without measures: %v", q, got)
		}
	}
}

// A number that is none, or that nothing can be divided by, is not known.
func TestOddMeasuresAreNotKnown(t *testing.T) {
	for name, change := range map[string]func(*resultfile.Attempt){
		"NaN":        func(a *resultfile.Attempt) { a.Measures["broker_syscalls"] = math.NaN() },
		"infinite":   func(a *resultfile.Attempt) { a.Measures["broker_syscalls"] = math.Inf(1) },
		"no message": func(a *resultfile.Attempt) { a.Messages = 0 },
	} {
		a := measuredAttempt()
		change(&a)
		if got := Values(oneAttempt(resultfile.Scenario{Name: "s", PayloadBytes: 200}, a), "s", "x", BrokerSyscalls); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	a := measuredAttempt()
	a.Measures["rate_wanted"], a.BrokerCPUSeconds = 0, 0
	r := oneAttempt(resultfile.Scenario{Name: "s", PayloadBytes: 200}, a)
	if got := append(Values(r, "s", "x", RateAchieved), Values(r, "s", "x", GCShare)...); len(got) != 0 {
		t.Errorf("divided by nothing: %v", got)
	}
}

// A system's own payload counts where it has one.
func TestOverheadIsOfTheSystemsOwnPayload(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Work: resultfile.Produce, PayloadBytes: 200, Systems: []resultfile.System{{ID: "x", Label: "X", Driver: "kafka", Role: resultfile.RoleSystem, PayloadBytes: 1000}}}
	a := measuredAttempt()
	a.StoreBytesAfter = 1009 * a.Messages
	if got := Values(oneAttempt(s, a), "s", "x", StoreOverhead); len(got) != 1 || got[0] != 9 {
		t.Errorf("overhead %v, want 9", got)
	}
}

func TestShow(t *testing.T) {
	for _, c := range []struct {
		q    Quantity
		v    float64
		want string
	}{
		{LatencyP99, 0.00125, "1.25 ms"}, {LatencyP99, 0.0003404, "340 µs"}, {LatencyP99, 2.5, "2.5 s"}, {LatencyP99, 0, "0 µs"},
		{ResidentPeak, 13.25 * (1 << 20), "13.3 MiB"}, {ResidentPeak, 5 << 30, "5 GiB"}, {LogRate, 117.6e6, "118 MB/s"},
		{LinkShare, 0.9934, "99.3 %"}, {MessageRate, 556_123, "556,000 messages/s"}, {StoreBytes, 209, "209 B/message"},
		{DiskWrites, 0.0004096, "0.00041 B/message"}, {StoreOverhead, -12, "-12 B/message"}, {MessageRate, math.NaN(), "- messages/s"}, {MessageRate, math.Inf(1), "- messages/s"},
	} {
		if got := Show(c.q, c.v); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.q, c.v, got, c.want)
		}
	}
	for q, known := range quantities {
		if known.title == "" || strings.HasSuffix(known.title, ".") || q.head() == "" || known.of == nil {
			t.Errorf("%s: title %q, head %q", q, known.title, q.head())
		}
	}
}

// The whole over its beginning, whose end lies between two points.
func TestOfFirst(t *testing.T) {
	points := []resultfile.Point{{}, {Seconds: 1, Arrived: 4_000_000}, {Seconds: 2, Arrived: 6_000_000}, {Seconds: 4, Arrived: 10_000_000}}
	a := resultfile.Attempt{Messages: 10_000_000, StoredBytes: 2_000_000_000, Seconds: 4}
	// 10^9 bytes are 5,000,000 messages, after 1.5 s: 3.33 million a second, and 2.5 of all.
	if got, ok := ofFirst(points, a); !ok || math.Abs(got-0.75) > 1e-9 {
		t.Errorf("%v, %v, want 0.75", got, ok)
	}
	if _, ok := ofFirst(points[:2], a); ok {
		t.Error("of points that end before the first GB")
	}
	a.StoredBytes = 1_999_999_999
	if _, ok := ofFirst(points, a); ok {
		t.Error("of less than twice as much")
	}
}

// A scenario without a rate is held against the link without one.
func TestLinkOfAScenario(t *testing.T) {
	r := oneAttempt(resultfile.Scenario{Name: "s", Title: "T", Work: resultfile.Produce, PayloadBytes: 200, Link: resultfile.LinkUnshaped})
	r.Run.Testbed = resultfile.Testbed{LinkGoodputMbps: 941, LinkReverseGoodputMbps: 940, UnshapedGoodputMbps: 20_000, UnshapedReverseGoodputMbps: 21_000}
	s := r.Run.Scenarios[0]
	if got := linkMbps(r, s); got != 20_000 {
		t.Errorf("goodput %v", got)
	}
	if line := linkLine(r.Run.Testbed, s); !strings.Contains(line, "20,000") || !strings.Contains(line, "21,000") || !strings.Contains(heading(s), "unshaped") {
		t.Errorf("%q, %q", line, heading(s))
	}
	s.Work, s.Link = resultfile.Consume, ""
	if got := linkMbps(r, s); got != 940 || linkLine(r.Run.Testbed, s) != "" || heading(s) != "T" {
		t.Errorf("with a rate: %v, %q", got, linkLine(r.Run.Testbed, s))
	}
}

func TestPercentilesNeedMessages(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Work: resultfile.Stream, PayloadBytes: 200}
	for _, c := range []struct {
		messages int64
		known    []Quantity
	}{
		{40, []Quantity{LatencyP50, latencyMax}},
		{99, []Quantity{LatencyP50, latencyMax}},
		{100, []Quantity{LatencyP50, LatencyP90, latencyMax}},
		{999, []Quantity{LatencyP50, LatencyP90, latencyMax}},
		{1_000, []Quantity{LatencyP50, LatencyP90, LatencyP99, latencyMax}},
		{10_000, []Quantity{LatencyP50, LatencyP90, LatencyP99, LatencyP999, latencyMax}},
	} {
		a := measuredAttempt()
		a.Messages = c.messages
		r := oneAttempt(s, a)
		for _, q := range []Quantity{LatencyP50, LatencyP90, LatencyP99, LatencyP999, latencyMax} {
			if got := len(Values(r, "s", "x", q)) == 1; got != slices.Contains(c.known, q) {
				t.Errorf("%s of %d messages: known is %v", q, c.messages, got)
			}
		}
	}
}

func TestPercentilesOfALegend(t *testing.T) {
	for n, want := range map[int]string{
		1: "p50 1 ms (1 message: too few for p99)", 40: "p50 1 ms (40 messages: too few for p99)",
		100: "p50 1 ms, p90 1 ms (100 messages: too few for p99)", 1_000: "p50 1 ms, p99 1 ms",
	} {
		h := hdrhistogram.New(1000, 60e9, 3)
		if err := h.RecordValues(1e6, int64(n)); err != nil {
			t.Fatal(err)
		}
		if got := percentilesOf([]*hdrhistogram.Histogram{h}); got != want {
			t.Errorf("%d messages: %q, want %q", n, got, want)
		}
	}
}
