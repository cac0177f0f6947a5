package plots

import (
	"slices"

	"kafkalab/results/resultfile"
)

// Limit is the physical limit that rates are held against: the lowest of those
// that the scenario measured, else the goodput of the link before the run.
type Limit struct {
	Label          string  `json:"label"`
	BytesPerSecond Summary `json:"bytes_per_second"`
}

// limitOf is the physical limit of a scenario: that of its first system.
func limitOf(r *resultfile.Result, s resultfile.Scenario) *Limit {
	for _, y := range s.Systems {
		if y.Role != resultfile.RoleLimit {
			return limitFor(r, s, y)
		}
	}
	return limitAmong(r, s, s.Systems)
}

// limitFor is the physical limit that a system is held against: of those
// measured for its own place in a sweep, for payloads as large as its own and
// with the same done before, where there are such. What goes at a planned rate, or stands still for a
// crash or a rebalance, has none.
func limitFor(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) *Limit {
	if s.Work != resultfile.Produce && s.Work != resultfile.Consume {
		return nil
	}
	limits := s.Systems
	for _, alike := range []func(resultfile.System) bool{
		func(l resultfile.System) bool { return onAxis(l) && l.X == y.X },
		func(l resultfile.System) bool { return payloadOf(s, l.ID) == payloadOf(s, y.ID) },
		func(l resultfile.System) bool { return slices.Equal(l.Before, y.Before) },
	} {
		var close []resultfile.System
		for _, l := range limits {
			if l.Role == resultfile.RoleLimit && alike(l) {
				close = append(close, l)
			}
		}
		if len(close) > 0 {
			limits = close
		}
	}
	return limitAmong(r, s, limits)
}

// limitsDiffer says whether the places of a sweep have limits of their own.
func limitsDiffer(s resultfile.Scenario) bool {
	return slices.ContainsFunc(s.Systems, func(y resultfile.System) bool { return y.Role == resultfile.RoleLimit && onAxis(y) })
}

func limitAmong(r *resultfile.Result, s resultfile.Scenario, systems []resultfile.System) *Limit {
	var lowest *Limit
	for _, y := range systems {
		if y.Role != resultfile.RoleLimit {
			continue
		}
		rates := summaryOf(validAttempts(r, s, y), logRate)
		if rates.N > 0 && (lowest == nil || rates.Median < lowest.BytesPerSecond.Median) {
			lowest = &Limit{Label: y.Label, BytesPerSecond: rates}
		}
	}
	if lowest != nil {
		return lowest
	}
	mbps := linkMbps(r, s)
	if mbps <= 0 {
		return nil
	}
	return &Limit{Label: "the link's TCP goodput before the run", BytesPerSecond: Summarise([]float64{mbps * 1e6 / 8})}
}
