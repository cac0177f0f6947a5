package paper

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// everyChart is a run of invented numbers with a scenario for each chart and
// each kind of work.
type everyChart struct {
	name   string
	only   string // a scenario; empty: all
	raid   bool
	repeat int
}

func everyScenario() []resultfile.Scenario {
	system := func(id, driver string, change ...func(*resultfile.System)) resultfile.System {
		y := resultfile.System{ID: id, Label: "Synthetic " + id, Driver: driver, Role: resultfile.RoleSystem, Settings: []resultfile.Setting{{Row: "version", Value: "synthetic 1.0"}},
			Contract: []resultfile.ContractRow{{Row: "durability", Value: "invented", Class: driver, ReadBack: true}, {Row: "version", Value: "synthetic"}}}
		for _, c := range change {
			c(&y)
		}
		return y
	}
	point := func(series string, x float64) func(*resultfile.System) {
		return func(y *resultfile.System) { y.Series, y.X = series, x }
	}
	rate := func(v float64) func(*resultfile.System) {
		return func(y *resultfile.System) { y.Rate, y.Series = v, y.Driver }
	}
	view := func(role, v string) func(*resultfile.System) {
		return func(y *resultfile.System) { y.Role, y.View = role, v }
	}
	limit := system("limit", "rawlimit", view(resultfile.RoleLimit, ""))
	all := []resultfile.Scenario{
		{Name: "fig4-producer", Work: resultfile.Produce, Chart: resultfile.OverData, Systems: []resultfile.System{limit, system("kafka-b50", "kafka"),
			system("rabbitmq", "rabbitmq", view(resultfile.RoleSystem, resultfile.ViewPaper)), system("rabbitmq-best", "rabbitmq", view(resultfile.RoleExtra, resultfile.ViewBest))}},
		{Name: "batch-sweep", Work: resultfile.Produce, Chart: resultfile.Sweep, Axis: &resultfile.Axis{Label: "messages a request", Log: true}, Shows: []string{"message rate", "broker CPU", "broker syscalls"},
			Systems: []resultfile.System{system("kafka-1", "kafka", point("Kafka", 1)), system("kafka-10", "kafka", point("Kafka", 10)), system("kafka-50", "kafka", point("Kafka", 50)), limit}},
		{Name: "overhead", Work: resultfile.Produce, Chart: resultfile.Bars, Shows: []string{"store bytes", "wire bytes", "message rate"},
			Systems: []resultfile.System{system("kafka", "kafka"), system("activemq", "activemq")}},
		{Name: "soak", Work: resultfile.Stream, Chart: resultfile.OverTime, Systems: []resultfile.System{system("kafka", "kafka", rate(20_000))}},
		{Name: "latency", Work: resultfile.Stream, Chart: resultfile.Latencies,
			Systems: []resultfile.System{system("kafka-1000", "kafka", rate(1000)), system("rabbitmq-1000", "rabbitmq", rate(1000)), system("kafka-20000", "kafka", rate(20_000))}},
		{Name: "loss-budget", Work: resultfile.Crash, Chart: resultfile.Bars, Shows: []string{"lost unpromised", "lost promised", "restart time"},
			Systems: []resultfile.System{system("kafka-none", "kafka"), system("kafka-flushed", "kafka")}},
		{Name: "rebalance", Work: resultfile.Rebalance, Chart: resultfile.Sweep, Axis: &resultfile.Axis{Label: "consumers"}, Shows: []string{"settle time", "rebalance tries"},
			Systems: []resultfile.System{system("kafka-2", "kafka", point("Kafka", 2)), system("kafka-4", "kafka", point("Kafka", 4))}},
	}
	for i := range all {
		s := &all[i]
		s.Title, s.Purpose, s.Limit, s.PayloadBytes = "Every chart: "+s.Name+" (synthetic)", "synthetic", "invented", 200
	}
	return all
}

// write makes the run's folder in dir, and returns its path.
func (v everyChart) write(t testing.TB, dir string) string {
	t.Helper()
	facts := inventedFacts()
	scenarios := slices.DeleteFunc(everyScenario(), func(s resultfile.Scenario) bool { return v.only != "" && s.Name != v.only })
	return writeRun(t, filepath.Join(dir, v.name), resultfile.Run{
		Started: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Ended: time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC), Commit: "0123456789abcdef0123", Command: "testbed run (synthetic: no system was measured)",
		Testbed: resultfile.Testbed{Kind: "netns", Emulated: true, ClientHost: resultfile.Host{Name: "client", Facts: facts}, BrokerHost: resultfile.Host{Name: "broker", Facts: facts},
			LinkGoodputMbps: 941, LinkReverseGoodputMbps: 941, LinkNote: "invented link", RAID10: v.raid, BrokerLimits: &resultfile.Limits{Cores: "0-1", MemoryBytes: 2 << 30, Note: "invented"}, Clock: &resultfile.Clock{Same: true}},
		Messages: 1_000_000, Repeat: v.repeat, Scenarios: scenarios,
		Ceilings: []resultfile.Ceiling{{Work: resultfile.Produce, PayloadBytes: 200, MessagesPerSecond: 900_000}},
	}, v.put)
}

