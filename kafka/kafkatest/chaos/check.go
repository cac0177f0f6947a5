package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Run is all that is known of one run, for Check.
type Run struct {
	Journals map[string][]Event  // by consumer
	Troubles []Trouble           // in no order
	Offsets  []ObservedOffset    // in the order of their times
	Ends     map[Partition]int64 // where the logs end
	Acked    []uint64            // sequence numbers of the messages that brokers have acknowledged
	Lease    int64               // for how long at most a consumer takes itself for the owner without word from ZooKeeper, in nanoseconds
}

// Trouble is something that was done to a consumer, or to all of them by way of
// ZooKeeper, which makes an end of ownership within its time an unclean one.
type Trouble struct {
	Consumer string // empty: all
	What     string
	From, To int64
	// Early says that the consumer's session was ended at From, before its time-out.
	// No lease covers that: a consumer that hears nothing at the time goes on until
	// its lease is over.
	Early bool
}

// ObservedOffset is what the group had committed of a partition at a time, or
// before.
type ObservedOffset struct {
	Time      int64
	Partition Partition
	Offset    int64
}

// Report is what Check has found.
type Report struct {
	Messages int // in the logs
	Handled  int // more, when some were handled twice
	Twice    int // of the messages
	InHand   int // exempt: those in the application's hand when their partition went to another
	Early    int // exempt: pairs of terms that overlap as a session was ended before its time-out
	Terms    int // of ownership, from the assignment of a partition to its end
	Clean    int // of them, those with a clean end and another term after it
	Problems []string
}

// maxProblems bounds how many problems a report spells out.
const maxProblems = 30

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

func (r Report) String() string {
	return fmt.Sprintf("%d messages handled %d times in %d terms of ownership, %d of them ended cleanly; %d came twice; %d were in hand when their partition went to another; %d times a session was ended too early for the lease",
		r.Messages, r.Handled, r.Terms, r.Clean, r.Twice, r.InHand, r.Early)
}

// Err returns the problems as one error, or nil.
func (r Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return fmt.Errorf("the group broke its promises:\n%s", strings.Join(r.Problems, "\n"))
}

// Check compares a run with what a group promises.
func Check(run Run) Report {
	var r Report
	terms := make(map[Partition][]*term)
	for _, name := range slices.Sorted(maps.Keys(run.Journals)) {
		for _, t := range r.terms(name, run.Journals[name]) {
			terms[t.partition] = append(terms[t.partition], t)
			r.Terms++
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(terms), comparePartitions) {
		ts := terms[p]
		slices.SortFunc(ts, func(a, b *term) int { return cmp.Compare(a.assigned, b.assigned) })
		for _, t := range ts {
			r.order(t)
		}
		r.oneOwner(ts, run)
		r.commits(p, ts, run.Offsets)
		r.cleanEnds(ts, run.Troubles)
	}
	r.coverage(run)
	return r
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.Number, b.Number))
}

// term is the time from a partition's coming to a consumer to its end.
type term struct {
	consumer  string
	partition Partition
	assigned  int64
	released  int64 // 0: it never was
	lost      bool
	handed    []Event
	// late was noted when the partition had been given up already: it was in the
	// application's hand.
	late *Event
}

func (t *term) String() string {
	return fmt.Sprintf("%s with %v from %d on", t.consumer, t.partition, t.assigned)
}

// all returns what was handed out in the term, in order.
func (t *term) all() []Event {
	if t.late == nil {
		return t.handed
	}
	return append(slices.Clip(t.handed), *t.late)
}

// terms divides a consumer's journal into terms.
func (r *Report) terms(consumer string, events []Event) (terms []*term) {
	last := make(map[Partition]*term)
	for _, e := range events {
		t := last[e.Partition]
		switch e.Kind {
		case Assigned:
			if t != nil && t.released == 0 {
				r.problem("%v got it again at %d without having given it up", t, e.Time)
			}
			next := &term{consumer: consumer, partition: e.Partition, assigned: e.Time}
			terms, last[e.Partition] = append(terms, next), next
		case Released:
			if t == nil {
				r.problem("%s gave up %v at %d, which it did not have", consumer, e.Partition, e.Time)
				continue
			}
			if t.released == 0 { // else a Close has interrupted the giving up and done it again
				t.released, t.lost = e.Time, e.Lost
			}
		case Handed:
			r.handed(consumer, last, e)
		}
	}
	return terms
}

// handed puts a message into the term that it was handed out in.
func (r *Report) handed(consumer string, last map[Partition]*term, e Event) {
	t := last[e.Partition]
	switch {
	case t == nil:
		r.problem("%s was handed a message of %v, offset %d, which it never had", consumer, e.Partition, e.Offset)
	case t.released == 0:
		t.handed = append(t.handed, e)
	case t.late == nil:
		t.late = &e
	default:
		r.problem("%v, given up at %d, was handed messages at offsets %d and %d afterwards", t, t.released, t.late.Offset, e.Offset)
	}
}

// order checks that a term's messages follow each other without a gap.
func (r *Report) order(t *term) {
	// The one in hand of the consumer's term before may have been noted in this
	// one, if the partition came back at once; it then comes again.
	if len(t.handed) > 1 && t.handed[1].Offset <= t.handed[0].Offset {
		t.handed = t.handed[1:]
		r.InHand++
	}
	all := t.all()
	for i := 1; i < len(all); i++ {
		if before := all[i-1]; all[i].Offset != before.Next {
			r.problem("%v: after the message at offset %d that ends at %d came the one at %d", t, before.Offset, before.Next, all[i].Offset)
		}
	}
}

