package mirror_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/message"
	"kafkalab/kafka/mirror"
	"kafkalab/kafka/wire"
)

// TestTargetDownForAWhile: while the target is away its lag shows, memory is bounded, the
// partitions of other brokers go on, and when it is back everything arrives.
func TestTargetDownForAWhile(t *testing.T) {
	t.Parallel()
	const (
		fetch  = 32 << 10
		buffer = 128 << 10
		size   = 1000
	)
	live, replica := newCluster(t, 1, 4), newCluster(t, 2, 2)
	live.produce("t", 0, 20, size)
	m := openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.FetchBytes, c.MaxBufferBytes = fetch, buffer })
	replica.awaitArrived("t", 80)
	live.awaitCommitted("t")
	down := replica.brokers[1] // the partitions 2 and 3 of the source go there
	down.Stop()
	up := &cluster{TB: t, brokers: replica.brokers[:1], partitions: 2}
	live.produce("t", 20, 500, size) // 2 MB in all
	up.awaitArrived("t", 2*520)
	await(t, "stalled partitions", func() bool { return m.Stats().Stalled == 2 })
	await(t, "lag", func() bool { return gauges(t, m)["kafka_mirror_lag_bytes"] > 2*480*size })
	// One chunk more may be read when the bound is reached.
	if st := m.Stats(); st.BufferedBytes == 0 || st.BufferedBytes > buffer+fetch {
		t.Errorf("%d bytes are kept, with a bound of %d", st.BufferedBytes, buffer)
	}
	down.Restart()
	replica.awaitArrived("t", 4*520).check(t, 4, 520)
	live.awaitCommitted("t")
	await(t, "no lag", func() bool { return gauges(t, m)["kafka_mirror_lag_bytes"] == 0 })
	await(t, "nothing stalled", func() bool { return m.Stats().Stalled == 0 })
	if st := m.Stats(); st.BufferedBytes != 0 {
		t.Errorf("%d bytes are kept of what is flushed", st.BufferedBytes)
	}
}

// gauges gathers the metrics of a mirror: sums by name.
func gauges(t testing.TB, m *mirror.Mirror) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(mirror.NewCollector(m))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, v := range f.GetMetric() {
			sums[f.GetName()] += v.GetGauge().GetValue() + v.GetCounter().GetValue()
		}
	}
	return sums
}

// TestTargetBrokerGone: when a broker of the target stays away for longer than it is
// waited for, what belongs there goes to the others, in order.
func TestTargetBrokerGone(t *testing.T) {
	t.Parallel()
	live, replica := newCluster(t, 1, 4), newCluster(t, 2, 2)
	live.produce("t", 0, 50, 200)
	openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.TargetWait = 300 * time.Millisecond })
	replica.awaitArrived("t", 200)
	live.awaitCommitted("t")
	replica.brokers[1].Stop()
	live.produce("t", 50, 50, 200)
	up := &cluster{TB: t, brokers: replica.brokers[:1], partitions: 2}
	up.awaitArrived("t", 2*100+2*50)
}

// TestConnectionsBreak: connections to the target break under load. Nothing is lost, the
// order is kept, and what may have come twice was counted.
func TestConnectionsBreak(t *testing.T) {
	t.Parallel()
	live := newCluster(t, 1, 2)
	target := newSlowTarget(t, 2)
	target.proxy.setDelay(10 * time.Millisecond)
	stopProducing := live.produceMeanwhile("t", 0, 300)
	m := openMirror(t, target.cluster, []*cluster{live}, nil)
	for range 20 {
		before := m.Stats().Messages
		await(t, "messages between two breaks", func() bool { return m.Stats().Messages > before+100 })
		target.proxy.cut()
	}
	n := stopProducing()
	target.awaitArrived("t", 2*n)
	live.awaitCommitted("t")
	a := target.arrived("t")
	a.check(t, 2, n)
	st := m.Stats()
	if int64(a.doubled()) > st.RepeatedMessages {
		t.Errorf("%d messages are doubled, and %d counted as repeated", a.doubled(), st.RepeatedMessages)
	}
	if st.RepeatedMessages == 0 {
		t.Error("no break has met a message on its way")
	}
	if int(st.Messages) != 2*n {
		t.Errorf("%d messages are counted as copied, not %d", st.Messages, 2*n)
	}
}

