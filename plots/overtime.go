package plots

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/vg"

	"kafkalab/results/resultfile"
)

const (
	// timeSteps is into how many steps the time of an attempt is cut, at most.
	timeSteps = 120
	// minutesFrom is the length, in seconds, from which on time is shown in
	// minutes.
	minutesFrom = 600
)

// timePanel is a quantity over the time of an attempt.
type timePanel struct {
	quantity Quantity // by which a scenario asks for it
	title    string
	scaleFor func(most float64) scale
	of       func(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) []point
}

// timePanels are what can be shown over time, in their order.
var timePanels = []timePanel{
	{MessageRate, "Messages per second", MessageRate.scaleFor, rateOverTime},
	{ResidentMemory, "Broker's memory", ResidentMemory.scaleFor, residentOverTime},
	{GCShare, "Garbage collection's share of the broker's processor time", GCShare.scaleFor, gcOverTime},
	{BrokerCPU, "Cores kept busy by the broker", func(float64) scale { return scale{"cores", 1} }, coresOverTime},
	{DiskReads, "Read from the disk", DataRate.scaleFor, readsOverTime},
	{DiskWrites, "Written to the disk", DataRate.scaleFor, writesOverTime},
}

// newOverTime makes the figure of what was sampled over the time of an attempt:
// every repetition as a thin line, that of the median rate as a thick one.
func newOverTime(r *resultfile.Result, s resultfile.Scenario) board {
	b := board{
		title: plain(heading(s)), mark: emulatedMark(r.Run.Testbed),
		subtitle: "Over the time of an attempt; thick: the repetition of the median rate; thin: the others",
	}
	length := 0.0
	for _, y := range s.Systems {
		for _, a := range validAttempts(r, s, y) {
			if ps := r.Points(a.ID); len(ps) > 0 {
				length = max(length, ps[len(ps)-1].Seconds)
			}
			if xs := r.Samples(a.ID); len(xs) > 0 {
				length = max(length, xs[len(xs)-1].Seconds)
			}
		}
	}
	unit := scale{"s", 1}
	if length >= minutesFrom {
		unit = scale{"min", 60}
	}
	b.x = axis{max: max(length/unit.factor, 1e-9)}
	for _, t := range linearTicks(b.x.max) {
		b.x.ticks = append(b.x.ticks, tick{t.Value, fineLabel(t.Value, b.x.max)})
	}
	b.xLabel = "Time since the first message (" + unit.unit + ")"
	styles := stylesOf(s)
	asked := askedPanels(s)
	for _, t := range asked {
		p := overTime(r, s, t, styles, unit)
		if p.empty != "" && len(s.Shows) == 0 {
			continue // nobody asked for it
		}
		b.panels = append(b.panels, p)
	}
	if len(b.panels) == 0 {
		b.panels = []panel{{title: "Nothing over time", empty: "No system has a valid attempt in this run."}}
	}
	for _, y := range s.Systems {
		k := key{style: styles[y.ID], label: named(y)}
		if y.Role == resultfile.RoleLimit {
			k.kind = limitTrail
		}
		if rates := ratesOf(validAttempts(r, s, y)); rates.N > 0 {
			k.notes = []string{number(roundTo3(rates.Median)) + " /s"}
			if peak := Summarise(ResidentPeak.valuesIn(r, s, y)); peak.N > 0 {
				k.notes = append(k.notes, "memory at most "+Show(ResidentPeak, peak.Median))
			}
		} else {
			k.absent, k.notes = true, []string{whyAbsent(r, s, y)}
		}
		b.keys = append(b.keys, k)
	}
	b.caption = captionOf(r, s, extrasView, " Lines: what was sampled over the time of an attempt; thick: the repetition of the median rate; thin: the others.")
	return b
}

// askedPanels are those that a scenario names, or all.
func askedPanels(s resultfile.Scenario) []timePanel {
	if len(s.Shows) == 0 {
		return timePanels
	}
	var out []timePanel
	for _, t := range timePanels {
		names := []string{string(t.quantity)}
		switch t.quantity {
		case ResidentMemory:
			names = append(names, string(ResidentPeak), string(ResidentShare))
		case MessageRate:
			names = append(names, string(RateAchieved), string(DataRate), string(DailyMessages))
		}
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(s.Shows, n) }) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return timePanels
	}
	return out
}

func overTime(r *resultfile.Result, s resultfile.Scenario, t timePanel, styles map[string]style, unit scale) panel {
	var trails []trail
	var values []float64
	for i, y := range s.Systems {
		as := validAttempts(r, s, y)
		strong := medianAttempt(as)
		for _, a := range as {
			points := t.of(r, s, a)
			if len(points) == 0 {
				continue
			}
			one := trail{style: styles[y.ID], kind: thinTrail, index: i}
			if a.ID == strong {
				one.kind, one.spread = strongTrail, markedFew
			}
			if y.Role == resultfile.RoleLimit {
				one.kind, one.spread = limitTrail, noSpread
				one.style.width = vg.Points(0.9)
			}
			for _, p := range points {
				p.x /= unit.factor
				one.points = append(one.points, p)
				values = append(values, p.y)
			}
			trails = append(trails, one)
		}
	}
	return panelOf(t.title, t.scaleFor, trails, values)
}

