package plots

import (
	"math"
	"slices"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"

	"kafkalab/results/resultfile"
)

// secondsAt is the latency that a percentile of the messages, from 0 to 100,
// does not exceed.
func secondsAt(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtPercentile(percentile)) / 1e9
}

// latenciesOf returns the histograms of the valid attempts of a system: from the
// planned send time, and those from the real one that were recorded.
func latenciesOf(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) (planned, sent []*hdrhistogram.Histogram) {
	for _, a := range validAttempts(r, s, y) {
		l := r.Latency(a.ID)
		if l == nil {
			continue
		}
		if l.Planned != nil && l.Planned.TotalCount() > 0 {
			planned = append(planned, l.Planned)
		}
		if l.Sent != nil && l.Sent.TotalCount() > 0 {
			sent = append(sent, l.Sent)
		}
	}
	return planned, sent
}

// tail is the place of a percentile on HDR's usual axis: 0 at 0 %, 1 at 90 %, 2
// at 99 %, and so on, so that every further nine takes as much room.
func tail(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

// tailPercentile is the reverse of tail.
func tailPercentile(x float64) float64 { return 100 * (1 - math.Pow(10, -x)) }

// beyond is how many messages must be slower than a percentile for it to say
// anything: with fewer it is the latency of one message or another.
const beyond = 10

// messagesFor is how many messages a percentile needs: p90 100, p99 1,000, p99.9
// 10,000. The median and the largest say what they are of any number.
func messagesFor(percentile float64) int64 {
	if percentile <= 50 || percentile >= 100 {
		return 1
	}
	return int64(math.Round(beyond / (1 - percentile/100)))
}

// percentilesNote says which percentiles stand.
const percentilesNote = "A percentile stands where 10 messages and more are slower: p90 from 100 messages on, p99 from 1,000, p99.9 from 10,000."

// tailEnd is the last place that so many measurements say something of, which is
// at least the median.
func tailEnd(count int64) float64 { return max(tail(50), math.Log10(float64(count)/beyond)) }

// tailPoints are the latencies at places of the axis up to that which the
// histograms' counts allow: over the repetitions the median, the lowest and the
// highest.
func tailPoints(hs []*hdrhistogram.Histogram) []point {
	if len(hs) == 0 {
		return nil
	}
	end := tailEnd(hs[0].TotalCount())
	for _, h := range hs {
		end = min(end, tailEnd(h.TotalCount()))
	}
	const steps = 24 // for each nine
	var out []point
	for i := 1; ; i++ { // the fastest message of all says little
		x := min(float64(i)/steps, end)
		var values []float64
		for _, h := range hs {
			values = append(values, max(secondsAt(h, tailPercentile(x)), float64(resultfile.LatencyLeast)/1e9))
		}
		slices.Sort(values)
		out = append(out, point{x: x, y: median(values), low: values[0], high: values[len(values)-1]})
		if x == end {
			return out
		}
	}
}

// tailTicks are the percentiles that stand on the axis up to a place.
func tailTicks(end float64) []tick {
	ticks := []tick{{0, "0 %"}, {tail(50), "50 %"}}
	for nines := 1; float64(nines) <= end+1e-9; nines++ {
		ticks = append(ticks, tick{float64(nines), nineLabel(nines)})
	}
	return ticks
}

// nineLabel is "90 %", "99 %", "99.9 %".
func nineLabel(nines int) string {
	if nines == 1 {
		return "90 %"
	}
	return strconv.FormatFloat(100-math.Pow(10, float64(2-nines)), 'f', nines-2, 64) + " %"
}
