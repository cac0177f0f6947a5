package plots

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"kafkalab/results/resultfile"
)

// tierTitles are the tiers of a pipeline in words.
var tierTitles = map[string]string{
	resultfile.TagLive: "the live cluster", resultfile.TagReplica: "the replica cluster", resultfile.TagLoad: "the load's output",
}

// newTiers makes the figure of a pipeline (NetDB'11 §4): for each tier the delay
// from the making of a message, over the time at which messages came, and below
// them what part of the messages of each window the audit has found in the tier
// where most are missing.
func newTiers(r *resultfile.Result, s resultfile.Scenario) board {
	b := board{
		title: plain(heading(s)), mark: emulatedMark(r.Run.Testbed),
		subtitle: "Delay from the making of a message to each tier: median of what came in a second; below, what the audit found; thick: one repetition, thin: the others",
		xLabel:   "Time since the first message (s)",
	}
	styles := stylesOf(s)
	length := 0.0
	for _, tier := range resultfile.Tiers() {
		p, end := tierPanel(r, s, tier, styles)
		b.panels = append(b.panels, p)
		length = max(length, end)
	}
	p, end := completePanel(r, s, styles)
	b.panels = append(b.panels, p)
	length = max(length, end)
	b.x = axis{max: max(length, 1e-9)}
	for _, t := range linearTicks(b.x.max) {
		b.x.ticks = append(b.x.ticks, tick{t.Value, fineLabel(t.Value, b.x.max)})
	}
	for _, y := range s.Systems {
		k := key{style: styles[y.ID], label: named(y)}
		if mean := Summarise(DelayLoadMean.valuesIn(r, s, y)); mean.N > 0 {
			note := "mean to the load " + Show(DelayLoadMean, mean.Median)
			if low, high := mean.bounds(); mean.N > 1 {
				note += fmt.Sprintf(" (%s .. %s)", DelayLoadMean.cell(low), DelayLoadMean.cell(high))
			}
			k.notes = []string{note}
			if missing := Summarise(AuditMissing.valuesIn(r, s, y)); missing.N > 0 {
				k.notes = append(k.notes, "missing by the audit "+Show(AuditMissing, missing.Median))
			}
		} else {
			k.absent, k.notes = true, []string{whyAbsent(r, s, y)}
		}
		b.keys = append(b.keys, k)
	}
	b.caption = captionOf(r, s, extrasView, " Lines: of the messages that came to a tier in a second, the median of the delay from their making; below, of the messages that were made in a window, "+
		"by the monitoring events, the part that the audit found in the tier where most are missing; thick: one repetition; thin: the others. In the legend: the median over the repetitions, and behind it "+spreadText(r, s)+".")
	if note := clockNote(r.Run.Testbed); note != "" {
		b.caption = append(b.caption, "Every delay is by the clock of the client host, on which messages are made and looked for.")
	}
	return b
}

// tierTrails are the lines of a panel: of every valid attempt one, the first of
// each system thick. end is where they end.
func tierTrails(r *resultfile.Result, s resultfile.Scenario, styles map[string]style, of func(resultfile.Attempt) []point) (trails []trail, values []float64, end float64) {
	for i, y := range s.Systems {
		kind, spread := strongTrail, markedFew
		for _, a := range validAttempts(r, s, y) {
			points := of(a)
			if len(points) == 0 {
				continue
			}
			trails = append(trails, trail{style: styles[y.ID], points: points, kind: kind, spread: spread, index: i})
			kind, spread = thinTrail, noSpread
			for _, p := range points {
				values = append(values, p.y)
				end = max(end, p.x)
			}
		}
	}
	return trails, values, end
}

func tierPanel(r *resultfile.Result, s resultfile.Scenario, tier string, styles map[string]style) (panel, float64) {
	trails, values, end := tierTrails(r, s, styles, func(a resultfile.Attempt) []point { return delaysOverTime(r.Latency(a.ID), tier) })
	return panelOf("Delay to "+tierTitles[tier], DelayLoad.scaleFor, trails, values), end
}

