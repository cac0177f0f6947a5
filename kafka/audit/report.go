package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultGrace is how long a window is left open after its end.
const DefaultGrace = 30 * time.Second

// MaxReportRows bounds the rows of a report: beyond it an error asks for fewer.
const MaxReportRows = 2_000_000

// Verdict says what has become of the messages of a window in a tier.
type Verdict string

// The verdicts, the worst first: of several producers on a server the worst counts.
const (
	Missing    Verdict = "missing"    // of the messages that were made, some have not come
	Unreported Verdict = "unreported" // messages have come that no event tells of: their producer died before it, and nobody knows what is missing
	Open       Verdict = "open"       // more may come
	Doubled    Verdict = "doubled"    // all have come, and some more than once
	Complete   Verdict = "complete"   // all have come, each once
)

// Row is what has become of the messages of a topic that were made at a server within
// a window, in one tier.
type Row struct {
	Topic    string    `json:"topic"`
	Window   time.Time `json:"window"` // its start
	LengthMs int64     `json:"length_ms"`
	Server   string    `json:"server"`
	Tier     string    `json:"tier"`

	Made    uint64 `json:"made"`    // by the events
	Counted uint64 `json:"counted"` // that have come, each once
	// Missing are those of Made that have not come. Of a producer that died before its
	// event they are those that another tier has, or whose sequence numbers lie between
	// others that have come. Those of windows that are still open are not among them.
	Missing    uint64  `json:"missing"`
	Doubled    uint64  `json:"doubled"`    // that have come, beyond once each
	InDoubt    uint64  `json:"in_doubt"`   // by the events: whether they were published is not known, nor counted as missing
	Unreported uint64  `json:"unreported"` // that have come, and no event tells of them
	Producers  int     `json:"producers"`
	Verdict    Verdict `json:"verdict"`
}

// TierSums are the sums of a tier.
type TierSums struct {
	Tier     string    `json:"tier"`
	CaughtUp time.Time `json:"caught_up"` // zero: never yet
	Windows  int64     `json:"windows"`   // rows, and what is older
	Complete int64     `json:"complete"`  // rows
	Open     int64     `json:"open"`      // rows

	Made       uint64 `json:"made"`
	Counted    uint64 `json:"counted"`
	Missing    uint64 `json:"missing"`
	Doubled    uint64 `json:"doubled"`
	InDoubt    uint64 `json:"in_doubt"`
	Unreported uint64 `json:"unreported"`
	// Of messages that are not counted by windows, see [TopicCounts].
	NotEnvelope int64 `json:"not_enveloped"`
	Malformed   int64 `json:"malformed"`
	Late        int64 `json:"late"`
	Future      int64 `json:"future"`
	Uncounted   int64 `json:"uncounted"`

	NotSent int64    `json:"not_sent"` // messages that producers themselves report not to have arrived
	Notes   []string `json:"notes"`    // what stands in the way of a verdict, and what else is to be known
	Clean   bool     `json:"clean"`
}

// Report compares tiers.
type Report struct {
	At   time.Time `json:"at"`
	Rows []Row     `json:"rows"`
	// Older are the sums over windows that are no longer kept, by tier.
	Older map[string][]Older `json:"older,omitempty"`
	Tiers []TierSums         `json:"tiers"`
	// Clean says that nothing is missing, unreported, or could not be counted. Windows
	// that are open, and doubled messages, do not stand against it.
	Clean bool `json:"clean"`
}

// ReportOptions say how tiers are compared.
type ReportOptions struct {
	At time.Time // the time of the report
	// Grace is how long after its end a window is left open: for messages that are on
	// their way to the tier, and for events. It counts until the tier was known to be
	// caught up. Default: 30 s.
	Grace time.Duration
	Since time.Time // windows that began before it are left out; zero: none are
}

// Compare compares what the states of several tiers have counted. The events of all of
// them are put together, so not each tier needs to have them. A tier has rows for the
// topics that it watches.
func Compare(states []*State, o ReportOptions) (*Report, error) {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Grace < 0 {
		return nil, fmt.Errorf("audit: a grace of %v: give more than 0", o.Grace)
	}
	if len(states) == 0 {
		return nil, errors.New("audit: no state is given")
	}
	c := &comparison{options: o, joined: map[streamKey]*joined{}, rows: map[rowKey]*openRow{}}
	for i, s := range states {
		if slices.ContainsFunc(states[:i], func(before *State) bool { return before.Tier == s.Tier }) {
			return nil, fmt.Errorf("audit: two states are of tier %s: tiers have names of their own", s.Tier)
		}
		t, err := s.tally(Limits{})
		if err != nil {
			return nil, fmt.Errorf("audit: state of tier %s: %w", s.Tier, err)
		}
		c.tiers = append(c.tiers, tier{s, t})
	}
	c.join()
	for key, j := range c.joined {
		c.compare(key, j)
		if len(c.rows) > MaxReportRows {
			return nil, fmt.Errorf("audit: the report would have more than %d rows: leave out what is before a time, or some of the states", MaxReportRows)
		}
	}
	return c.report(), nil
}

