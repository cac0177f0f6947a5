package plots

import (
	"math"

	"kafkalab/results/resultfile"
)

const (
	// minute is a piece of an attempt that was measured once and for long.
	minute = 60.0 // seconds
	// farApart is the time between two points from which on they do not show
	// minutes.
	farApart = minute / 2
)

// inMinute makes of the rate in a minute the quantities that follow from it and
// from what is the same in every minute.
var inMinute = map[Quantity]func(a resultfile.Attempt, messagesPerSecond float64) (v float64, ok bool){
	MessageRate: func(_ resultfile.Attempt, rate float64) (float64, bool) { return rate, true },
	DataRate: func(a resultfile.Attempt, rate float64) (float64, bool) {
		return rate * float64(a.PayloadBytes) / float64(a.Messages), a.PayloadBytes > 0 && a.Messages > 0
	},
	DailyMessages: func(_ resultfile.Attempt, rate float64) (float64, bool) { return rate * 86_400, true },
	// As of a whole attempt, what is made up for later is not more than the plan.
	RateAchieved: func(a resultfile.Attempt, rate float64) (float64, bool) {
		wanted := a.Measures["rate_wanted"]
		return min(rate/wanted, 1), wanted > 0
	},
}

// HasMinutes says whether the quantity is known of each minute of an attempt.
func (q Quantity) HasMinutes() bool { return inMinute[q] != nil }

// Minutes returns a quantity of each minute of the one attempt that a run was to
// make of a system, but for the first and the last, which hold its beginning and
// its end. There are none where the run has repetitions: how its minutes differ
// says nothing of how runs do.
func Minutes(r *resultfile.Result, scenario, system string, q Quantity) []float64 {
	s, y, found := find(r, scenario, system)
	of := inMinute[q]
	if !found || of == nil || r.Run.Repeat != 1 {
		return nil
	}
	as := validAttempts(r, s, y)
	if len(as) != 1 {
		return nil
	}
	var values []float64
	for _, rate := range minuteRates(r.Points(as[0].ID), s.Work) {
		v, ok := of(as[0], rate)
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		values = append(values, v)
	}
	return values
}

// minuteRates are the messages a second in each minute, of the count that makes
// the headline. A minute lasts from the first point at or after its beginning to
// the first one at or after its end, so that each rate is of two counts, with
// nothing assumed of what lies between points. Points that are too far apart
// tell of none.
func minuteRates(points []resultfile.Point, work resultfile.Work) []float64 {
	if len(points) == 0 {
		return nil
	}
	count := func(p resultfile.Point) float64 {
		if work == resultfile.Consume {
			return float64(p.Messages)
		}
		return float64(p.Arrived)
	}
	last := points[len(points)-1].Seconds - minute // ends here, what is counted
	var rates []float64
	var from *resultfile.Point
	mark := minute
	for i, p := range points {
		if i > 0 && p.Seconds-points[i-1].Seconds > farApart {
			return nil
		}
		if p.Seconds < mark || mark > last {
			continue
		}
		if from != nil {
			rates = append(rates, (count(p)-count(*from))/(p.Seconds-from.Seconds))
		}
		from, mark = &points[i], mark+minute
	}
	return rates
}
