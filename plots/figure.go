package plots

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"gonum.org/v1/plot/vg"

	"kafkalab/results/paper"
	"kafkalab/results/resultfile"
)

// figure is everything that a drawn figure says, in numbers and words.
type figure struct {
	title    string
	subtitle string // what the vertical axis shows
	xLabel   string
	xMax     float64 // MB; 0 if nothing was measured
	yMin     float64 // messages per second; 0 on a linear axis
	yMax     float64
	log      bool
	lines    []line // in the order of the scenario, limits last
	absent   []absence
	marks    []paper.Mark // the paper's own rates
	caption  []string     // paragraphs
	mark     string       // "emulated", at the head
}

// line is one system in a figure.
type line struct {
	label string
	note  string // behind the rate in the legend
	rate  float64
	style style
	limit bool
	bands []band
}

// absence is a system that has no line, with the reason.
type absence struct {
	label, reason string
	style         style
}

// view is which figure of a scenario is drawn.
type view int

const (
	paperView  view = iota // the systems of the paper's figure
	extrasView             // the additions to it and what was also measured, with the systems behind
)

// shows says whether a system stands in the figure.
func (v view) shows(y resultfile.System) bool {
	return v == extrasView || !added(y)
}

// newFigure makes the figure of a scenario with an axis that fits.
func newFigure(r *resultfile.Result, s resultfile.Scenario, v view) figure {
	f := figure{title: plain(heading(s)), caption: caption(r, s, v)}
	f.subtitle, f.xLabel = "Messages per second that arrived at the broker", "Data arrived at the broker (MB of payload, 1 MB = 1,000,000 bytes)"
	if s.Work == resultfile.Consume {
		f.subtitle, f.xLabel = "Messages consumed per second", "Data consumed (MB of payload, 1 MB = 1,000,000 bytes)"
	}
	if s.Chart != "" { // runs of before are drawn as they were
		f.mark = emulatedMark(r.Run.Testbed)
	}
	styles := stylesOf(s)
	curves := make(map[string][]curve)
	for _, y := range s.Systems {
		if !v.shows(y) {
			continue
		}
		for _, a := range validAttempts(r, s, y) {
			curves[y.ID] = append(curves[y.ID], newCurve(r.Points(a.ID), s.Work))
		}
		if y.Role != resultfile.RoleLimit { // a limit spans the axis, it does not set it
			f.xMax = max(f.xMax, extent(curves[y.ID], payloadOf(s, y.ID)))
		}
	}
	if f.xMax == 0 {
		for id, c := range curves {
			f.xMax = max(f.xMax, extent(c, payloadOf(s, id)))
		}
	}
	for _, limits := range []bool{false, true} {
		for _, y := range s.Systems {
			if !v.shows(y) || limits != (y.Role == resultfile.RoleLimit) {
				continue
			}
			st := styles[y.ID]
			if v == extrasView && y.Role == resultfile.RoleSystem { // for comparison only
				st.width, st.faint = vg.Points(0.8), true
			}
			f.add(r, s, y, st, curves[y.ID])
		}
	}
	f.log = f.wantsLog()
	f.scale()
	f.explainLateCounts()
	if v == paperView {
		f.marks = marksFor(s)
	} else {
		f.title += extrasTitle(s)
	}
	return f
}

// add enters a system as a line, or as absent.
func (f *figure) add(r *resultfile.Result, s resultfile.Scenario, y resultfile.System, st style, curves []curve) {
	rates := ratesOf(validAttempts(r, s, y))
	payload := payloadOf(s, y.ID)
	bs := bands(curves, payload, f.xMax)
	if rates.N == 0 {
		f.absent = append(f.absent, absence{label: plain(y.Label), reason: plain(whyAbsent(r, s, y)), style: st})
		return
	}
	l := line{label: plain(y.Label), rate: rates.Median, style: st, limit: y.Role == resultfile.RoleLimit, bands: bs}
	if tried := len(attempts(r, s, y)); tried > rates.N {
		l.note = fmt.Sprintf("%d of %d attempts valid", rates.N, tried)
	}
	switch mb := extent(curves, payload); {
	case mb == 0:
		l.note = join(l.note, "no line: its points hold no message")
	case !l.limit && mb < 0.98*f.xMax:
		l.note = join(l.note, "ended at "+number(mb)+" MB")
	}
	f.lines = append(f.lines, l)
}