// TestSourceRetentionAhead: what the source has deleted before it was copied is a gap,
// told with topic, partition and offsets, and the mirror goes on behind it. A mirror that
// is not there tells of it when it comes.
func TestSourceRetentionAhead(t *testing.T) {
	t.Parallel()
	small := func(c *broker.Config) {
		c.Storage.SegmentBytes, c.Storage.RetentionBytes, c.Storage.CleanupInterval = 16<<10, 32<<10, 20*time.Millisecond
	}
	live, replica := newCluster(t, 1, 1, small), newCluster(t, 1, 1)
	var mu sync.Mutex
	var gaps []mirror.Gap
	open := func() *mirror.Mirror {
		return openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) {
			c.OnGap = func(g mirror.Gap) {
				mu.Lock()
				defer mu.Unlock()
				gaps = append(gaps, g)
			}
		})
	}
	m := open()
	live.produce("t", 0, 10, 1000)
	replica.awaitArrived("t", 10)
	end := int64(len(live.log(live.brokers[0], "t", 0, 0)))
	p := mirrorPartition(0, 0)
	await(t, "the offset", func() bool { return live.stored(group, "t", p) == end })
	closeMirror(t, m)
	for from := 10; from < 400; from += 10 {
		live.produce("t", from, 10, 1000)
	}
	state := func() wire.TopicState {
		conn := dial(t, live.brokers[0].HostPort())
		defer conn.Close()
		states, err := conn.Topics(testContext(t), "t")
		if err != nil {
			t.Fatal(err)
		}
		return states[0]
	}
	first := func() int64 { return state().First }
	// All that it will ever delete: with one segment less there would be too little.
	await(t, "retention", func() bool {
		s := state()
		files, err := filepath.Glob(filepath.Join(live.brokers[0].Config.LogDir, "t-0", "*.kafka"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) < 2 {
			return false // while some are removed
		}
		slices.Sort(files)
		var second int64
		if _, err := fmt.Sscanf(filepath.Base(files[1]), "%d.kafka", &second); err != nil {
			t.Fatal(err)
		}
		return s.First > end && int(s.Segments) == len(files) && s.Watermark-second < 32<<10
	})
	m = open()
	await(t, "the last message", func() bool {
		list := replica.arrived("t")["t 0-0"]
		return list[len(list)-1].number == 399
	})
	mu.Lock()
	told := gaps
	mu.Unlock()
	if len(told) != 1 {
		t.Fatalf("gaps %+v, one is wanted", told)
	}
	g := told[0]
	if g.Topic != "t" || g.Partition != p || g.Source != live.zk.Direct() || g.From != end || g.To <= end || g.To > first() {
		t.Errorf("the gap is %+v; copied was up to %d", g, end)
	}
	// Every message that is behind the gap has come.
	list := replica.arrived("t")["t 0-0"]
	each := end / 10
	if want := int(g.To / each); list[10].number != want || len(list) != 10+400-want {
		t.Errorf("behind the gap come %d messages from %d on, %d from %d on are wanted", len(list)-10, list[10].number, 400-want, want)
	}
	if st := m.Stats(); st.Gaps != 1 || st.GapBytes != g.Bytes() {
		t.Errorf("counted are %d gaps of %d bytes", st.Gaps, st.GapBytes)
	}
	if got := gauges(t, m)["kafka_mirror_gap_bytes_total"]; got != float64(g.Bytes()) {
		t.Errorf("the metrics have %v bytes in gaps, not %d", got, g.Bytes())
	}
}

// TestSourceLogMadeAnew: where the source has lost its disk, offsets begin anew. All that
// it has then is copied, and that is told.
func TestSourceLogMadeAnew(t *testing.T) {
	t.Parallel()
	live, replica := newCluster(t, 1, 1), newCluster(t, 1, 1)
	live.produce("t", 0, 100, 200)
	m := openMirror(t, replica, []*cluster{live}, nil)
	replica.awaitArrived("t", 100)
	live.awaitCommitted("t")
	closeMirror(t, m)
	b := live.brokers[0]
	b.Stop()
	if err := os.RemoveAll(filepath.Join(b.Config.LogDir, "t-0")); err != nil {
		t.Fatal(err)
	}
	b.Restart()
	live.produce("t", 100, 20, 200)
	told := make(chan mirror.Gap, 10)
	m = openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.OnGap = func(g mirror.Gap) { told <- g } })
	replica.awaitArrived("t", 120).check(t, 1, 120)
	live.awaitCommitted("t")
	if g := <-told; g.From != 100*(200+message.Overhead0) || g.To != 0 || g.Bytes() != 0 {
		t.Errorf("the gap is %+v", g)
	}
	if st := m.Stats(); st.Restarts != 1 || st.Gaps != 0 {
		t.Errorf("counted are %d restarts and %d gaps", st.Restarts, st.Gaps)
	}
}

