package plots

import (
	"math"
	"slices"
	"sort"

	"kafkalab/results/resultfile"
)

const (
	megabyte = 1e6
	// windows is how many equal windows of data the x axis is cut into.
	windows = 100
	// stepsPerWindow is how many points a window must hold on average. With
	// fewer the line would show how the points were taken, not the system, and
	// windows are joined.
	stepsPerWindow = 3
	// gapSeconds is the time without any point after which nothing is known of
	// the time between. The testbed takes at least ten points a second, also
	// while a system stands still.
	gapSeconds = 2.0
	// stepSeconds is the least time between two steps of a curve. Of points that
	// are closer the last one stands for all: behind a count that came late, what
	// the next one has more arrived in the long time before both.
	stepSeconds = 0.04
)

// curve is one attempt as a growing count of messages.
type curve struct {
	steps []step // strictly growing, from {0, 0}
	gaps  []gap
	late  *step   // while the curve is made: too soon after the last step
	begun float64 // when the last step was appended, whatever has taken its place since
}

type step struct{ seconds, messages float64 }

// gap is a stretch of messages of whose time nothing is known.
type gap struct{ from, to float64 }

// newCurve makes a curve of points: of what arrived at the broker for produce,
// of what was consumed for consume.
func newCurve(points []resultfile.Point, work resultfile.Work) curve {
	c := curve{steps: []step{{}}}
	var before step // also when it did not grow
	for _, p := range points {
		now := step{seconds: p.Seconds, messages: float64(p.Arrived)}
		if work == resultfile.Consume {
			now.messages = float64(p.Messages)
		}
		if now.messages > before.messages {
			if now.seconds-before.seconds > gapSeconds {
				c.gaps = append(c.gaps, gap{before.messages, now.messages})
			}
			c.add(now)
		}
		before = now
	}
	if c.late != nil {
		c.takeLate()
	}
	c.late = nil
	return c
}

// add appends a step. One too soon after the last step waits for its successor,
// which stands for it too. But when the last step was itself late, one so soon
// after it takes its place: both counts arrived in the long time before.
func (c *curve) add(s step) {
	last := c.steps[len(c.steps)-1]
	if s.seconds-last.seconds >= stepSeconds {
		c.steps, c.late, c.begun = append(c.steps, s), nil, s.seconds
		return
	}
	c.late = &s
	if n := len(c.steps); n > 1 && last.seconds-c.steps[n-2].seconds >= 2*stepSeconds && s.seconds-c.begun < stepSeconds {
		c.takeLate()
	}
}

// takeLate puts the step that waits in the place of the last one, unless that is
// the origin.
func (c *curve) takeLate() {
	if len(c.steps) == 1 {
		c.steps = append(c.steps, *c.late)
	} else {
		c.steps[len(c.steps)-1] = *c.late
	}
	c.late = nil
}

func (c curve) messages() float64 { return c.steps[len(c.steps)-1].messages }

// at returns when the count reached n, which must not be above messages().
func (c curve) at(n float64) float64 {
	i := sort.Search(len(c.steps), func(i int) bool { return c.steps[i].messages >= n })
	if i == 0 {
		return c.steps[0].seconds
	}
	if i == len(c.steps) {
		return math.NaN()
	}
	a, b := c.steps[i-1], c.steps[i]
	return a.seconds + (n-a.messages)/(b.messages-a.messages)*(b.seconds-a.seconds)
}

// rate returns the messages per second between two counts, NaN where it is not
// known.
func (c curve) rate(from, to float64) float64 {
	for _, g := range c.gaps {
		if g.from <= from && to <= g.to {
			return math.NaN()
		}
	}
	seconds := c.at(to) - c.at(from)
	rate := (to - from) / seconds
	if !(seconds > 0) || math.IsInf(rate, 1) {
		return math.NaN()
	}
	return rate
}

// band is the rate over one window of data: over the repetitions the median,
// the lowest and the highest. NaN where there is none.
type band struct {
	from, to         float64 // MB
	median, min, max float64 // messages per second
}

func (b band) known() bool { return !math.IsNaN(b.median) }

// extent returns how many MB the longest of the curves holds.
func extent(curves []curve, payloadBytes int) float64 {
	var n float64
	for _, c := range curves {
		n = max(n, c.messages())
	}
	return n * float64(payloadBytes) / megabyte
}

// bands cuts the curves of one system's repetitions into windows of xMax/100
// MB, or a multiple of that where the points are too few, and returns the
// rates in each.
func bands(curves []curve, payloadBytes int, xMax float64) []band {
	total := extent(curves, payloadBytes)
	if total == 0 || xMax == 0 {
		return nil
	}
	perMB := megabyte / float64(payloadBytes) // messages
	width := windowMB(curves, payloadBytes, xMax)
	n := int(math.Round(total / width)) // a rest below half a window joins the last one
	n = max(n, 1)
	out := make([]band, n)
	for i := range out {
		b := band{from: float64(i) * width, to: float64(i+1) * width}
		if i == n-1 {
			b.to = total
		}
		var rates []float64
		for _, c := range curves {
			// A repetition that ended within this window counts with what it
			// has of it, if that is at least half.
			to := min(b.to*perMB, c.messages())
			if to-b.from*perMB < (b.to-b.from)*perMB/2 {
				continue
			}
			if r := c.rate(b.from*perMB, to); !math.IsNaN(r) {
				rates = append(rates, r)
			}
		}
		slices.Sort(rates)
		b.median, b.min, b.max = median(rates), math.NaN(), math.NaN()
		if len(rates) > 0 {
			b.min, b.max = rates[0], rates[len(rates)-1]
		}
		out[i] = b
	}
	return out
}

func windowMB(curves []curve, payloadBytes int, xMax float64) float64 {
	base := xMax / windows
	width := base
	for _, c := range curves {
		mb := c.messages() * float64(payloadBytes) / megabyte
		steps := float64(len(c.steps) - 1)
		if steps > 0 {
			width = max(width, base*math.Ceil(stepsPerWindow*mb/steps/base))
		}
	}
	return width
}