// wantsLog says whether the systems' rates are too far apart for a linear axis.
func (f *figure) wantsLog() bool {
	lo, hi := f.rateRange()
	return lo > 0 && hi/lo > logFactor
}

func (f *figure) rateRange() (lo, hi float64) {
	for _, l := range f.lines {
		if l.limit {
			continue
		}
		if lo == 0 || l.rate < lo {
			lo = l.rate
		}
		hi = max(hi, l.rate)
	}
	return lo, hi
}

// aboveLimit is how far above the physical limit the axis may reach, as a
// factor: what is drawn higher is no rate of a system, but a count that came
// late.
const aboveLimit = 1.15

// limitRate is the rate of the physical limit, 0 when it was not measured.
func (f *figure) limitRate() float64 {
	for _, l := range f.lines {
		if l.limit {
			return l.rate
		}
	}
	return 0
}

// explainLateCounts says in the caption why a window can be above the physical
// limit, if one is.
func (f *figure) explainLateCounts() {
	limit := f.limitRate()
	if limit == 0 {
		return
	}
	for _, l := range f.lines {
		for _, b := range l.bands {
			if !l.limit && b.known() && b.max > limit*1.01 {
				f.caption = append(f.caption, "A count that was given late lowers one window and raises the next, even above the limit; rates of whole attempts are not touched.")
				return
			}
		}
	}
}

// scale sets the vertical axis to hold every line and band. Only single
// windows far below all systems' rates, such as a first one with the start of
// a connection in it, may leave a logarithmic axis at its foot, and single ones
// far above the physical limit any axis at its top.
func (f *figure) scale() {
	low, high := math.Inf(1), 0.0
	for _, l := range f.lines {
		high = max(high, l.rate)
		low = min(low, l.rate)
		for _, b := range l.bands {
			if b.known() && !l.limit {
				low, high = min(low, b.min), max(high, b.max)
			}
		}
	}
	if limit := f.limitRate(); limit > 0 {
		fastest := 0.0
		for _, l := range f.lines {
			fastest = max(fastest, l.rate)
		}
		high = min(high, fastest*aboveLimit)
	}
	if high == 0 {
		f.yMin, f.yMax, f.log = 0, 1, false
		return
	}
	if !f.log {
		f.yMin, f.yMax = 0, niceCeil(high*1.04)
		return
	}
	slowest, _ := f.rateRange()
	if slowest > 0 {
		low = max(low, slowest/4)
	}
	f.yMin, f.yMax = logBounds(low*0.95, high*1.05)
}

// otherAxis returns the same figure with the other kind of axis.
func (f figure) otherAxis() figure {
	f.log = !f.log
	f.scale()
	return f
}

// extrasTitle is what the figure of additions says behind the title: of the
// paper's figures that they are none of it.
func extrasTitle(s resultfile.Scenario) string {
	if figureName.MatchString(s.Name) {
		return ", additions to the paper's figure"
	}
	return ", with additions"
}

func hasExtras(s resultfile.Scenario) bool {
	return slices.ContainsFunc(s.Systems, added)
}

// added says whether a system does not belong in the paper's figure.
func added(y resultfile.System) bool {
	return y.Role == resultfile.RoleExtra || y.Role == resultfile.RoleAlso
}

// figureName finds the number of the paper's figure in a scenario's name.
var figureName = regexp.MustCompile(`^fig([0-9]+)-`)

// heading is the title with the number of the paper's figure.
func heading(s resultfile.Scenario) string {
	if m := figureName.FindStringSubmatch(s.Name); m != nil {
		return "Figure " + m[1] + ". " + s.Title + linkMark(s)
	}
	return s.Title + linkMark(s)
}

// linkMark labels what was measured on a link that was to have no rate.
func linkMark(s resultfile.Scenario) string {
	if s.Link == "" {
		return ""
	}
	return ", link " + s.Link
}

// marksFor returns the paper's own rates for the scenario that repeats its
// Figure 4 or 5: the one with the paper's message size and kind of work.
func marksFor(s resultfile.Scenario) []paper.Mark {
	if s.PayloadBytes != paper.PayloadBytes || s.Chart != "" && !figureName.MatchString(s.Name) {
		return nil
	}
	if s.Work == resultfile.Consume {
		return paper.Marks("5")
	}
	return paper.Marks("4")
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