// tier is a state with what is counted in it.
type tier struct {
	*State
	tally *tally
}

// watches says whether a tier has rows of a topic.
func (t tier) watches(topic string) bool { return t.tally.topics[topic] != nil }

// comparison is a report that is being made.
type comparison struct {
	options ReportOptions
	tiers   []tier
	joined  map[streamKey]*joined
	rows    map[rowKey]*openRow
}

// openRow is a row that is being made.
type openRow struct {
	Row
	last *joined // the stream that was added last, of which there may be several parts
}

// joined is what all tiers together know of a stream.
type joined struct {
	events    map[windowKey]*eventCount // of each the highest revision
	announced Set
	received  Set // in any tier
	folded    Set // in any tier
}

type rowKey struct {
	topic         string
	start, length int64
	server        string
	tier          int
}

// join puts together what the tiers know.
func (c *comparison) join() {
	for _, t := range c.tiers {
		for key, s := range t.tally.streams {
			j := c.joined[key]
			if j == nil {
				j = &joined{events: map[windowKey]*eventCount{}}
				c.joined[key] = j
			}
			for at, e := range s.events {
				j.events[at] = e.merged(j.events[at])
			}
			j.received.AddAll(s.received())
			j.folded.AddAll(&s.folded)
		}
	}
	for _, j := range c.joined {
		for _, e := range j.events {
			j.announced.AddAll(&e.made)
			j.announced.AddAll(&e.inDoubt)
		}
	}
}

// merged returns what two tiers know of an event; other may be nil.
func (e *eventCount) merged(other *eventCount) *eventCount {
	newer := *e
	if other == nil {
		return &newer
	}
	if other.revision > e.revision {
		newer = *other
	}
	if e.tells() == other.tells() {
		newer.seen = min(e.seen, other.seen)
	}
	return &newer
}

// row returns the row of a window for a stream, and makes it if need be.
func (c *comparison) row(key streamKey, j *joined, start, length int64, tier int) *Row {
	k := rowKey{key.topic, start, length, key.server, tier}
	r := c.rows[k]
	if r == nil {
		r = &openRow{Row: Row{
			Topic: key.topic, Window: time.UnixMilli(start).UTC(), LengthMs: length, Server: key.server, Tier: c.tiers[tier].Tier,
			Verdict: Complete,
		}}
		c.rows[k] = r
	}
	if r.last != j {
		r.last = j
		r.Producers++
	}
	return &r.Row
}

// judge lets a row have the worst verdict.
func (r *Row) judge(v Verdict) {
	order := []Verdict{Missing, Unreported, Open, Doubled, Complete}
	if slices.Index(order, v) < slices.Index(order, r.Verdict) {
		r.Verdict = v
	}
}

// leftOut says whether a tier has no row of a window: it is kept as sums, or before what
// is asked for.
func (c *comparison) leftOut(t tier, start, length int64) bool {
	return start+length <= t.Horizon.UnixMilli() || !c.options.Since.IsZero() && start < c.options.Since.UnixMilli()
}

// open says whether more may come to a window of which something was last heard at a
// time.
func (c *comparison) open(t tier, end, heard int64) bool {
	return t.CaughtUp.IsZero() || t.CaughtUp.UnixMilli() < max(end, heard)+c.options.Grace.Milliseconds()
}

// compare compares the tiers by the messages of one stream.
func (c *comparison) compare(key streamKey, j *joined) {
	for i, t := range c.tiers {
		if !t.watches(key.topic) {
			continue
		}
		s := t.tally.streams[key]
		if s == nil {
			s = &stream{} // nothing has come
		}
		for at, e := range j.events {
			if !c.leftOut(t, at.start, e.length) {
				c.compareEvent(c.row(key, j, at.start, e.length, i), t, s, at.start, e)
			}
		}
		c.compareUnreported(key, j, i, s)
	}
}