// TestRefusedMessageWaits: a message that the target refuses is neither lost nor passed
// over. Its partition waits, the other one goes on, and when the target takes it all is
// there in order.
func TestRefusedMessageWaits(t *testing.T) {
	t.Parallel()
	const limit = 10 << 10
	live, replica := newCluster(t, 1, 2), newCluster(t, 1, 2, func(c *broker.Config) { c.MaxMessageBytes = limit })
	conn := dial(t, live.brokers[0].HostPort())
	live.produce("t", 0, 10, 200)
	m := openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.FetchBytes = 16 << 10 })
	live.produceTo(conn, 0, "t", 0, 10, 1, limit+1)
	live.produceTo(conn, 0, "t", 0, 11, 89, 200)
	live.produceTo(conn, 0, "t", 1, 10, 90, 200)
	replica.awaitArrived("t", 10+100)
	await(t, "the partition to stand still", func() bool { return m.Stats().Stalled == 1 })
	if a := replica.arrived("t"); len(a["t 0-0"]) != 10 {
		t.Errorf("%d messages of the partition have come, not the 10 before the one that is refused", len(a["t 0-0"]))
	}
	b := replica.brokers[0]
	b.Config.MaxMessageBytes = 2 * limit
	b.Restart()
	replica.awaitArrived("t", 200).check(t, 2, 100)
	if d := replica.arrived("t").doubled(); d > 0 {
		t.Errorf("%d messages are doubled", d)
	}
}

// TestDamagedSource: damage in the source's log is told, and is not passed over: what comes
// before it is copied and committed, and other partitions go on.
func TestDamagedSource(t *testing.T) {
	t.Parallel()
	const size = 200
	live, replica := newCluster(t, 1, 2), newCluster(t, 1, 2)
	live.produce("t", 0, 100, size)
	b := live.brokers[0]
	// Under the broker's feet: at a start it would cut the log there.
	file, err := os.OpenFile(filepath.Join(b.Config.LogDir, "t-0", "00000000000000000000.kafka"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const each = size + message.Overhead0
	if _, err := file.WriteAt([]byte{0xff}, 50*each+message.Overhead0+30); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	m := openMirror(t, replica, []*cluster{live}, nil)
	replica.awaitArrived("t", 150)
	await(t, "the partition to stand still", func() bool { st := m.Stats(); return st.Stalled == 1 && st.SourceFailures > 0 })
	await(t, "the offset of the damage", func() bool { return live.stored(group, "t", mirrorPartition(0, 0)) == 50*each })
	live.produceTo(dial(t, b.HostPort()), 0, "t", 1, 100, 50, size)
	replica.awaitArrived("t", 200)
	if a := replica.arrived("t"); len(a["t 0-0"]) != 50 || len(a["t 0-1"]) != 150 {
		t.Errorf("%d and %d messages have come, not 50 and 150", len(a["t 0-0"]), len(a["t 0-1"]))
	}
}

// TestOpenRefuses: what cannot be is said at once.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	a, b := newCluster(t, 0, 1), newCluster(t, 0, 1)
	good := mirror.Config{Sources: []zkConfig{a.config()}, Target: b.config(), Group: group, WhiteList: "t"}
	for _, c := range []struct {
		change func(*mirror.Config)
		want   string
	}{
		{func(c *mirror.Config) { c.Sources = nil }, "no source"},
		{func(c *mirror.Config) { c.Group = "" }, "no group"},
		{func(c *mirror.Config) { c.Target = a.config() }, "named twice"},
		{func(c *mirror.Config) { c.BlackList = "x" }, "one of them"},
		{func(c *mirror.Config) { c.WhiteList = "" }, "one of them"},
		{func(c *mirror.Config) { c.WhiteList = "(" }, "mirror: "},
		{func(c *mirror.Config) { c.FetchBytes = 10 }, "fetch of 10 bytes"},
		{func(c *mirror.Config) { c.MaxFetchBytes = 100 << 20 }, "messages of up to"},
		{func(c *mirror.Config) { c.CommitInterval = -1 }, "negative"},
		{func(c *mirror.Config) { c.OffsetReset = 2 }, "offset reset"},
		{func(c *mirror.Config) { c.Sources[0].Servers = "" }, "source"},
	} {
		cfg := good
		cfg.Sources = append([]zkConfig(nil), good.Sources...)
		c.change(&cfg)
		m, err := mirror.Open(testContext(t), cfg)
		if err == nil {
			closeMirror(t, m)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, one with %q is wanted", err, c.want)
		}
	}
}
