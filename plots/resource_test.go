package plots

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

// use is what two hosts of 4 cores did in 10 seconds; the link carries 100 MB/s
// either way, the broker's disk writes 200 and reads 400 MB/s.
type use struct {
	clientSent, brokerSent float64 // MB/s
	broker, client, all    float64 // cores
	written, read          float64 // MB/s
	ownRead                float64 // MB/s, of the system's processes
	counted                bool    // theirs was counted
	wanted, achieved       float64
	cores                  string // that the broker may use
	real                   bool   // two machines
}

// usedRun is a run of one attempt with such samples.
func usedRun(t *testing.T, work resultfile.Work, u use, shift ...use) *resultfile.Result {
	t.Helper()
	host := func(name string) resultfile.Host {
		return resultfile.Host{Name: name, Facts: []resultfile.Fact{{Name: "cores", Value: "4"},
			{Name: "sequential write", Value: "200 MB/s (direct I/O, 1074 MB)"}, {Name: "sequential read", Value: "400 MB/s (direct I/O, 1074 MB)"}}}
	}
	bed := resultfile.Testbed{Kind: "netns", Emulated: !u.real, ClientHost: host("client"), BrokerHost: host("broker"), LinkGoodputMbps: 800, LinkReverseGoodputMbps: 800}
	if u.cores != "" {
		bed.BrokerLimits = &resultfile.Limits{Cores: u.cores}
	}
	s := resultfile.Scenario{Name: "s", Title: "Synthetic", Work: work, PayloadBytes: 200, Chart: resultfile.Bars, Systems: []resultfile.System{worldSystem("x", "X", "kafka")}}
	w, err := resultfile.Create(filepath.Join(t.TempDir(), "run"), resultfile.Run{Testbed: bed, Scenarios: []resultfile.Scenario{s}, Started: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, v := range append([]use{u}, shift...) {
		a := resultfile.Attempt{ID: string(rune('a' + i)), Scenario: "s", System: "x", Repetition: i + 1, Outcome: resultfile.Valid, Messages: 10, Seconds: 10, Measures: map[string]float64{}}
		if v.wanted > 0 {
			a.Measures["rate_wanted"], a.Measures["rate_achieved"] = v.wanted, v.achieved
		}
		var samples []resultfile.Sample
		for _, at := range []float64{0, 5, 10} {
			mb := func(rate float64) int64 { return int64(rate * at * 1e6) }
			samples = append(samples,
				resultfile.Sample{Seconds: at, Host: "client", NetTxBytes: mb(v.clientSent), ProcessSeconds: v.client * at, CPUSeconds: v.all * at},
				resultfile.Sample{Seconds: at, Host: "broker", NetTxBytes: mb(v.brokerSent), ProcessSeconds: v.broker * at, CPUSeconds: v.all * at, DiskWriteBytes: mb(v.written), DiskReadBytes: mb(v.read), ProcessReadBytes: mb(v.ownRead), ProcessSyscalls: int64(at) * int64(btoi(v.counted))})
		}
		if err := w.PutAttempt(a, []resultfile.Point{{}, {Seconds: 10, Messages: 10, Arrived: 10}}, samples); err != nil {
			t.Fatal(err)
		}
	}
	return read(t, w.Dir())
}

func TestTheResourceThatWasTheLimit(t *testing.T) {
	for _, c := range []struct {
		what string
		work resultfile.Work
		use  use
		want string
	}{
		{"a full link", resultfile.Produce, use{clientSent: 99, broker: 1}, "link 99 %"},
		{"just full", resultfile.Produce, use{clientSent: 90}, "link 90 %"},
		{"not quite full", resultfile.Produce, use{clientSent: 89, broker: 1}, "waiting (at most: link 89 %)"},
		{"full the other way", resultfile.Produce, use{brokerSent: 99, broker: 1}, "waiting (at most: broker's processor 25 %)"},
		{"a consume's link", resultfile.Consume, use{brokerSent: 95}, "link 95 %"},
		{"a stream's fuller direction", resultfile.Stream, use{clientSent: 10, brokerSent: 97}, "link 97 %"},
		{"a busy broker", resultfile.Produce, use{broker: 3.6, all: 3.7, real: true}, "broker's processor 90 %"},
		{"a broker held to two cores", resultfile.Produce, use{broker: 1.8, cores: "0-1"}, "broker's processor 90 %"},
		{"one core of four", resultfile.Produce, use{broker: 1, real: true}, "waiting (at most: broker's processor 25 %)"},
		{"a busy client", resultfile.Produce, use{client: 3.5, real: true}, "client's processor (the harness) 88 %"},
		{"both halves on one machine", resultfile.Produce, use{broker: 2, client: 1.6, all: 3.8}, "processor of the one machine 95 %"},
		{"two machines have no processor in common", resultfile.Produce, use{broker: 2, client: 1.6, all: 3.8, real: true}, "waiting (at most: broker's processor 50 %)"},
		{"a disk that writes", resultfile.Produce, use{written: 170, clientSent: 20}, "disk, writing 85 %"},
		{"a disk that reads", resultfile.Consume, use{read: 390}, "disk, reading 98 %"},
		{"the plan", resultfile.Stream, use{clientSent: 20, brokerSent: 20, wanted: 1000, achieved: 998}, "the planned rate 100 %"},
		{"the plan not reached", resultfile.Stream, use{clientSent: 20, brokerSent: 20, wanted: 1000, achieved: 700}, "waiting (at most: the planned rate 70 %)"},
		{"two at their limits: the fuller", resultfile.Produce, use{clientSent: 99, written: 199}, "disk, writing 100 %"},
		{"nothing at all", resultfile.Produce, use{real: true}, "waiting (at most: link 0 %)"},
	} {
		r := usedRun(t, c.work, c.use)
		s := r.Run.Scenarios[0]
		if got := boundOf(r, s, s.Systems[0]).text(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		costs := RatesOf(r)[0].costs()
		if last := len(costs.Head) - 1; costs.Head[last] != "what was the limit" || costs.Rows[0][last] != c.want {
			t.Errorf("%s: costs %q %q", c.what, costs.Head, costs.Rows)
		}
	}
}

// Over the repetitions the median counts.
func TestTheLimitIsThatOfTheMedian(t *testing.T) {
	r := usedRun(t, resultfile.Produce, use{clientSent: 95}, use{clientSent: 96}, use{clientSent: 20})
	if got := boundOf(r, r.Run.Scenarios[0], r.Run.Scenarios[0].Systems[0]).text(); got != "link 95 %" {
		t.Errorf("%q", got)
	}
	if line := boundsLine(r, r.Run.Scenarios[0], extrasView.shows); !strings.Contains(line, "link: X (95 %)") {
		t.Error(line)
	}
}

// Systems that keep to a planned rate need no list.
func TestThePlanIsToldInAWord(t *testing.T) {
	r := usedRun(t, resultfile.Stream, use{clientSent: 20, brokerSent: 20, wanted: 1000, achieved: 998})
	if line := boundsLine(r, r.Run.Scenarios[0], extrasView.shows); !strings.HasSuffix(line, "by the samples of both hosts: for all the rate that was planned.") {
		t.Error(line)
	}
}

// What the disk does for other programs is theirs.
func TestOtherLoadOnTheDisk(t *testing.T) {
	for own, want := range map[float64]string{0: resourceOtherReads + " 98 %", 350: "disk, reading 98 %"} {
		r := usedRun(t, resultfile.Produce, use{read: 390, clientSent: 20, ownRead: own, counted: true})
		s := r.Run.Scenarios[0]
		if got := boundOf(r, s, s.Systems[0]).text(); got != want {
			t.Errorf("%v MB/s of the system's own: %q, want %q", own, got, want)
		}
		if head := usedTable(r, s).Head; slices.Contains(head, resourceOtherReads+", %") != (own == 0) || slices.Contains(head, resourceOtherWrites+", %") {
			t.Errorf("columns %q", head)
		}
	}
}

func TestNothingIsKnownWithoutSamples(t *testing.T) {
	r := oneAttempt(resultfile.Scenario{Name: "s", Work: resultfile.Produce, PayloadBytes: 200}, measuredAttempt())
	s := r.Run.Scenarios[0]
	if b := boundOf(r, s, s.Systems[0]); b != nil || b.text() != unknown || boundsLine(r, s, extrasView.shows) != "" {
		t.Errorf("%+v", b)
	}
}

func TestCountCores(t *testing.T) {
	for list, want := range map[string]float64{"0-1": 2, "0,2,4": 3, "0-2,5": 4, "3": 1, "": 0, "x": 0, "3-1": 0, "1-": 0} {
		if got := countCores(list); got != want {
			t.Errorf("%q: %v, want %v", list, got, want)
		}
	}
}

func TestDiskRateOfAFact(t *testing.T) {
	for value, want := range map[string]float64{"1234 MB/s (direct I/O, 1074 MB)": 1234e6, "12 MB/s": 12e6, "not measured: no room": 0, "": 0, "-3 MB/s": 0, "NaN MB/s": 0} {
		h := resultfile.Host{Facts: []resultfile.Fact{{Name: "sequential write", Value: value}}}
		if got := diskRate(h, "sequential write"); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestHarnessBound(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Title: "Synthetic", Work: resultfile.Produce, Chart: resultfile.Bars, PayloadBytes: 200, Systems: []resultfile.System{
		worldSystem("x", "X", "kafka"), {ID: "big", Label: "Big", Driver: "kafka", Role: resultfile.RoleSystem, PayloadBytes: 1000},
	}}
	a := measuredAttempt() // 1000 messages/s
	big := a
	big.System = "big"
	r := oneAttempt(s, a, big)
	for _, c := range []struct {
		ceiling float64
		bound   bool
	}{{1999, true}, {2000, false}, {1, true}, {1e9, false}} {
		r.Run.Ceilings = []resultfile.Ceiling{{Work: resultfile.Consume, PayloadBytes: 200, MessagesPerSecond: 1}, {Work: resultfile.Produce, PayloadBytes: 200, MessagesPerSecond: c.ceiling}}
		rates := RatesOf(r)[0]
		if got := rates.Systems[0].HarnessBound; got != c.bound {
			t.Errorf("1000 of %v: bound %v", c.ceiling, got)
		}
		if rates.Systems[1].OfCeiling != nil {
			t.Error("a payload whose ceiling was not measured has one")
		}
		table := rates.rates()
		cell := table.Rows[0][len(table.Head)-2]
		if strings.Contains(cell, harnessBound) != c.bound || table.Rows[1][len(table.Head)-2] != unknown {
			t.Errorf("cells %q", table.Rows)
		}
		line := ceilingLine(r, s, extrasView.shows)
		if strings.Contains(line, "harness-bound: X.") != c.bound || !strings.Contains(line, number(roundTo3(c.ceiling))+" messages/s of 200 bytes") {
			t.Error(line)
		}
	}
	r.Run.Ceilings = nil
	if line := ceilingLine(r, s, extrasView.shows); line != "" {
		t.Error(line)
	}
}

func TestBriefAttemptsAreNamed(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Work: resultfile.Produce, PayloadBytes: 200, Systems: []resultfile.System{worldSystem("x", "X", "kafka"), worldSystem("y", "Y", "nats")}}
	for _, c := range []struct {
		x, y float64
		work resultfile.Work
		want string
	}{
		{0.05, 0.9, resultfile.Produce, ": all of these are."},
		{0.05, 1, resultfile.Produce, "no measurement: X."},
		{1, 20, resultfile.Consume, ""},
		{0.05, 0.9, resultfile.Crash, ""},
	} {
		x, y := measuredAttempt(), measuredAttempt()
		x.Seconds, y.Seconds, y.System = c.x, c.y, "y"
		s.Work = c.work
		r := oneAttempt(s, x, y)
		line := briefLine(r, s, extrasView.shows)
		if line == "" != (c.want == "") || !strings.Contains(line, c.want) {
			t.Errorf("%v s and %v s: %q, want %q", c.x, c.y, line, c.want)
		}
		if notes := RatesOf(r)[0].notes(); line != "" && !strings.Contains(notes, line) {
			t.Errorf("notes of the table: %q", notes)
		}
	}
}
