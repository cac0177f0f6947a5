package plots

import (
	"slices"

	"kafkalab/results/resultfile"
)

// movedFrom is the attempt's measure that says at which second of its samples
// the messages began to move. Runs of before have none.
const movedFrom = "moved_from_seconds"

// stretch is a part of the samples' seconds.
type stretch struct{ from, to float64 }

// movedIn is the time in which the messages of an attempt moved, by the clock of
// its samples. Where nobody noted when that began, known is false.
func movedIn(a resultfile.Attempt) (moved stretch, known bool) {
	from, known := a.Measures[movedFrom]
	return stretch{from, from + a.Seconds}, known && a.Seconds > 0
}

// The counters of a sample that resources are told by.
const (
	cpuUsed     = iota // of the whole host, in seconds
	diskRead           // of the whole disk, in bytes
	diskWritten        // likewise
	processUsed        // of the system's processes, in seconds
	ownRead            // theirs from the disk
	ownWritten         // theirs to it
	netSent            // of the test network's device
	counterCount
)

// ofWholeHost says whether others than the test drive a counter, so that it grows
// before the messages move and after.
func ofWholeHost(counter int) bool { return counter <= diskWritten }

type counters [counterCount]float64

func countersOf(s resultfile.Sample) counters {
	return counters{
		cpuUsed: s.CPUSeconds, processUsed: s.ProcessSeconds, netSent: float64(s.NetTxBytes),
		diskRead: float64(s.DiskReadBytes), diskWritten: float64(s.DiskWriteBytes),
		ownRead: float64(s.ProcessReadBytes), ownWritten: float64(s.ProcessWriteBytes),
	}
}

// hostUse is what a host used in the time that was sampled of an attempt.
type hostUse struct {
	seconds float64 // of that time
	used    counters
	own     bool // the disk's use by the system's own processes is known
}

// usedBy is what a host used while the messages of an attempt moved. Samplers
// begin before that and end after it, on slow ways to the hosts by a good deal,
// and may begin too late: what was not sampled does not count as time.
func usedBy(samples []resultfile.Sample, host string, s resultfile.Scenario, a resultfile.Attempt) hostUse {
	samples = slices.DeleteFunc(slices.Clone(samples), func(x resultfile.Sample) bool { return x.Host != host })
	if len(samples) < 2 {
		return hostUse{}
	}
	first, last := samples[0], samples[len(samples)-1]
	u := hostUse{own: slices.ContainsFunc(samples, func(x resultfile.Sample) bool {
		return x.ProcessSyscalls > 0 || x.ProcessReadBytes > 0 || x.ProcessWriteBytes > 0
	})}
	moved, known := movedIn(a)
	moved = stretch{max(moved.from, first.Seconds), min(moved.to, last.Seconds)}
	if !known || moved.to <= moved.from {
		// As long as the messages moved at most, since little is used else.
		u.seconds = last.Seconds - first.Seconds
		if s.Work != resultfile.Crash && s.Work != resultfile.Rebalance && s.Work != resultfile.Pipeline && a.Seconds > 0 {
			u.seconds = min(u.seconds, a.Seconds)
		}
		u.used = grown(first, last)
		return u
	}
	u.seconds = moved.to - moved.from
	u.used = cut(samples, moved)
	return u
}

func grown(from, to resultfile.Sample) counters {
	before, after := countersOf(from), countersOf(to)
	for c := range after {
		after[c] -= before[c]
	}
	return after
}

// cut is what the counters grew by within moved. Between two samples, one of
// which lies outside, the counters are interpolated: in the steps wholly inside
// they show how fast they grow, and as much of the step's growth belongs to the
// part inside as that comes to, but never less than its share of the time. For
// what only the test drives that is all of it where no step is wholly inside.
func cut(samples []resultfile.Sample, moved stretch) counters {
	var sum counters
	inside := 0.0
	each := func(visit func(growth counters, overlap, length float64)) {
		for i := 1; i < len(samples); i++ {
			from, to := samples[i-1].Seconds, samples[i].Seconds
			if overlap := min(to, moved.to) - max(from, moved.from); overlap > 0 {
				visit(grown(samples[i-1], samples[i]), overlap, to-from)
			}
		}
	}
	each(func(growth counters, overlap, length float64) {
		if overlap < length {
			return
		}
		inside += length
		for c := range sum {
			sum[c] += growth[c]
		}
	})
	steady := sum
	each(func(growth counters, overlap, length float64) {
		if overlap >= length {
			return
		}
		for c := range sum {
			share := growth[c] * overlap / length
			switch {
			case inside > 0:
				share = max(share, min(growth[c], steady[c]/inside*overlap))
			case !ofWholeHost(c):
				share = growth[c]
			}
			sum[c] += share
		}
	})
	return sum
}

// disk is how much of what the disk did was done for the system, and how much
// for others, in bytes. It is the system's where its processes have half of it
// and more: the kernel writes for them, too, and reads ahead.
func (u hostUse) disk(whole, own int) (system, others float64) {
	all := u.used[whole]
	if !u.own || u.used[own] >= all/2 {
		return all, 0
	}
	return u.used[own], all - u.used[own]
}
