package plots

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/HdrHistogram/hdrhistogram-go"

	"kafkalab/results/resultfile"
)

// newLatencies makes the figure of latencies over the share of the messages
// that are as fast: a panel for each planned rate, a line for each system, and
// beside it a thin one of what a client sees that counts from its own send.
func newLatencies(r *resultfile.Result, s resultfile.Scenario) board {
	b := board{
		title: plain(heading(s)), mark: emulatedMark(r.Run.Testbed),
		subtitle: "Latency from the planned send time, over the share of the messages that had no more; median over the repetitions",
		xLabel:   "Share of the messages (each further nine takes as much room)",
	}
	var rates []float64
	for _, y := range s.Systems {
		if !slices.Contains(rates, y.Rate) && (y.Rate > 0 || len(rates) == 0) {
			rates = append(rates, y.Rate)
		}
	}
	slices.Sort(rates)
	styles := latencyStyles(s)
	end := 1.0
	for _, y := range s.Systems {
		planned, _ := latenciesOf(r, s, y)
		for _, h := range planned {
			end = max(end, tailEnd(h.TotalCount()))
		}
	}
	b.x = axis{max: end, ticks: tailTicks(end)}
	anySent := false
	var values []float64
	for _, rate := range rates {
		var trails []trail
		for i, y := range s.Systems {
			if y.Rate != rate && !(y.Rate == 0 && rate == rates[0]) {
				continue
			}
			planned, sent := latenciesOf(r, s, y)
			kind, spread := strongTrail, shade
			if y.Role == resultfile.RoleLimit {
				kind, spread = limitTrail, noSpread
			}
			for _, line := range []struct {
				hs     []*hdrhistogram.Histogram
				kind   trailKind
				spread trailSpread
			}{{planned, kind, spread}, {sent, thinTrail, noSpread}} {
				if points := tailPoints(line.hs); points != nil {
					trails = append(trails, trail{style: styles[y.ID], points: points, kind: line.kind, spread: line.spread, index: i})
					for _, p := range points {
						values = append(values, p.low, p.high)
					}
				}
			}
			anySent = anySent || len(sent) > 0
		}
		b.panels = append(b.panels, latencyPanel(rate, trails))
	}
	for i := range b.panels { // one axis for all, so that they can be compared
		if b.panels[i].empty == "" {
			b.panels[i].y = secondsAxis(values)
		}
	}
	b.keys = latencyKeys(r, s, styles)
	lines := " Lines: latency from the planned send time, median over the repetitions; bands: lowest to highest"
	if anySent {
		lines += "; thin lines: from the real send, as a client counts that waits while the system stalls"
		b.keys = append(b.keys, key{style: style{color: softInk, width: vg.Points(0.7)}, label: "thin: from the real send", kind: thinTrail})
	}
	b.caption = captionOf(r, s, extrasView, lines+".")
	if note := clockNote(r.Run.Testbed); note != "" {
		b.caption = append(b.caption, plain(note))
	}
	return b
}

func latencyPanel(rate float64, trails []trail) panel {
	p := panel{title: "Latency, logarithmic", curves: trails}
	if rate > 0 {
		p.title = plain(fmt.Sprintf("%s messages/s planned: latency, logarithmic", number(rate)))
	}
	if len(trails) == 0 {
		p.empty = "No latencies: no valid attempt has any."
	}
	return p
}

// secondsAxis is a logarithmic axis of seconds whose labels have the unit that
// people read.
func secondsAxis(values []float64) axis {
	a := logAxis(values)
	for i, t := range a.ticks {
		if t.label != "" {
			unit := secondsScale(t.at * (1 + 1e-9))
			a.ticks[i].label = plain(short(t.at/unit.factor) + " " + unit.unit)
		}
	}
	return a
}

// latencyStyles gives systems that differ in their planned rate alone one look:
// they stand in different panels.
func latencyStyles(s resultfile.Scenario) map[string]style {
	heads, first := s, make(map[string]string)
	heads.Systems = nil
	for _, y := range s.Systems {
		if id := latencyLine(y); first[id] == "" {
			first[id] = y.ID
			heads.Systems = append(heads.Systems, y)
		}
	}
	of := stylesOf(heads)
	styles := make(map[string]style)
	for _, y := range s.Systems {
		styles[y.ID] = of[first[latencyLine(y)]]
	}
	return styles
}

// latencyLine is what systems have in common that are one line at several rates.
func latencyLine(y resultfile.System) string {
	if y.Series != "" {
		return "series " + y.Series
	}
	return "system " + y.ID
}

