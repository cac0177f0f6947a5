package audit

import "iter"

// announced are the messages of a stream that its events tell of.
func (s *stream) announced() *Set {
	all := &Set{}
	for _, e := range s.events {
		all.AddAll(&e.made)
		all.AddAll(&e.inDoubt)
	}
	return all
}

// received are the messages of a stream that have come.
func (s *stream) received() *Set {
	all := &Set{}
	for _, slot := range s.slots {
		if len(slot.layers) > 0 {
			all.AddAll(&slot.layers[0])
		}
	}
	return all
}

// arrivals counts what has come of some messages that were made within a window: how
// many of them, and how often they came beyond once. A copy that came more often than
// there are layers counts for the whole slot, and is told of where all of it is asked
// for.
func (s *stream) arrivals(of *Set, start, length, slotLength int64) (counted, doubled uint64) {
	for slot := range s.slotsWithin(start, length, slotLength) {
		for i := range slot.layers {
			n := slot.layers[i].Common(of)
			if i == 0 {
				counted += n
			} else {
				doubled += n
			}
			if n == 0 {
				break // a layer holds nothing that the one before does not
			}
		}
		if slot.more > 0 && slot.layers[maxLayers-1].Common(of) > 0 {
			doubled += slot.more
		}
	}
	return counted, doubled
}

// slotsWithin gives the slots of a window, in no order. An event may claim a window of
// very many slots, of which few are there: then it looks at those.
func (s *stream) slotsWithin(start, length, slotLength int64) iter.Seq[*slot] {
	first, end := windowStart(start, slotLength), start+length
	return func(yield func(*slot) bool) {
		if length/slotLength > int64(len(s.slots)) {
			for at, slot := range s.slots {
				if at >= first && at < end && !yield(slot) {
					return
				}
			}
			return
		}
		for at := first; at < end; at += slotLength {
			if slot := s.slots[at]; slot != nil && !yield(slot) {
				return
			}
		}
	}
}

// foldParts is in how many steps all that is kept becomes sums.
const foldParts = 1000

// fold lets windows that have ended Limits.Keep ago become sums. It costs a walk over
// all windows, so it is done once for many of them.
func (t *tally) fold(now int64) {
	keep := t.limits.Keep.Milliseconds()
	horizon := windowStart(max(now-keep, 0), t.window*max(keep/foldParts/t.window, 1))
	if t.horizon+keep-now > t.limits.Ahead.Milliseconds() {
		// The clock was far ahead when the horizon was moved: what is made now would be late
		// for as long, and no window of it judged.
		t.horizon = horizon
		t.changes++
	}
	if horizon <= t.horizon {
		return
	}
	t.horizon = horizon
	for key, s := range t.streams {
		t.foldStream(key, s, horizon)
		if len(s.slots)+len(s.events) == 0 {
			t.ranges -= s.folded.Ranges()
			delete(t.streams, key)
			t.changes++
		}
	}
	t.lastSlot = nil
}

func (t *tally) foldStream(key streamKey, s *stream, horizon int64) {
	var sums OlderCounts
	foldedEvents := &Set{}
	for at, e := range s.events {
		if at.start+e.length > horizon {
			continue
		}
		counted, doubled := s.arrivals(&e.made, at.start, e.length, t.window)
		inDoubt, doubledInDoubt := s.arrivals(&e.inDoubt, at.start, e.length, t.window)
		sums.Windows++
		sums.Made += e.made.Count()
		sums.Counted += counted + inDoubt
		sums.Missing += e.made.Count() - counted
		sums.Doubled += doubled + doubledInDoubt
		foldedEvents.AddAll(&e.made)
		foldedEvents.AddAll(&e.inDoubt)
		t.ranges -= e.ranges()
		t.windows--
		delete(s.events, at)
	}
	t.foldInto(&s.folded, foldedEvents)
	rest := s.announced()
	for at, slot := range s.slots {
		if at+t.window > horizon {
			continue
		}
		if len(slot.layers) > 0 {
			first := &slot.layers[0]
			if first.Common(rest) > 0 {
				continue // an event whose window is longer than a slot is still to be compared with it
			}
			if alone := first.Without(&s.folded); !alone.Empty() {
				counted, doubled := s.arrivals(alone, at, t.window, t.window)
				sums.Windows++
				sums.Counted += counted
				sums.Doubled += doubled
				sums.Unreported += counted
			}
			t.foldInto(&s.folded, first)
		}
		for i := range slot.layers {
			t.ranges -= slot.layers[i].Ranges()
		}
		t.windows--
		delete(s.slots, at)
	}
	if sums != (OlderCounts{}) {
		t.changes++
		t.olderOf(key).add(sums)
	}
}

// olderOf returns the sums of a topic and server. Servers beyond a number have theirs
// together, under no name.
func (t *tally) olderOf(key streamKey) *OlderCounts {
	k := olderKey{key.topic, key.server}
	if t.older[k] == nil && len(t.older) >= t.limits.MaxProducers {
		k.server = ""
	}
	if t.older[k] == nil {
		t.older[k] = &OlderCounts{}
	}
	return t.older[k]
}

func (t *tally) foldInto(to, more *Set) {
	had := to.Ranges()
	to.AddAll(more)
	t.ranges += to.Ranges() - had
}

func (o *OlderCounts) add(n OlderCounts) {
	o.Windows += n.Windows
	o.Made += n.Made
	o.Counted += n.Counted
	o.Missing += n.Missing
	o.Doubled += n.Doubled
	o.Unreported += n.Unreported
}