// compareEvent compares what an event tells of with what has come.
func (c *comparison) compareEvent(r *Row, t tier, s *stream, start int64, e *eventCount) {
	counted, doubled := s.arrivals(&e.made, start, e.length, t.WindowMs)
	inDoubt, doubledInDoubt := s.arrivals(&e.inDoubt, start, e.length, t.WindowMs)
	r.Made += e.made.Count()
	r.Counted += counted + inDoubt
	r.Doubled += doubled + doubledInDoubt
	r.InDoubt += e.inDoubt.Count()
	switch missing := e.made.Count() - counted; {
	case missing > 0 && c.open(t, start+e.length, e.seen):
		r.judge(Open)
	case missing > 0:
		r.Missing += missing
		r.judge(Missing)
	case doubled+doubledInDoubt > 0:
		r.judge(Doubled)
	}
	if c.open(t, start+e.length, 0) {
		r.judge(Open) // another producer on the server may still tell of the window
	}
}

// compareUnreported looks at messages that no event tells of.
func (c *comparison) compareUnreported(key streamKey, j *joined, i int, s *stream) {
	t := c.tiers[i]
	alone := j.received.Without(&j.announced).Without(&j.folded)
	if alone.Empty() {
		return
	}
	known := j.known()
	for start, slot := range c.unreportedSlots(key, alone, t.WindowMs) {
		if c.leftOut(t, start, t.WindowMs) {
			continue
		}
		r := c.row(key, j, start, t.WindowMs, i)
		came, doubled := s.arrivals(&slot.messages, start, t.WindowMs, t.WindowMs)
		r.Counted += came
		r.Doubled += doubled
		r.Unreported += came
		if c.open(t, start+t.WindowMs, slot.seen) {
			r.judge(Open)
			continue
		}
		r.judge(Unreported)
		if missing := slot.messages.Count() - came + gaps(known, &slot.messages); missing > 0 {
			r.Missing += missing
			r.judge(Missing)
		}
	}
}

// unreportedSlot are messages that no event tells of, and when the last of them came
// to any tier.
type unreportedSlot struct {
	messages Set
	seen     int64
}

// unreportedSlots returns, by windows of a length, what any tier has of some messages.
func (c *comparison) unreportedSlots(key streamKey, of *Set, length int64) map[int64]*unreportedSlot {
	slots := map[int64]*unreportedSlot{}
	for _, t := range c.tiers {
		s := t.tally.streams[key]
		if s == nil {
			continue
		}
		for at, slot := range s.slots {
			if len(slot.layers) == 0 || slot.layers[0].Common(of) == 0 {
				continue
			}
			start := windowStart(at, length)
			if slots[start] == nil {
				slots[start] = &unreportedSlot{}
			}
			u := slots[start]
			u.seen = max(u.seen, slot.seen)
			u.messages.AddAll(slot.layers[0].Without(slot.layers[0].Without(of)))
		}
	}
	return slots
}

// known are all messages that have come to some tier, or that an event tells of.
func (j *joined) known() *Set {
	known := j.received.Clone()
	known.AddAll(&j.announced)
	known.AddAll(&j.folded)
	return known
}

// gaps returns how many sequence numbers right before some messages are of messages
// that are not known. Numbers are given out without a gap, so they were made, and are
// lost. What comes before all that is known of the producer is none of it.
func gaps(known, of *Set) (n uint64) {
	for r := range of.All() {
		block, at := known.find(r.First) // the range that r is in
		within := known.blocks[block][at]
		if within.First < r.First {
			continue // what comes before it is known
		}
		switch {
		case at > 0:
			n += within.First - known.blocks[block][at-1].Last - 1
		case block > 0:
			before := known.blocks[block-1]
			n += within.First - before[len(before)-1].Last - 1
		}
	}
	return n
}

// report puts the rows in order and sums them up.
func (c *comparison) report() *Report {
	r := &Report{At: c.options.At.UTC(), Clean: true, Rows: make([]Row, 0, len(c.rows))}
	tierOf := map[string]int{}
	for i, t := range c.tiers {
		tierOf[t.Tier] = i
		r.Tiers = append(r.Tiers, c.sums(i))
		if len(t.Older) > 0 {
			if r.Older == nil {
				r.Older = map[string][]Older{}
			}
			r.Older[t.Tier] = t.Older
		}
	}
	for k, row := range c.rows {
		r.Rows = append(r.Rows, row.Row)
		r.Tiers[k.tier].add(&row.Row)
	}
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(a.Window.Compare(b.Window), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Server, b.Server),
			cmp.Compare(a.LengthMs, b.LengthMs), cmp.Compare(tierOf[a.Tier], tierOf[b.Tier]))
	})
	for i := range r.Tiers {
		t := &r.Tiers[i]
		t.Clean = t.Missing+t.Unreported == 0 && t.Future+t.Uncounted == 0 && t.Clean
		r.Clean = r.Clean && t.Clean
	}
	return r
}