// latencyKeys is the legend: each line once, with the percentiles at each of its
// rates, then those that have none.
func latencyKeys(r *resultfile.Result, s resultfile.Scenario, styles map[string]style) []key {
	var keys []key
	at := make(map[string]int)
	for _, y := range s.Systems {
		label := roleName(lineLabel(y), y.Role)
		i, known := at[latencyLine(y)]
		if !known {
			i = len(keys)
			at[latencyLine(y)] = i
			k := key{style: styles[y.ID], label: label}
			if y.Role == resultfile.RoleLimit {
				k.kind = limitTrail
			}
			keys = append(keys, k)
		}
		before := ""
		if y.Rate > 0 {
			before = number(y.Rate) + "/s: "
		}
		keys[i].notes = append(keys[i].notes, before+latencyNote(r, s, y))
		if len(validAttempts(r, s, y)) == 0 && len(keys[i].notes) == 1 {
			keys[i].absent = true
		} else if len(validAttempts(r, s, y)) > 0 {
			keys[i].absent = false
		}
	}
	return keys
}

func latencyNote(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) string {
	if len(validAttempts(r, s, y)) == 0 {
		return whyAbsent(r, s, y)
	}
	planned, _ := latenciesOf(r, s, y)
	if len(planned) == 0 {
		for _, a := range validAttempts(r, s, y) {
			if slices.ContainsFunc(a.Notes, func(n string) bool { return strings.Contains(n, "withheld") }) {
				return "withheld: the two clocks were not compared"
			}
		}
		return "no latencies"
	}
	note := percentilesOf(planned)
	if reached := Summarise(RateAchieved.valuesIn(r, s, y)); reached.N > 0 && reached.Median < paceIsLimit {
		note += ", " + Show(RateAchieved, reached.Median) + " of the rate"
	}
	return note
}

// percentilesOf are the median and p99, or of fewer messages than that needs the
// highest percentile that is known.
func percentilesOf(hs []*hdrhistogram.Histogram) string {
	count := hs[0].TotalCount()
	for _, h := range hs {
		count = min(count, h.TotalCount())
	}
	at := func(percentile float64) string {
		return Show(LatencyP50, medianAt(hs, percentile))
	}
	note := "p50 " + at(50)
	for _, p := range []float64{99, 90} {
		if count >= messagesFor(p) {
			note += fmt.Sprintf(", p%.0f %s", p, at(p))
			break
		}
	}
	if count < messagesFor(99) {
		note += fmt.Sprintf(" (%s: too few for p99)", plural(int(count), "message"))
	}
	return note
}

// medianAt is a percentile's median over the repetitions.
func medianAt(hs []*hdrhistogram.Histogram, percentile float64) float64 {
	var values []float64
	for _, h := range hs {
		values = append(values, secondsAt(h, percentile))
	}
	return Summarise(values).Median
}

// clockNote says how far the clocks stand apart where there are two.
func clockNote(t resultfile.Testbed) string {
	c := t.Clock
	switch {
	case c == nil:
		return ""
	case c.Same:
		return "Both hosts have one clock."
	}
	return fmt.Sprintf("The broker's clock stood %s from the client's, known to %s.", Show(LatencyP50, c.OffsetSeconds), Show(LatencyP50, c.ErrorSeconds))
}

// latencyTable holds the percentiles of each system, with the share of the
// planned rate that was reached; nil if nothing has a latency.
func latencyTable(r *resultfile.Result, s resultfile.Scenario) *Table {
	t := &Table{Head: []string{"system", "messages/s planned", "rate achieved, %", "p50", "p90", "p99", "p99.9", "largest", "p99 from the real send", "repetitions"}}
	any := false
	for _, y := range s.Systems {
		cells := []string{named(y), unknown, medianCell(r, s, y, RateAchieved)}
		if y.Rate > 0 {
			cells[1] = number(y.Rate)
		}
		for _, q := range []Quantity{LatencyP50, LatencyP90, LatencyP99, LatencyP999, latencyMax} {
			cells = append(cells, medianCell(r, s, y, q))
			any = any || cells[len(cells)-1] != unknown
		}
		_, sent := latenciesOf(r, s, y)
		sent = slices.DeleteFunc(sent, func(h *hdrhistogram.Histogram) bool { return h.TotalCount() < messagesFor(99) })
		fromSend := unknown
		if len(sent) > 0 {
			fromSend = LatencyP99.cell(medianAt(sent, 99))
		}
		t.add(append(cells, fromSend, number(float64(len(validAttempts(r, s, y)))))...)
	}
	if !any {
		return nil
	}
	return t
}

// medianCell is a quantity's median over the valid attempts.
func medianCell(r *resultfile.Result, s resultfile.Scenario, y resultfile.System, q Quantity) string {
	sum := Summarise(q.valuesIn(r, s, y))
	if sum.N == 0 {
		return unknown
	}
	return q.cell(sum.Median)
}
