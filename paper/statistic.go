package paper

import (
	"cmp"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// asked is how many messages a run asked for in an attempt of the systems of a
// check: the fewest, where they differ.
func asked(k Check, r *resultfile.Result) int64 {
	least := int64(-1)
	for _, s := range r.Run.Scenarios {
		if s.Name != k.Scenario {
			continue
		}
		for _, y := range s.Systems {
			for _, id := range k.measured() {
				if n := cmp.Or(y.Messages, r.Run.Messages); y.ID == id && (least < 0 || n < least) {
					least = n
				}
			}
		}
	}
	return max(least, 0)
}

// find computes what a run says of a check; false if it says nothing.
func find(k Check, r *resultfile.Result) (Finding, bool) {
	f := Finding{Run: r}
	ok := false
	switch k.Statistic {
	case MedianRatio:
		ok = f.takeRatio(plots.Values(r, k.Scenario, k.System, k.Quantity), plots.Values(r, k.Scenario, k.Against, k.Quantity))
	case Greatest:
		var of [][]float64
		for _, y := range k.Systems {
			of = append(of, plots.Values(r, k.Scenario, y, k.Quantity))
		}
		ok = f.takeGreatest(of)
	default:
		ok = f.takeMedian(plots.Values(r, k.Scenario, k.System, k.Quantity))
		if ok && k.IntervalOver == OverMinutes {
			f.takeMinutes(plots.Minutes(r, k.Scenario, k.System, k.Quantity))
		}
	}
	if !ok {
		return f, false
	}
	if k.Quantity == plots.MessageRate && k.Statistic == Median {
		f.OfLimit = plots.OfLimit(r, k.Scenario, k.System)
	}
	f.Verdict, f.Why = k.decide(f)
	return f, true
}

func (f *Finding) takeMedian(values []float64) bool {
	s := plots.Summarise(values)
	f.Repetitions = s.N
	f.take(s.Median, s.Min, s.Max, s.Low, s.High)
	return s.N > 0
}

// takeMinutes takes the interval of the median of a run's minutes, if they are
// enough for one. The number stays that of the whole run.
func (f *Finding) takeMinutes(values []float64) {
	s := plots.Summarise(values)
	if s.Low == nil {
		return
	}
	f.Low, f.High, f.Interval = *s.Low, *s.High, true
	f.Minutes, f.MinuteMedian = s.N, s.Median
}

func (f *Finding) takeRatio(values, others []float64) bool {
	ratio := plots.RatioOf(values, others)
	if ratio == nil {
		return false
	}
	f.Repetitions = min(len(values), len(others))
	f.take(ratio.Median, ratio.Min, ratio.Max, ratio.Low, ratio.High)
	return true
}

// takeGreatest takes the greatest of the medians, of the lower and of the upper
// ends: no system has its interval above that. One without a number leaves
// nothing to be said, for it could be the greatest.
func (f *Finding) takeGreatest(of [][]float64) bool {
	for i, values := range of {
		var g Finding
		if !g.takeMedian(values) {
			return false
		}
		if i == 0 {
			f.Repetitions, f.Number, f.Low, f.High, f.Interval = g.Repetitions, g.Number, g.Low, g.High, g.Interval
			continue
		}
		f.Repetitions = min(f.Repetitions, g.Repetitions)
		f.Number, f.Low, f.High = max(f.Number, g.Number), max(f.Low, g.Low), max(f.High, g.High)
		f.Interval = f.Interval && g.Interval
	}
	return len(of) > 0
}

func (f *Finding) take(number, lowest, highest float64, low, high *float64) {
	f.Number, f.Low, f.High = number, lowest, highest
	if low != nil {
		f.Low, f.High, f.Interval = *low, *high, true
	}
}