// oneOwner checks that of any two terms one was over when the other began, but for
// the message in hand.
func (r *Report) oneOwner(terms []*term, run Run) {
	for i, a := range terms {
		for _, b := range terms[i+1:] {
			x, y := a.all(), b.all()
			if len(x) == 0 || len(y) == 0 {
				continue
			}
			switch {
			case x[len(x)-1].Time < y[0].Time || y[len(y)-1].Time < x[0].Time:
			case over(x, y[0].Time), over(y, x[0].Time):
				r.InHand++
			case over(run.withoutEarly(a), y[0].Time), over(run.withoutEarly(b), x[0].Time):
				r.Early++
			default:
				r.problem("two owners at once of %v: %s was handed offsets %d to %d from %d to %d, %s offsets %d to %d from %d to %d", a.partition,
					a.consumer, x[0].Offset, x[len(x)-1].Offset, x[0].Time, x[len(x)-1].Time,
					b.consumer, y[0].Offset, y[len(y)-1].Offset, y[0].Time, y[len(y)-1].Time)
			}
		}
	}
}

// over says whether all but the last event came before a time.
func over(events []Event, before int64) bool {
	return len(events) < 2 || events[len(events)-2].Time < before
}

// withoutEarly returns what was handed out in a term but for what the consumer was
// handed within its lease after its session had been ended before its time.
func (run Run) withoutEarly(t *term) []Event {
	return slices.DeleteFunc(slices.Clone(t.all()), func(e Event) bool {
		return slices.ContainsFunc(run.Troubles, func(d Trouble) bool {
			return d.Early && d.Consumer == t.consumer && d.From <= e.Time && e.Time <= d.From+run.Lease
		})
	})
}

// commits checks that no committed offset goes back, and that no term begins
// before what had been committed when it began.
func (r *Report) commits(p Partition, terms []*term, observed []ObservedOffset) {
	var of []ObservedOffset
	for _, o := range observed {
		if o.Partition != p {
			continue
		}
		if n := len(of); n > 0 && o.Offset < of[n-1].Offset {
			r.problem("the committed offset of %v went back from %d to %d by %d", p, of[n-1].Offset, o.Offset, o.Time)
		}
		of = append(of, o)
	}
	for _, t := range terms {
		if len(t.handed) == 0 {
			continue
		}
		committed := int64(0)
		for _, o := range of {
			if o.Time < t.assigned {
				committed = max(committed, o.Offset)
			}
		}
		if start := t.handed[0].Offset; start < committed {
			r.problem("%v began at offset %d, though %d had been committed", t, start, committed)
		}
	}
}

// cleanEnds checks that after a clean end no message comes again but the one in
// hand.
func (r *Report) cleanEnds(terms []*term, troubles []Trouble) {
	for i, t := range terms {
		j := i + 1
		for j < len(terms) && len(terms[j].handed) == 0 {
			j++
		}
		if j == len(terms) || t.released == 0 || t.lost || len(t.handed) == 0 {
			continue
		}
		next := terms[j]
		if slices.ContainsFunc(terms[i:j], func(u *term) bool {
			return troubled(u.consumer, min(t.released, next.assigned), max(t.released, next.assigned), troubles)
		}) {
			continue
		}
		r.Clean++
		last := t.all()[len(t.all())-1]
		switch start := next.handed[0].Offset; {
		case start == last.Offset:
			r.InHand++
		case start < last.Offset:
			r.problem("%v ended cleanly at %d, when it had been handed offset %d, and %s was handed messages from %d on", t, t.released, last.Offset, next.consumer, start)
		}
	}
}

// troubled says whether a consumer had trouble at any time between two.
func troubled(consumer string, from, to int64, troubles []Trouble) bool {
	return slices.ContainsFunc(troubles, func(t Trouble) bool {
		return (t.Consumer == "" || t.Consumer == consumer) && t.From <= to && t.To >= from
	})
}

// coverage checks that every message was handled.
func (r *Report) coverage(run Run) {
	handled := make(map[Partition]map[int64]int64) // offset to the next
	sequences := make(map[uint64]bool)
	for _, events := range run.Journals {
		for _, e := range events {
			if e.Kind != Done {
				continue
			}
			r.Handled++
			of := handled[e.Partition]
			if of == nil {
				of = make(map[int64]int64)
				handled[e.Partition] = of
			}
			if _, again := of[e.Offset]; again {
				r.Twice++
			}
			of[e.Offset] = e.Next
			sequences[e.Sequence] = true
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(run.Ends), comparePartitions) {
		r.covered(p, handled[p], run.Ends[p])
	}
	for _, s := range run.Acked {
		if !sequences[s] {
			r.problem("message %d was acknowledged to its producer and never handled", s)
		}
	}
}

// covered walks the log of a partition from message to message.
func (r *Report) covered(p Partition, next map[int64]int64, end int64) {
	offsets := slices.Sorted(maps.Keys(next))
	at := int64(0)
	for _, o := range offsets {
		switch {
		case o > at:
			r.problem("%v: what lies from offset %d to %d was never handled", p, at, o)
		case o < at:
			r.problem("%v: a message was handled at offset %d, where none begins", p, o)
			continue
		}
		r.Messages++
		at = next[o]
	}
	if at < end {
		r.problem("%v: what lies from offset %d to the end of the log, %d, was never handled", p, at, end)
	}
}
