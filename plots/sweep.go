package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"kafkalab/results/resultfile"
)

// group is a line of a sweep: the systems of one series, in the order of their
// places.
type group struct {
	label   string
	systems []resultfile.System
	style   style
	limit   bool
}

// onAxis says whether a system has a place on the axis, and is no level across
// it.
func onAxis(y resultfile.System) bool { return y.Series != "" || y.X != 0 }

// groupsOf sorts the systems of a sweep into lines, in the scenario's order,
// limits last. A system without a place is a line of its own.
func groupsOf(s resultfile.Scenario) []group {
	var groups []group
	for _, y := range s.Systems {
		label := lineLabel(y)
		i := slices.IndexFunc(groups, func(g group) bool { return g.label == label && onAxis(g.systems[0]) && onAxis(y) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{label: label, limit: y.Role == resultfile.RoleLimit})
		}
		groups[i].systems = append(groups[i].systems, y)
	}
	heads := s // one system for each line, for the looks
	heads.Systems = nil
	for i := range groups {
		slices.SortStableFunc(groups[i].systems, func(a, b resultfile.System) int {
			return cmp.Compare(a.X, b.X)
		})
		heads.Systems = append(heads.Systems, groups[i].systems[0])
	}
	styles := stylesOf(heads)
	for i := range groups {
		groups[i].style = styles[groups[i].systems[0].ID]
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Compare(btoi(a.limit), btoi(b.limit))
	})
	return groups
}

