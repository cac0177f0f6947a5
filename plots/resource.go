package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"kafkalab/results/resultfile"
)

// What a resource must be used by, of what there is of it, to be called the
// limit. A link is full near its goodput; a processor is not handed out to the
// last per cent where several threads share it with the kernel; a disk does less
// than its sequential rate as soon as it does two things at a time.
const (
	linkIsLimit      = 0.90
	processorIsLimit = 0.85
	diskIsLimit      = 0.80
	// leastSampled is how long, in seconds, a host must have been sampled for its
	// counters to say anything: those of processors go in steps of 10 ms.
	leastSampled = 0.2
	// paceIsLimit is the share of a planned rate from which on the plan held
	// the system, and no resource.
	paceIsLimit = 0.99
)

// Resource is how far one resource was used while a system was measured.
type Resource struct {
	Name  string  `json:"name"`  // "link", "broker's processor", …
	Share float64 `json:"share"` // 1 is all of it: over the repetitions the median
	full  float64 // the share from which on it is the limit
}

// text is the resource with its share; one that is just below being the limit
// does not look as if it were.
func (u Resource) text() string {
	share := min(math.Round(100*u.Share), 100) // counters are read a little apart
	if u.Share < u.full {
		share = math.Floor(100*u.Share + 1e-9)
	}
	return fmt.Sprintf("%s %s %%", u.Name, strconv.FormatFloat(share, 'f', 0, 64))
}

// The names of the resources, and of a limit that is none.
const (
	resourceLink    = "link"
	resourceBroker  = "broker's processor"
	resourceClient  = "client's processor (the harness)"
	resourceMachine = "processor of the one machine"
	resourceWrites  = "disk, writing"
	resourceReads   = "disk, reading"
	resourcePlan    = "the planned rate"
	// By programs that are none of the system's.
	resourceOtherWrites = "other load on the disk, writing"
	resourceOtherReads  = "other load on the disk, reading"
)

// Bound is what held a system back, by the samples of both hosts.
type Bound struct {
	// By is the resource that was the limit; nil: none of those sampled, so the
	// system was waiting.
	By *Resource `json:"by,omitempty"`
	// Used are all resources of which the use is known, the fullest first, by
	// how near each is to being the limit.
	Used []Resource `json:"used"`
}

// boundOf finds what held a system back; nil: there are no samples, or no valid
// attempt.
func boundOf(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) *Bound {
	shares := make(map[string][]float64)
	full := make(map[string]float64)
	var names []string
	for _, a := range validAttempts(r, s, y) {
		for _, u := range usedIn(r, s, a) {
			if shares[u.Name] == nil {
				names = append(names, u.Name)
			}
			shares[u.Name], full[u.Name] = append(shares[u.Name], u.Share), u.full
		}
	}
	if len(names) == 0 {
		return nil
	}
	b := &Bound{}
	for _, n := range names {
		b.Used = append(b.Used, Resource{n, Summarise(shares[n]).Median, full[n]})
	}
	slices.SortStableFunc(b.Used, func(x, z Resource) int {
		return cmp.Compare(z.Share/z.full, x.Share/x.full)
	})
	if u := b.Used[0]; u.Share >= u.full {
		b.By = &u
	}
	return b
}

