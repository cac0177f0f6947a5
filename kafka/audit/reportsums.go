package audit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// add adds a row to the sums of its tier.
func (t *TierSums) add(r *Row) {
	t.Windows++
	switch r.Verdict {
	case Complete:
		t.Complete++
	case Open:
		t.Open++
	}
	t.Made += r.Made
	t.Counted += r.Counted
	t.Missing += r.Missing
	t.Doubled += r.Doubled
	t.InDoubt += r.InDoubt
	if r.Verdict != Open {
		t.Unreported += r.Unreported
	}
}

// Same reports whether two sums tell the same, but for how far the tier was caught up.
func (t TierSums) Same(o TierSums) bool {
	notes := slices.Equal(t.Notes, o.Notes)
	t.CaughtUp, o.CaughtUp, t.Notes, o.Notes = time.Time{}, time.Time{}, nil, nil
	return notes && reflect.DeepEqual(t, o)
}

// sums begins the sums of a tier: all but the rows. Clean is false where something
// stands in the way of a verdict.
func (c *comparison) sums(i int) TierSums {
	t := c.tiers[i]
	sums := TierSums{Tier: t.Tier, CaughtUp: t.CaughtUp, Clean: true, Notes: []string{}}
	note := func(format string, args ...any) { sums.Notes = append(sums.Notes, fmt.Sprintf(format, args...)) }
	if t.CaughtUp.IsZero() {
		note("it was never seen to be caught up: all its windows are open")
	}
	for _, topic := range slices.Sorted(maps.Keys(t.Topics)) {
		of := t.Topics[topic]
		sums.NotEnvelope += of.NotEnvelope
		sums.Malformed += of.Malformed
		sums.Late += of.Late
		sums.Future += of.Future
		sums.Uncounted += of.Uncounted
		if of.NotEnvelope+of.Malformed+of.Future+of.Uncounted > 0 {
			note("topic %s: %d messages are in no envelope, %d in a malformed one, %d from the future, %d beyond a limit; the last: %s",
				topic, of.NotEnvelope, of.Malformed, of.Future, of.Uncounted, of.LastProblem)
		}
		if of.Late > 0 {
			note("topic %s: %d messages came when their windows were no longer kept", topic, of.Late)
		}
	}
	e := t.Events
	sums.Uncounted += e.Uncounted
	sums.Future += e.Future
	if e.Malformed+e.Future+e.Uncounted > 0 {
		note("monitoring events: %d are malformed, %d from the future, %d beyond a limit; the last: %s", e.Malformed, e.Future, e.Uncounted, e.LastProblem)
	}
	if e.Late > 0 {
		note("monitoring events: %d came when their windows were no longer kept", e.Late)
	}
	for _, p := range t.Positions {
		key := partitionKey{p.Topic, p.Broker, p.Partition}
		if p.Problem != "" {
			sums.Clean = false
			note("partition %v stands still at offset %d: %s", key, p.Next, p.Problem)
		}
		if p.Skipped+p.Gone > 0 {
			sums.Clean = false
			note("partition %v: %d bytes were deleted before they were counted", key, p.Skipped+p.Gone)
		}
		if p.BeganAnew > 0 {
			sums.Clean = false
			note("partition %v: its log began anew %d times", key, p.BeganAnew)
		}
	}
	for _, o := range t.Older {
		sums.Windows += o.Windows
		sums.Made += o.Made
		sums.Counted += o.Counted
		sums.Missing += o.Missing
		sums.Doubled += o.Doubled
		sums.Unreported += o.Unreported
	}
	if len(t.Older) > 0 {
		note("windows before %v are kept as sums", t.Horizon.Format(time.RFC3339))
	}
	if sums.NotSent = c.reportedNotSent(t); sums.NotSent > 0 {
		note("producers report %d messages themselves that did not arrive, or not for certain", sums.NotSent)
	}
	return sums
}

// reportedNotSent adds up what the producers say of the topics of a tier. Each says it
// of all its topics together, and of all windows so far.
func (c *comparison) reportedNotSent(t tier) (n int64) {
	most := map[streamKey]int64{}
	for key, j := range c.joined {
		if !t.watches(key.topic) {
			continue
		}
		key.topic = ""
		for _, e := range j.events {
			most[key] = max(most[key], e.notSent)
		}
	}
	for _, m := range most {
		n += m
	}
	return n
}