// showsOf are the quantities of a scenario's figure: those that it names and
// that there are, or the message rate.
func showsOf(s resultfile.Scenario) []Quantity {
	var out []Quantity
	for _, name := range s.Shows {
		if q := Quantity(name); q.Known() && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	if len(out) == 0 {
		return []Quantity{MessageRate}
	}
	return out
}

// quantitiesOf are the quantities that tables and comparisons of a scenario
// show: those of its figure, and where it names none those that figures of its
// kind are made of.
func quantitiesOf(s resultfile.Scenario) []Quantity {
	if len(s.Shows) == 0 {
		switch s.Chart {
		case resultfile.Latencies:
			return []Quantity{LatencyP50, LatencyP90, LatencyP99, LatencyP999}
		case resultfile.OverTiers:
			return []Quantity{DelayLive, DelayReplica, DelayLoad, DelayLoadMean, AuditMissing, AuditDoubled}
		case resultfile.OverTime:
			return []Quantity{MessageRate, ResidentPeak, GCShare, DiskReads, DiskWrites}
		}
	}
	return showsOf(s)
}

// bounds are the interval of a summary, or its range where there is none.
func (s Summary) bounds() (low, high float64) {
	if s.Low != nil {
		return *s.Low, *s.High
	}
	return s.Min, s.Max
}

// newSweep makes the figure of quantities over what was swept: each repetition's
// median with its interval, and a line for each series.
func newSweep(r *resultfile.Result, s resultfile.Scenario) board {
	b := board{
		title: plain(heading(s)), mark: emulatedMark(r.Run.Testbed),
		subtitle: plain(fmt.Sprintf("Points: median over the repetitions; whiskers: %s", shortSpread(r, s))),
	}
	var xs []float64
	for _, y := range s.Systems {
		if onAxis(y) && !slices.Contains(xs, y.X) {
			xs = append(xs, y.X)
		}
	}
	slices.Sort(xs)
	log := false
	if s.Axis != nil {
		b.xLabel, log = capital(plain(s.Axis.Label)), s.Axis.Log
	}
	if len(xs) > 0 && xs[0] <= 0 {
		log = false
	}
	b.x = placesAxis(xs, log)
	if log {
		b.xLabel += " (logarithmic)"
	}
	groups := groupsOf(s)
	shows := showsOf(s)
	for _, q := range shows {
		b.panels = append(b.panels, sweepPanel(r, s, q, groups))
	}
	for _, g := range groups {
		b.keys = append(b.keys, sweepKey(r, s, shows[0], g))
	}
	lines := fmt.Sprintf(" Points: median over the repetitions; whiskers: %s", spreadText(r, s))
	if slices.ContainsFunc(groups, func(g group) bool { return g.limit }) {
		lines += "; dashed grey: the physical limit"
	}
	b.caption = captionOf(r, s, extrasView, lines+".")
	return b
}

// capital begins a label as a sentence does.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// shortSpread is spreadText for a line below the title.
func shortSpread(r *resultfile.Result, s resultfile.Scenario) string {
	text := spreadText(r, s)
	if i := strings.Index(text, ", "); i >= 0 {
		text = text[:i]
	}
	return text
}

func sweepPanel(r *resultfile.Result, s resultfile.Scenario, q Quantity, groups []group) panel {
	var trails []trail
	var values []float64
	for i, g := range groups {
		t := trail{style: g.style, index: i, spread: whiskers, shift: shiftOf(i, len(groups))}
		switch {
		case !onAxis(g.systems[0]):
			t.kind, t.spread = levelTrail, noSpread
		case g.limit:
			t.kind, t.spread, t.shift = limitTrail, noSpread, 0
		}
		for _, y := range g.systems {
			sum := Summarise(q.valuesIn(r, s, y))
			if sum.N == 0 {
				if len(t.points) > 0 {
					t.points = append(t.points, point{gap: true, y: math.NaN()})
				}
				continue
			}
			low, high := sum.bounds()
			t.points = append(t.points, point{x: y.X, y: sum.Median, low: low, high: high})
			values = append(values, sum.Median, low, high)
		}
		t.closeGaps()
		if len(t.points) > 0 {
			trails = append(trails, t)
		}
	}
	return newPanel(q, trails, values)
}

// shiftOf moves the lines of a sweep a little beside one another, so that
// whiskers at the same place do not hide each other.
func shiftOf(line, of int) vg.Length {
	const step, most = 2.2, 7.0 // points
	width := min(step*float64(of-1), most)
	if of < 2 {
		return 0
	}
	return vg.Points(width * (float64(line)/float64(of-1) - 0.5))
}

// closeGaps turns points that stand for a place where nothing is known into a
// gap before the next point that is.
func (t *trail) closeGaps() {
	var kept []point
	gap := false
	for _, p := range t.points {
		if math.IsNaN(p.y) {
			gap = true
			continue
		}
		p.gap = p.gap || gap
		gap = false
		kept = append(kept, p)
	}
	t.points = kept
}

// newPanel makes a panel of trails in the quantity's own unit: it finds the unit
// that people read and an axis that fits, logarithmic where the values lie far
// apart.
func newPanel(q Quantity, trails []trail, values []float64) panel {
	return panelOf(quantities[q].title, q.scaleFor, trails, values)
}

func panelOf(title string, scaleFor func(float64) scale, trails []trail, values []float64) panel {
	lo, hi := rangeOf(values)
	unit := scaleFor(max(math.Abs(lo), math.Abs(hi)))
	p := panel{}
	var scaled []float64
	for _, v := range values {
		scaled = append(scaled, v/unit.factor)
	}
	for _, t := range trails {
		points := make([]point, len(t.points))
		for i, pt := range t.points {
			pt.y, pt.low, pt.high = pt.y/unit.factor, pt.low/unit.factor, pt.high/unit.factor
			points[i] = pt
		}
		t.points = points
		p.curves = append(p.curves, t)
	}
	log := lo > 0 && hi/lo > logFactor
	p.y = linearAxis(scaled)
	p.title = title
	if !containsUnit(title, unit.unit) {
		p.title += " (" + unit.unit + ")"
	}
	if log {
		p.y = logAxis(scaled)
		p.title += ", logarithmic"
	}
	p.title = plain(p.title)
	p.flat = len(trails) > 0 && lo == 0 && hi == 0
	if len(trails) == 0 {
		p.empty = "Not measured: no valid attempt has it."
	}
	return p
}

// containsUnit says whether a title already speaks of its unit.
func containsUnit(title, unit string) bool {
	return unit == perSecond && strings.HasPrefix(title, "Messages per second") || unit == "messages/day" || unit == "tries" ||
		unit == "messages" && strings.HasPrefix(title, "Messages")
}

// sweepKey is a series in the legend: from where to where its values go, and
// which of its places have none.
func sweepKey(r *resultfile.Result, s resultfile.Scenario, q Quantity, g group) key {
	label := roleName(g.label, g.systems[0].Role)
	k := key{style: g.style, label: label}
	if g.limit {
		k.kind = limitTrail
	}
	if g.limit || !onAxis(g.systems[0]) {
		k.style.width = vg.Points(1.1)
	}
	var medians []float64
	var absent []string
	for _, y := range g.systems {
		if sum := Summarise(q.valuesIn(r, s, y)); sum.N > 0 {
			medians = append(medians, sum.Median)
		}
		if len(validAttempts(r, s, y)) == 0 {
			absent = append(absent, fmt.Sprintf("none at %s: %s", number(y.X), whyAbsent(r, s, y)))
		}
	}
	switch lo, hi := rangeOf(medians); {
	case len(medians) > 0 && lo == hi:
		k.notes = append(k.notes, Show(q, lo))
	case len(medians) > 0:
		k.notes = append(k.notes, fmt.Sprintf("%s .. %s", short(lo/q.scaleFor(hi).factor), short(hi/q.scaleFor(hi).factor)+" "+q.scaleFor(hi).unit))
	}
	if len(absent) == len(g.systems) {
		return key{style: g.style, label: label, absent: true, notes: []string{whyAbsent(r, s, g.systems[0])}}
	}
	if len(absent) > 0 {
		note := firstOf(absent[0])
		if n := len(absent) - 1; n > 0 {
			note += fmt.Sprintf("; none at %d more", n)
		}
		k.notes = append(k.notes, note)
	}
	return k
}