// medianAttempt is the ID of the attempt whose rate is in the middle; of an even
// number the lower one of the two.
func medianAttempt(as []resultfile.Attempt) string {
	if len(as) == 0 {
		return ""
	}
	as = slices.Clone(as)
	slices.SortStableFunc(as, func(a, b resultfile.Attempt) int {
		return cmp.Compare(a.MessagesPerSecond(), b.MessagesPerSecond())
	})
	return as[(len(as)-1)/2].ID
}

// rateOverTime is the rate in equal steps of time: of what arrived at the
// broker, of a consume of what was consumed.
func rateOverTime(r *resultfile.Result, s resultfile.Scenario, a resultfile.Attempt) []point {
	ps := r.Points(a.ID)
	var at, count []float64
	arrived := s.Work != resultfile.Consume && len(ps) > 0 && ps[len(ps)-1].Arrived > 0
	for _, p := range ps {
		n := p.Messages
		if arrived {
			n = p.Arrived
		}
		at, count = append(at, p.Seconds), append(count, float64(n))
	}
	return growth(at, count, at)
}

// brokerSamples are those of the broker host.
func brokerSamples(r *resultfile.Result, a resultfile.Attempt) []resultfile.Sample {
	return samplesOf(r, a, r.Run.Testbed.BrokerHost.Name)
}

// samplesOf are those of one host.
func samplesOf(r *resultfile.Result, a resultfile.Attempt, host string) []resultfile.Sample {
	return slices.DeleteFunc(slices.Clone(r.Samples(a.ID)), func(x resultfile.Sample) bool { return x.Host != host })
}

// ofProcesses says whether the samples know what the broker's processes alone
// did: files of the first version do not.
func ofProcesses(samples []resultfile.Sample) bool {
	return slices.ContainsFunc(samples, func(x resultfile.Sample) bool { return x.ProcessResidentBytes > 0 })
}

func residentOverTime(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) []point {
	samples := brokerSamples(r, a)
	if !ofProcesses(samples) {
		return nil
	}
	var out []point
	for _, x := range samples {
		out = append(out, point{x: x.Seconds, y: float64(x.ProcessResidentBytes)})
	}
	return out
}

func gcOverTime(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) []point {
	samples := brokerSamples(r, a)
	if _, known := a.Measures["broker_gc_seconds"]; !known && !slices.ContainsFunc(samples, func(x resultfile.Sample) bool { return x.GCSeconds > 0 }) {
		return nil
	}
	var at, gc, process []float64
	for _, x := range samples {
		at, gc, process = append(at, x.Seconds), append(gc, x.GCSeconds), append(process, x.ProcessSeconds)
	}
	return growth(at, gc, process)
}

func coresOverTime(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) []point {
	var at, process []float64
	for _, x := range brokerSamples(r, a) {
		at, process = append(at, x.Seconds), append(process, x.ProcessSeconds)
	}
	return growth(at, process, at)
}

func readsOverTime(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) []point {
	return diskOverTime(r, a, func(x resultfile.Sample) (process, host int64) { return x.ProcessReadBytes, x.DiskReadBytes })
}

func writesOverTime(r *resultfile.Result, _ resultfile.Scenario, a resultfile.Attempt) []point {
	return diskOverTime(r, a, func(x resultfile.Sample) (process, host int64) { return x.ProcessWriteBytes, x.DiskWriteBytes })
}

// diskOverTime is of the broker's processes, or where only that is known of its
// host.
func diskOverTime(r *resultfile.Result, a resultfile.Attempt, of func(resultfile.Sample) (process, host int64)) []point {
	samples := brokerSamples(r, a)
	processes := ofProcesses(samples)
	var at, bytes []float64
	for _, x := range samples {
		process, host := of(x)
		if !processes {
			process = host
		}
		at, bytes = append(at, x.Seconds), append(bytes, float64(process))
	}
	return growth(at, bytes, at)
}

// growth is how much a counter grew for each unit that another one did, in at
// most timeSteps equal steps of time; each stands at the middle of its step.
// Where the other one did not grow nothing is known.
func growth(at, counter, per []float64) []point {
	if len(at) < 2 || at[len(at)-1] <= at[0] {
		return nil
	}
	width := (at[len(at)-1] - at[0]) / timeSteps
	var out []point
	gap := false
	from := 0
	for i := 1; i < len(at); i++ {
		if at[i]-at[from] < width*(1-1e-9) && i < len(at)-1 {
			continue
		}
		if per[i] > per[from] {
			out = append(out, point{x: (at[from] + at[i]) / 2, y: max(counter[i]-counter[from], 0) / (per[i] - per[from]), gap: gap && len(out) > 0})
			gap = false
		} else {
			gap = true
		}
		from = i
	}
	return out
}
