package paper

import (
	"cmp"
	"fmt"
	"slices"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// Array sets a run on the RAID 10 of the emulated bed beside one of the same
// scenarios on the plain disk.
type Array struct {
	RAID, Plain RunPart
	Rows        []ArrayRow
	Caveats     []string // what else differs
}

// ArrayRow is a system on both.
type ArrayRow struct {
	Scenario, System string
	Plain, RAID      string // messages a second
	Ratio            string // RAID 10 over the plain disk, with its interval or range
	Verdict          string // whether they differ beyond chance
}

// arrayNote says how the ratios are to be read.
const arrayNote = "RAID 10 over the plain disk: a ratio below 1 is what the array costs. It is six files of one disk in btrfs, so it writes everything twice to that disk and keeps a checksum of each block; six disks would share that work. " +
	"The ratios have the 95 % interval where both runs have six repetitions and more, else the lowest and the highest that any two repetitions give."

// arrays pairs each run on the RAID 10 with a run on the plain disk of the same
// scenarios at the same size: one on hosts like its own if there is one, since
// another processor would count as the disk's doing, and of those the one that
// says most.
func (r *Report) arrays(runs []*resultfile.Result) []Array {
	var out []Array
	for _, raid := range runs {
		if !raid.Run.Testbed.RAID10 {
			continue
		}
		var plain *resultfile.Result
		for _, other := range runs {
			if other.Run.Testbed.RAID10 || other.Run.Testbed.Kind != raid.Run.Testbed.Kind || other.Run.Messages != raid.Run.Messages || !shareScenario(raid.Run, other.Run) {
				continue
			}
			if plain == nil || nearer(raid.Run, other.Run, plain.Run) {
				plain = other
			}
		}
		if plain == nil {
			continue
		}
		alike := *plain
		alike.Run.Testbed.RAID10 = true // what is compared is no caveat
		c := plots.Compare(&alike, raid)
		a := Array{RAID: r.part(raid), Plain: r.part(plain), Caveats: c.Caveats}
		for _, y := range c.Systems {
			if y.First.N > 0 && y.Second.N > 0 && fastAsItGoes(raid.Run, y.Scenario) {
				a.Rows = append(a.Rows, ArrayRow{Scenario: y.Scenario, System: y.Label, Plain: rateText(y.First), RAID: rateText(y.Second), Ratio: plots.Times(y.Ratio), Verdict: y.Verdict})
			}
		}
		if len(a.Rows) > 0 {
			out = append(out, a)
		}
	}
	return out
}

// fastAsItGoes says whether a scenario measures how fast a system is: the rate
// of others is planned, or means nothing.
func fastAsItGoes(run resultfile.Run, scenario string) bool {
	return slices.ContainsFunc(run.Scenarios, func(s resultfile.Scenario) bool {
		return s.Name == scenario && (s.Work == resultfile.Produce || s.Work == resultfile.Consume)
	})
}

func shareScenario(a, b resultfile.Run) bool {
	return slices.ContainsFunc(a.Scenarios, func(s resultfile.Scenario) bool {
		return slices.ContainsFunc(b.Scenarios, func(t resultfile.Scenario) bool { return s.Name == t.Name })
	})
}

// nearer says whether the first of two runs on the plain disk is the one to set
// beside a run on the RAID 10, rather than the second.
func nearer(raid, a, b resultfile.Run) bool {
	if x, y := hostsAlike(raid, a), hostsAlike(raid, b); x != y {
		return x
	}
	return saysMore(a, b)
}

// hostsAlike says whether two runs were made on machines that look the same.
func hostsAlike(a, b resultfile.Run) bool {
	for _, name := range resultfile.MachineFacts() {
		if a.Testbed.BrokerHost.Fact(name) != b.Testbed.BrokerHost.Fact(name) || a.Testbed.ClientHost.Fact(name) != b.Testbed.ClientHost.Fact(name) {
			return false
		}
	}
	return true
}

// saysMore says whether the first of two runs has more repetitions, or is the
// later one.
func saysMore(a, b resultfile.Run) bool {
	return cmp.Or(cmp.Compare(a.Repeat, b.Repeat), a.Started.Compare(b.Started), cmp.Compare(a.Name, b.Name)) > 0
}

func rateText(s plots.Summary) string {
	return fmt.Sprintf("%s (%d)", plots.Rounded(s.Median), s.N)
}