// usedIn is how far each resource was used in one attempt, while its messages
// moved. What the hosts do not say of themselves is left out.
func usedIn(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) []Resource {
	bed := r.Run.Testbed
	samples := r.Samples(a.ID)
	client, broker := usedBy(samples, bed.ClientHost.Name, s, a), usedBy(samples, bed.BrokerHost.Name, s, a)
	if bed.ClientHost.Name == bed.BrokerHost.Name || max(client.seconds, broker.seconds) < leastSampled {
		return nil
	}
	var out []Resource
	add := func(name string, used, seconds, most, full float64) {
		if seconds >= leastSampled && most > 0 && used >= 0 {
			out = append(out, Resource{name, used / seconds / most, full})
		}
	}
	if wanted := a.Measures["rate_wanted"]; wanted > 0 {
		add(resourcePlan, a.Measures["rate_achieved"], 1, wanted, paceIsLimit)
	}
	forth, back := goodputs(bed, s)
	forth, back = forth*1e6/8, back*1e6/8
	switch s.Work {
	case resultfile.Consume:
		add(resourceLink, broker.used[netSent], broker.seconds, back, linkIsLimit)
	case resultfile.Produce, resultfile.Crash:
		add(resourceLink, client.used[netSent], client.seconds, forth, linkIsLimit)
	default: // both ways: the fuller one
		sent := client.used[netSent] / max(client.seconds, 1e-9) / max(forth, 1)
		got := broker.used[netSent] / max(broker.seconds, 1e-9) / max(back, 1)
		if forth > 0 && back > 0 {
			add(resourceLink, max(sent, got), 1, 1, linkIsLimit)
		}
	}
	add(resourceBroker, broker.used[processUsed], broker.seconds, coresOf(bed, s, a.System), processorIsLimit)
	add(resourceClient, client.used[processUsed], client.seconds, hostCores(bed.ClientHost), processorIsLimit)
	if bed.Emulated {
		add(resourceMachine, broker.used[cpuUsed], broker.seconds, hostCores(bed.BrokerHost), processorIsLimit)
	}
	written, othersWritten := broker.disk(diskWritten, ownWritten)
	read, othersRead := broker.disk(diskRead, ownRead)
	writes, reads := diskRate(bed.BrokerHost, "sequential write"), diskRate(bed.BrokerHost, "sequential read")
	add(resourceWrites, written, broker.seconds, writes, diskIsLimit)
	add(resourceReads, read, broker.seconds, reads, diskIsLimit)
	if broker.own {
		add(resourceOtherWrites, othersWritten, broker.seconds, writes, diskIsLimit)
		add(resourceOtherReads, othersRead, broker.seconds, reads, diskIsLimit)
	}
	return out
}

// coresOf are the cores that the broker of a system may use.
func coresOf(bed resultfile.Testbed, s resultfile.Scenario, system string) float64 {
	for _, y := range s.Systems {
		if y.ID == system && y.Cores > 0 {
			return float64(y.Cores)
		}
	}
	return brokerCores(bed)
}

// brokerCores is how many cores the broker's processes may use, 0 if nobody
// knows.
func brokerCores(bed resultfile.Testbed) float64 {
	if l := bed.BrokerLimits; l != nil && l.Cores != "" {
		if n := countCores(l.Cores); n > 0 {
			return n
		}
	}
	return hostCores(bed.BrokerHost)
}

func hostCores(h resultfile.Host) float64 {
	n, err := strconv.ParseFloat(h.Fact("cores"), 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return n
}

// countCores counts a list such as taskset takes: "0-2,5" is four.
func countCores(list string) float64 {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			return 0
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(to); err != nil || b < a {
				return 0
			}
		}
		n += b - a + 1
	}
	return float64(n)
}

// diskRate is a rate that the host's description states, in bytes a second: it
// begins with "123 MB/s".
func diskRate(h resultfile.Host, fact string) float64 {
	value, found := strings.CutSuffix(h.Fact(fact), " MB/s")
	if !found {
		value, _, found = strings.Cut(h.Fact(fact), " MB/s")
	}
	v, err := strconv.ParseFloat(value, 64)
	if !found || err != nil || !(v > 0) {
		return 0
	}
	return v * megabyte
}

// text is what held the system, for a cell.
func (b *Bound) text() string {
	switch {
	case b == nil:
		return unknown
	case b.By != nil:
		return b.By.text()
	}
	return fmt.Sprintf("waiting (at most: %s)", b.Used[0].text())
}

// boundsNote says how the limit is found, with the numbers that decide.
var boundsNote = fmt.Sprintf("What was the limit: by the samples of both hosts, over the time in which the messages moved, if that is %.1f s and more: the link, if what was sent in the direction of the messages comes to %.0f %% of its TCP goodput; "+
	"the processor of broker or client, if its processes used %.0f %% of the cores that they may use (of emulated hosts also the processor of the one machine, whoever used it); "+
	"the broker's disk, at %.0f %% of the sequential rate measured before the run (other load, where the system's processes had less than half of what the disk did); the planned rate, where %.0f %% of it was reached; else none of those sampled, and the system was waiting: for answers, locks, or a single thread.",
	leastSampled, 100*linkIsLimit, 100*processorIsLimit, 100*diskIsLimit, 100*paceIsLimit)
