package audit

import (
	"fmt"
	"sync"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/producer"
)

// topicCount is what a producer has made of one topic.
type topicCount struct {
	used    uint64 // sequence numbers up to it have been given out
	free    Set    // of them, those whose messages were refused: they are given out again
	windows map[windowKey]*window
	current *window // the one that the last message is in
	cleared int64   // the latest start of a window that is no longer kept, -1: none
	parts   int     // that were begun
}

// windowKey names a window of a topic: when it begins, in milliseconds since 1970,
// and its part.
type windowKey struct {
	start int64
	part  int
}

// window counts what was made within one window.
type window struct {
	windowKey
	made, inDoubt Set
	sending       int // Sends under way with a time in it
	revision      int // of the event that was made last
	dirty         bool
}

// due says whether there is an event to be published at a time.
func (w *window) due(now, length int64) bool {
	return w.dirty && w.start+length <= now && !w.empty()
}

// empty says whether there is nothing to be told of it, as all that was sent in it was
// refused.
func (w *window) empty() bool { return w.made.Empty() && w.inDoubt.Empty() }

// maxEventRanges is how many ranges an event may have, so that it stays below
// MaxEventBytes whatever the numbers are. A window with more becomes two parts.
const maxEventRanges = 20_000

// at returns the window for a time, and makes it if need be.
func (p *Producer) at(t *topicCount, milli int64) (*window, error) {
	start := windowStart(milli, p.cfg.Window.Milliseconds())
	full := false
	if w := t.current; w != nil && w.start == start {
		if full = w.made.Ranges()+w.inDoubt.Ranges() >= maxEventRanges; !full {
			return w, nil
		}
	}
	key := windowKey{start: start}
	if w := t.windows[key]; w != nil && !full && w.made.Ranges()+w.inDoubt.Ranges() < maxEventRanges {
		t.current = w // the clock was put back
		return w, nil
	}
	if p.windows >= maxWindows {
		return nil, fmt.Errorf("%d windows are waiting: %w", p.windows, ErrUnpublished)
	}
	if t.windows[key] != nil || start <= t.cleared {
		t.parts++
		key.part = t.parts
	}
	w := &window{windowKey: key}
	t.windows[key], t.current = w, w
	p.windows++
	return w, nil
}

// take gives out n sequence numbers, refused ones first.
func (t *topicCount) take(n uint64, to []Range) []Range {
	for n > 0 && !t.free.Empty() {
		r := t.free.first()
		r.Last = min(r.Last, r.First+n-1)
		t.free = *t.free.Without(&Set{blocks: [][]Range{{r}}, ranges: 1, count: r.Size()})
		to = append(to, r)
		n -= r.Size()
	}
	if n > 0 {
		to = append(to, Range{t.used + 1, t.used + n})
		t.used += n
	}
	return to
}

// sending is one Send.
type sending struct {
	topic    *topicCount
	window   *window
	milli    int64
	ranges   []Range // its sequence numbers, in the order of its bodies
	buf      []byte
	ends     []int // of the payloads in buf
	payloads [][]byte
}

// sendings keeps those that are done, for their memory.
var sendings = sync.Pool{New: func() any { return new(sending) }}

// maxKeptBuffer is the most memory that one is kept with.
const maxKeptBuffer = 1 << 20

func (s *sending) release() {
	if cap(s.buf) > maxKeptBuffer {
		s.buf = nil
	}
	clear(s.payloads)
	s.topic, s.window = nil, nil
	sendings.Put(s)
}

// begin gives a Send its time and its sequence numbers.
func (p *Producer) begin(s *sending, topic string, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return producer.ErrClosed
	}
	t := p.topics[topic]
	if t == nil {
		t = &topicCount{windows: map[windowKey]*window{}, cleared: -1}
		p.topics[topic] = t
	}
	// The time is read under the lock, so that sequence numbers rise with it.
	s.milli = p.cfg.Clock.Now().UnixMilli()
	w, err := p.at(t, s.milli)
	if err != nil {
		return err
	}
	s.topic, s.window = t, w
	s.ranges = t.take(uint64(n), s.ranges[:0])
	w.sending++
	p.sending++
	return nil
}

// encode puts the bodies into envelopes, one behind the other.
func (s *sending) encode(encode func([]byte, envelope.Header, []byte) ([]byte, error), h envelope.Header, bodies [][]byte) (err error) {
	s.buf, s.ends, s.payloads = s.buf[:0], s.ends[:0], s.payloads[:0]
	for _, r := range s.ranges {
		for h.Sequence = r.First; h.Sequence <= r.Last; h.Sequence++ {
			if s.buf, err = encode(s.buf, h, bodies[len(s.ends)]); err != nil {
				return err
			}
			s.ends = append(s.ends, len(s.buf))
		}
	}
	start := 0
	for _, end := range s.ends { // only now, as the buffer has moved while it grew
		s.payloads = append(s.payloads, s.buf[start:end:end])
		start = end
	}
	return nil
}

// end counts what has become of a Send: so many messages were taken, the others not,
// or that is in doubt.
func (p *Producer) end(s *sending, taken int, inDoubt bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := s.window
	for _, r := range s.ranges {
		made := min(r.Size(), uint64(taken))
		taken -= int(made)
		if made > 0 {
			p.stats.Made += int64(made)
			w.made.Add(Range{r.First, r.First + made - 1})
		}
		if made == r.Size() {
			continue
		}
		rest := Range{r.First + made, r.Last}
		if inDoubt {
			p.stats.InDoubt += int64(rest.Size())
			w.inDoubt.Add(rest)
		} else {
			s.topic.free.Add(rest)
		}
	}
	w.dirty = true
	w.sending--
	if p.sending--; p.closing && p.sending == 0 {
		close(p.calm)
	}
}

// due returns the events that are to be published at a time, all if the producer is
// being closed, and forgets the windows of which nothing more is to come.
func (p *Producer) due(all bool) []*Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	length := p.cfg.Window.Milliseconds()
	now := p.cfg.Clock.Now().UnixMilli()
	events := p.waiting
	p.waiting = nil
	for name, t := range p.topics {
		for key, w := range t.windows {
			if w.due(now, length) || all && w.due(w.start+length, length) {
				w.revision++
				w.dirty = false
				events = append(events, &Event{
					Producer: p.id, Server: p.cfg.Server, Topic: name, Window: time.UnixMilli(w.start).UTC(), Length: p.cfg.Window,
					Part: w.part, Revision: w.revision, Made: *w.made.Clone(), InDoubt: *w.inDoubt.Clone(), NotSent: p.stats.NotSent,
				})
			} else if (!w.dirty || w.empty()) && w.sending == 0 && w.start+2*length <= now && w != t.current {
				delete(t.windows, key)
				p.windows--
				t.cleared = max(t.cleared, w.start)
			}
		}
	}
	return events
}