// delaysOverTime is the median delay of each interval in which something came to
// a tier. What cannot be decoded was not read either.
func delaysOverTime(l *resultfile.Latency, tier string) []point {
	if l == nil {
		return nil
	}
	var out []point
	for _, i := range l.Intervals {
		if i.Tag != tier {
			continue
		}
		h, err := i.Decode()
		if err != nil || h.TotalCount() == 0 {
			continue
		}
		out = append(out, point{x: i.Start + i.Seconds/2, y: float64(h.ValueAtPercentile(50)) / float64(time.Second)})
	}
	return out
}

func completePanel(r *resultfile.Result, s resultfile.Scenario, styles map[string]style) (panel, float64) {
	trails, values, end := tierTrails(r, s, styles, func(a resultfile.Attempt) []point { return completeOverTime(r.Audit(a.ID)) })
	// From what there is to all of it: a few messages of a window are to be seen.
	return panelOf("Found by the audit, of the messages made", func(float64) scale { return scale{"%", 1} }, trails, values), end
}

// completeOverTime is, window by window, the part of what was made that the audit
// has found in the tier that has least, in per cent. Of what is open it has said
// nothing yet.
func completeOverTime(windows []resultfile.AuditWindow) []point {
	type total struct{ made, missing int64 }
	tiers := map[float64]map[string]total{} // by the beginning of a window
	length := map[float64]float64{}
	for _, w := range windows {
		if tiers[w.Start] == nil {
			tiers[w.Start] = map[string]total{}
		}
		t := tiers[w.Start][w.Tier]
		tiers[w.Start][w.Tier] = total{t.made + w.Made - w.Open, t.missing + w.Missing}
		length[w.Start] = w.Seconds
	}
	var out []point
	for start, byTier := range tiers {
		least, known := 100.0, false
		for _, t := range byTier {
			if t.made > 0 {
				least, known = min(least, 100*float64(t.made-t.missing)/float64(t.made)), true
			}
		}
		if known {
			out = append(out, point{x: max(start+length[start]/2, 0), y: least})
		}
	}
	slices.SortFunc(out, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	return out
}

const tiersNote = "Delays are from the making of a message until it first came to the tier, medians over the valid attempts; counts are the greatest of them. Lost and doubled are by the messages " +
	"themselves, each of which was looked for; missing and doubled by the audit, which knows nothing of that."

// tiersTable holds what came to each tier, and what the audit says of it; nil
// where there are no tiers.
func tiersTable(r *resultfile.Result, s resultfile.Scenario) *Table {
	if s.Work != resultfile.Pipeline {
		return nil
	}
	t := &Table{Head: []string{"system", "tier", "mean", "p50", "p99", "largest", "lost", "missing by the audit", "doubled", "doubled by the audit"}, left: map[int]bool{1: true}}
	for _, y := range s.Systems {
		for _, tier := range resultfile.Tiers() {
			cells := []string{named(y), tier}
			for _, statistic := range []string{"mean", "p50", "p99", "max"} {
				cells = append(cells, tierCell(r, s, y, "delay_"+tier+"_"+statistic+"_seconds", DelayLoad, func(x Summary) float64 { return x.Median }))
			}
			for _, name := range []string{"lost_", "audit_missing_", "doubled_", "audit_doubled_"} {
				cells = append(cells, tierCell(r, s, y, name+tier, AuditMissing, func(x Summary) float64 { return x.Max }))
			}
			t.add(cells...)
		}
	}
	return t
}

// tierCell is a measure over the valid attempts, written as a quantity is.
func tierCell(r *resultfile.Result, s resultfile.Scenario, y resultfile.System, name string, as Quantity, of func(Summary) float64) string {
	sum := Summarise(valuesOf(validAttempts(r, s, y), func(a resultfile.Attempt) (float64, bool) {
		v, ok := a.Measures[name]
		return v, ok
	}))
	if sum.N == 0 {
		return unknown
	}
	return as.cell(of(sum))
}