func (v everyChart) put(t testing.TB, w *resultfile.Writer, s resultfile.Scenario, y resultfile.System, repetition, order int) {
	t.Helper()
	i := slices.IndexFunc(s.Systems, func(one resultfile.System) bool { return one.ID == y.ID })
	rate := map[string]float64{"kafka": 400_000, "rabbitmq": 40_000, "activemq": 20_000, "rawlimit": 562_000}[y.Driver] * (1 + 0.01*float64(repetition))
	if v.raid {
		rate *= 0.8
	}
	n := int64(1_000_000)
	if s.Work == resultfile.Stream {
		rate, n = y.Rate, int64(60*y.Rate)
	}
	f, seconds := float64(n), float64(n)/rate
	a := resultfile.Attempt{
		Scenario: s.Name, System: y.ID, Repetition: repetition, Order: order, Outcome: resultfile.Valid,
		Messages: n, PayloadBytes: n * 200, Seconds: seconds, ClientMessages: n, ClientSeconds: seconds, Verified: true,
		BrokerCPUSeconds: seconds * 0.9, ClientCPUSeconds: seconds * 0.3, BrokerResidentBytes: 20 << 20, BrokerDiskWriteBytes: n * 209, StoreBytesAfter: n * int64(209+100*i),
		Measures: map[string]float64{
			"broker_syscalls": f * 0.02, "broker_disk_read_bytes": 0, "broker_resident_peak_bytes": 20e6, "broker_gc_seconds": seconds * 0.004, "rate_wanted": rate, "rate_achieved": rate,
			"store_log_bytes": f * 209, "store_index_bytes": f * 24 * float64(i), "crash_lost_unpromised": 3000 * float64(1-i%2), "crash_lost_promised": 0, "restart_seconds": 0.4,
			"settle_median_seconds": 0.05 * (1 + y.X), "settle_max_seconds": 0.2 * (1 + y.X), "tries_max": 2, "quiet_requests_per_second": 0, "quiet_commits_per_second": 0.1,
			"repeats_clean": 0, "repeats_unclean": 30, "repeats_bound": 100,
		},
	}
	if y.Driver == "kafka" || y.Driver == "rawlimit" {
		a.StoredBytes = n * 209
	}
	a, err := w.Begin(a)
	if err != nil {
		t.Fatal(err)
	}
	points := []resultfile.Point{{}}
	samples := []resultfile.Sample{{Host: "client"}, {Host: "broker"}}
	for k := int64(1); k <= 40; k++ {
		at := seconds * float64(k) / 40
		points = append(points, resultfile.Point{Seconds: at, Messages: n * k / 40, Bytes: n * k / 40 * 200, Arrived: n * k / 40})
		samples = append(samples, resultfile.Sample{Seconds: at, Host: "client", ProcessSeconds: at * 0.3, NetTxBytes: n * k / 40 * 210},
			resultfile.Sample{Seconds: at, Host: "broker", ProcessSeconds: at * 0.9, NetRxBytes: n * k / 40 * 210, DiskWriteBytes: n * k / 40 * 209, ProcessResidentBytes: 20_000_000 + int64(1e6*math.Sin(float64(k))), GCSeconds: at * 0.004})
	}
	if s.Chart == resultfile.Latencies {
		l := &resultfile.Latency{Planned: resultfile.NewLatencyHistogram(), Sent: resultfile.NewLatencyHistogram()}
		for k := range 2000 {
			late := int64(200_000 * (1 + float64(i)) * math.Exp(float64(k%97)/30))
			if err := l.Planned.RecordValue(late + 100_000); err != nil {
				t.Fatal(err)
			}
			if err := l.Sent.RecordValue(late); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.PutLatency(a.ID, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.PutAttempt(a, points, samples); err != nil {
		t.Fatal(err)
	}
}

// inventedDrawings makes a folder of drawings of clusters that never were, with
// a mirror between them.
func inventedDrawings(t testing.TB, path string) string {
	t.Helper()
	taken := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	cluster := func(name string) plots.Cluster {
		c := plots.Cluster{Name: name, ZooKeeper: "ZooKeeper (synthetic)", Producers: []plots.Producer{{Name: "front end", Topics: []string{"clicks"}}}}
		g := plots.Group{Name: "readers"}
		for i := range int32(2) {
			consumer := fmt.Sprintf("consumer %d", i+1)
			stream := consumer + ", stream 0"
			c.Brokers = append(c.Brokers, plots.ClusterBroker{ID: i, Address: "127.0.0.1:9092", Partitions: []plots.BrokerPartition{{Topic: "clicks", Watermark: 418, LogEnd: 418, Segments: 1}}})
			g.Members = append(g.Members, plots.Member{Consumer: consumer, Streams: []string{stream}})
			g.Partitions = append(g.Partitions, plots.GroupPartition{Topic: "clicks", BrokerID: i, Owner: &stream, Committed: new(int64(418))})
		}
		c.Groups = []plots.Group{g}
		return c
	}
	topology := &plots.Topology{
		Schema: plots.DrawingsSchema, Taken: taken, Commit: "0123456789ab", Command: "testbed draw", Note: "Synthetic: no cluster was read.",
		Clusters: []plots.Cluster{cluster("live"), cluster("analysis")}, Mirrors: []plots.Mirror{{From: "live", To: "analysis", Topics: []string{"clicks"}}},
	}
	log := &plots.PartitionLog{
		Schema: plots.DrawingsSchema, Taken: taken, Commit: "0123456789ab", Command: "testbed draw", Note: "Synthetic: no log was read.",
		Broker: "broker 0", Topic: "clicks", SegmentBytes: 300, Bases: []int64{0, 418}, Watermark: 627,
		Segments: []plots.LogSegment{
			{File: "00000000000000000000.kafka", End: 418, Messages: 2, Shown: []plots.LogMessage{{Next: 209}, {Offset: 209, Next: 418}}},
			{File: "00000000000000000418.kafka", Base: 418, End: 627, Messages: 1, Shown: []plots.LogMessage{{Offset: 418, Next: 627}}},
		},
	}
	mustMkdir(t, path)
	if err := plots.WriteDrawings(path, topology, log); err != nil {
		t.Fatal(err)
	}
	return path
}
