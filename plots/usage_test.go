package plots

import (
	"math"
	"testing"

	"kafkalab/results/resultfile"
)

// sampledUse is samples of a client that sends 100 MB/s with one core from the
// second begin to end, taken at the given seconds.
func sampledUse(begin, end float64, at ...float64) (samples []resultfile.Sample) {
	for _, t := range at {
		active := min(max(t-begin, 0), end-begin)
		samples = append(samples,
			resultfile.Sample{Seconds: t, Host: "client", NetTxBytes: int64(active * 100e6), ProcessSeconds: active, CPUSeconds: active},
			resultfile.Sample{Seconds: t, Host: "broker"})
	}
	return samples
}

// However much earlier and later than the messages the samples are, and however
// far apart, a full link is full.
func TestTheTimeInWhichMessagesMovedCounts(t *testing.T) {
	s := resultfile.Scenario{Work: resultfile.Produce}
	for _, c := range []struct {
		what       string
		begin, end float64
		at         []float64
		seconds    float64 // that count
	}{
		{"samples of the attempt alone", 0, 2, []float64{0, 0.5, 1, 1.5, 2}, 2},
		{"samples that begin early and end late", 0.4, 2.18, []float64{0, 0.5, 1, 1.5, 2, 2.29}, 1.78},
		{"begin and end in the midst of steps", 0.75, 2.25, []float64{0, 0.5, 1, 1.5, 2, 2.5, 3}, 1.5},
		{"samples that begin late and end late", 0, 1.777, []float64{0.27, 0.77, 1.27, 1.77, 2.29}, 1.777 - 0.27},
		{"samples that end early", 0.2, 3, []float64{0, 0.5, 1, 1.5}, 1.3},
		{"no step wholly inside", 0.3, 0.7, []float64{0, 0.5, 1}, 0.4},
		{"one step around all", 0.3, 0.7, []float64{0, 1}, 0.4},
	} {
		a := resultfile.Attempt{Seconds: c.end - c.begin, Measures: map[string]float64{movedFrom: c.begin}}
		u := usedBy(sampledUse(c.begin, c.end, c.at...), "client", s, a)
		if math.Abs(u.seconds-c.seconds) > 1e-9 {
			t.Errorf("%s: %v s count, want %v", c.what, u.seconds, c.seconds)
		}
		if rate := u.used[netSent] / u.seconds; math.Abs(rate-100e6) > 1e4 {
			t.Errorf("%s: %v B/s were sent, want 100 MB/s", c.what, rate)
		}
		if cores := u.used[processUsed] / u.seconds; math.Abs(cores-1) > 1e-4 {
			t.Errorf("%s: %v cores, want 1", c.what, cores)
		}
	}
}

// What goes on before and after the messages is not theirs.
func TestWorkOutsideOfTheTimeDoesNotCount(t *testing.T) {
	var samples []resultfile.Sample
	for i := range 9 { // a core is busy all the time
		at := float64(i) / 2
		samples = append(samples, resultfile.Sample{Seconds: at, Host: "broker", ProcessSeconds: at, CPUSeconds: 2 * at})
	}
	a := resultfile.Attempt{Seconds: 2.1, Measures: map[string]float64{movedFrom: 0.8}}
	u := usedBy(samples, "broker", resultfile.Scenario{Work: resultfile.Produce}, a)
	if math.Abs(u.used[processUsed]-2.1) > 1e-9 || math.Abs(u.used[cpuUsed]-4.2) > 1e-9 {
		t.Errorf("%v, want 2.1 s of the process and 4.2 of the host", u.used)
	}
}

// Runs of before do not say when the messages began to move.
func TestUseOfRunsOfBefore(t *testing.T) {
	a := resultfile.Attempt{Seconds: 1.78}
	samples := sampledUse(0.4, 2.18, 0, 0.5, 1, 1.5, 2, 2.29)
	if u := usedBy(samples, "client", resultfile.Scenario{Work: resultfile.Produce}, a); math.Abs(u.used[netSent]/u.seconds-100e6) > 1e4 {
		t.Errorf("%+v", u)
	}
	// In a crash the time ends with the kill and the samples go on.
	if u := usedBy(samples, "client", resultfile.Scenario{Work: resultfile.Crash}, a); u.seconds != 2.29 {
		t.Errorf("a crash: %v s", u.seconds)
	}
}

func TestADiskUsedByOthers(t *testing.T) {
	for _, c := range []struct {
		what           string
		u              hostUse
		system, others float64
	}{
		{"nobody says who", hostUse{used: counters{diskRead: 90}}, 90, 0},
		{"the system", hostUse{own: true, used: counters{diskRead: 90, ownRead: 80}}, 90, 0},
		{"half of it", hostUse{own: true, used: counters{diskRead: 90, ownRead: 45}}, 90, 0},
		{"another program", hostUse{own: true, used: counters{diskRead: 90}}, 0, 90},
		{"mostly another program", hostUse{own: true, used: counters{diskRead: 90, ownRead: 10}}, 10, 80},
	} {
		if system, others := c.u.disk(diskRead, ownRead); system != c.system || others != c.others {
			t.Errorf("%s: %v and %v, want %v and %v", c.what, system, others, c.system, c.others)
		}
	}
}
