package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"kafkalab/kafka/envelope"
)

// Defaults of [Limits].
const (
	DefaultKeep         = 24 * time.Hour
	DefaultAhead        = time.Hour
	DefaultMaxProducers = 10_000
	DefaultMaxWindows   = 500_000
	DefaultMaxRanges    = 4_000_000
)

// Limits bound what a tally keeps. Zero fields take the defaults.
type Limits struct {
	// Keep is how long ago a message may have been made to be counted by its window.
	// What a window has come to after that is kept as sums alone. Messages that are
	// older are counted as late, and change no verdict: that was made already.
	Keep time.Duration
	// Ahead is how far in the future a message may have been made: how wrong clocks
	// may be. Messages beyond it are not counted by windows, and told of.
	Ahead time.Duration

	// MaxProducers bounds the producers, counted for each topic and server;
	// MaxWindows the windows of them all, those of messages and those of events;
	// MaxRanges the ranges of sequence numbers, at 16 bytes each. What is beyond is
	// not counted by windows: it is told of, and no verdict is clean any more.
	MaxProducers, MaxWindows, MaxRanges int
}

func (l Limits) withDefaults() (Limits, error) {
	l.Keep = cmp.Or(l.Keep, DefaultKeep)
	l.Ahead = cmp.Or(l.Ahead, DefaultAhead)
	l.MaxProducers = cmp.Or(l.MaxProducers, DefaultMaxProducers)
	l.MaxWindows = cmp.Or(l.MaxWindows, DefaultMaxWindows)
	l.MaxRanges = cmp.Or(l.MaxRanges, DefaultMaxRanges)
	if l.Keep < 0 || l.Ahead < 0 || l.MaxProducers < 0 || l.MaxWindows < 0 || l.MaxRanges < 0 {
		return l, errors.New("audit: a limit is negative: give 0 for the default")
	}
	return l, nil
}

// streamKey names what has sequence numbers of its own.
type streamKey struct {
	topic    string
	server   string
	producer envelope.ProducerID
}

func (k streamKey) compare(o streamKey) int {
	return cmp.Or(cmp.Compare(k.topic, o.topic), cmp.Compare(k.server, o.server), slices.Compare(k.producer[:], o.producer[:]))
}

// stream is what is known of the messages of a producer to a topic.
type stream struct {
	slots  map[int64]*slot           // by when they begin, in milliseconds
	events map[windowKey]*eventCount // the last revision of each
	folded Set                       // what was in slots and events that are kept as sums alone
}

// slot is what has come of the messages that were made within a window of the
// tally's own length. Events may have windows of another length: what is in them is
// found by the sequence numbers.
type slot struct {
	// layers[0] are the messages that came, layers[1] those that came a second time,
	// and so on: so it is known which ones came how often. Those that came more
	// often than there may be layers are counted in more.
	layers []Set
	more   uint64
	seen   int64 // when the last one came, by the clock of the tally, in milliseconds
}

// maxLayers bounds the layers of a slot.
const maxLayers = 8

// eventCount is what is kept of an event.
type eventCount struct {
	length        int64 // milliseconds
	revision      int
	made, inDoubt Set
	notSent       int64
	seen          int64 // when the first revision came that tells of as many messages
}

// tally counts the messages and events of one tier. It is for one goroutine at a time.
type tally struct {
	window  int64 // milliseconds
	limits  Limits
	streams map[streamKey]*stream
	topics  map[string]*TopicCounts // those that are watched, and no others
	events  EventCounts
	older   map[olderKey]*OlderCounts
	horizon int64 // windows that end at it or earlier are kept as sums, in milliseconds

	windows, ranges int
	changes         int64 // grows with each change

	// The last message's slot: the next one is most likely of the same.
	lastKey   streamKey
	lastStart int64
	lastSlot  *slot
}

// TopicCounts counts the messages of a topic in a tier.
type TopicCounts struct {
	Messages    int64  `json:"messages"`               // all, but those that a replay brought again
	NotEnvelope int64  `json:"not_enveloped"`          // without an envelope
	Malformed   int64  `json:"malformed"`              // with one that cannot be read
	Late        int64  `json:"late"`                   // made longer ago than Limits.Keep
	Future      int64  `json:"future"`                 // made later than Limits.Ahead from now
	Uncounted   int64  `json:"uncounted"`              // beyond the other Limits
	LastProblem string `json:"last_problem,omitempty"` // of the messages that are not counted by windows
}

// EventCounts counts the monitoring events of a tier.
type EventCounts struct {
	Events      int64  `json:"events"`    // all
	Other       int64  `json:"other"`     // of topics that are not watched
	Repeated    int64  `json:"repeated"`  // that tell nothing new
	Malformed   int64  `json:"malformed"` // that cannot be read, or make no sense
	Late        int64  `json:"late"`
	Future      int64  `json:"future"`
	Uncounted   int64  `json:"uncounted"`
	LastProblem string `json:"last_problem,omitempty"`
}

// olderKey names the sums of what is older than is kept in detail.
type olderKey struct{ topic, server string }

// OlderCounts are the sums over windows that are older than Limits.Keep.
type OlderCounts struct {
	Windows    int64  `json:"windows"` // of producers: those of several add up
	Made       uint64 `json:"made"`
	Counted    uint64 `json:"counted"`
	Missing    uint64 `json:"missing"`
	Doubled    uint64 `json:"doubled"`
	Unreported uint64 `json:"unreported"`
}

func newTally(topics []string, window time.Duration, limits Limits) *tally {
	t := &tally{
		window: window.Milliseconds(), limits: limits, streams: map[streamKey]*stream{}, topics: map[string]*TopicCounts{},
		older: map[olderKey]*OlderCounts{},
	}
	for _, topic := range topics {
		t.topics[topic] = &TopicCounts{}
	}
	return t
}

// message counts a message of a watched topic that came at a time. It returns what it
// has noted of a message that is not counted by windows, for the caller to say which one
// that was; nil otherwise.
func (t *tally) message(topic string, h envelope.Header, now int64) (problem *string) {
	t.changes++
	counts := t.topics[topic]
	counts.Messages++
	start := windowStart(h.Time.UnixMilli(), t.window)
	switch {
	case h.Sequence > MaxSequence:
		counts.Malformed++
		counts.LastProblem = fmt.Sprintf("server %.60q: sequence number %d: at most %d are counted", h.Server, h.Sequence, uint64(MaxSequence))
		return &counts.LastProblem
	case start+t.window <= t.horizon:
		counts.Late++
		return nil
	case start > now+t.limits.Ahead.Milliseconds():
		counts.Future++
		counts.LastProblem = fmt.Sprintf("server %.60q: made at %v, which is more than %v from now: its clock is wrong", h.Server, h.Time, t.limits.Ahead)
		return &counts.LastProblem
	}
	s, err := t.slot(streamKey{topic, h.Server, h.Producer}, start)
	if err != nil {
		counts.Uncounted++
		counts.LastProblem = err.Error()
		return &counts.LastProblem
	}
	s.seen = max(s.seen, now)
	t.add(s, h.Sequence)
	return nil
}

// add counts one arrival of a message.
func (t *tally) add(s *slot, sequence uint64) {
	for i := range s.layers {
		layer := &s.layers[i]
		had := layer.Ranges()
		fresh := layer.Add(Range{sequence, sequence})
		t.ranges += layer.Ranges() - had
		if fresh > 0 {
			return
		}
	}
	if len(s.layers) == maxLayers {
		s.more++
		return
	}
	s.layers = append(s.layers, Set{})
	s.layers[len(s.layers)-1].Add(Range{sequence, sequence})
	t.ranges++
}

// slot returns the slot of a stream that begins at a time, and makes it if need be.
func (t *tally) slot(key streamKey, start int64) (*slot, error) {
	if t.ranges >= t.limits.MaxRanges {
		return nil, fmt.Errorf("%d ranges of sequence numbers are kept, and no more may be", t.ranges)
	}
	if t.lastSlot != nil && t.lastStart == start && t.lastKey == key {
		return t.lastSlot, nil
	}
	stream, err := t.stream(key)
	if err != nil {
		return nil, err
	}
	s := stream.slots[start]
	if s == nil {
		if err := t.newWindow(); err != nil {
			return nil, err
		}
		s = &slot{}
		stream.slots[start] = s
	}
	t.lastKey, t.lastStart, t.lastSlot = key, start, s
	return s, nil
}

func (t *tally) stream(key streamKey) (*stream, error) {
	s := t.streams[key]
	if s == nil {
		if len(t.streams) >= t.limits.MaxProducers {
			return nil, fmt.Errorf("server %.60q: %d producers are kept, and no more may be", key.server, len(t.streams))
		}
		if t.windows >= t.limits.MaxWindows {
			return nil, t.newWindow() // so that no stream is made in vain
		}
		s = &stream{slots: map[int64]*slot{}, events: map[windowKey]*eventCount{}}
		t.streams[key] = s
	}
	return s, nil
}

// newWindow counts a window that is to be kept.
func (t *tally) newWindow() error {
	if t.windows >= t.limits.MaxWindows {
		return fmt.Errorf("%d windows are kept, and no more may be", t.windows)
	}
	t.windows++
	return nil
}

// problem counts a message of a watched topic whose envelope cannot be read, and returns
// what it has noted.
func (t *tally) problem(topic string, err error) *string {
	t.changes++
	counts := t.topics[topic]
	counts.Messages++
	if errors.Is(err, envelope.ErrNotEnvelope) {
		counts.NotEnvelope++
	} else {
		counts.Malformed++
	}
	counts.LastProblem = shortError{err}.Error()
	return &counts.LastProblem
}

// event counts a monitoring event, or the error of what should be one. It returns what it
// has noted of one that is not counted; nil otherwise.
func (t *tally) event(e *Event, err error, now int64) (problem *string) {
	t.changes++
	t.events.Events++
	if err != nil {
		t.events.Malformed++
		t.events.LastProblem = shortError{err}.Error()
		return &t.events.LastProblem
	}
	start, length := e.Window.UnixMilli(), e.Length.Milliseconds()
	switch {
	case t.topics[e.Topic] == nil:
		t.events.Other++
		return nil
	case start+length <= t.horizon:
		t.events.Late++
		return nil
	case start > now+t.limits.Ahead.Milliseconds():
		t.events.Future++
		t.events.LastProblem = fmt.Sprintf("server %.60q: window at %v, which is more than %v from now: its clock is wrong", e.Server, e.Window, t.limits.Ahead)
		return &t.events.LastProblem
	}
	if err := t.keepEvent(e, start, length, now); err != nil {
		t.events.Uncounted++
		t.events.LastProblem = err.Error()
		return &t.events.LastProblem
	}
	return nil
}

// ranges returns how many ranges of sequence numbers an event is kept with.
func (e *eventCount) ranges() int { return e.made.Ranges() + e.inDoubt.Ranges() }

// tells returns of how many messages an event tells. Later revisions tell of all that
// earlier ones did.
func (e *eventCount) tells() uint64 { return e.made.Count() + e.inDoubt.Count() }

func (t *tally) keepEvent(e *Event, start, length, now int64) error {
	stream, key := streamKey{e.Topic, e.Server, e.Producer}, windowKey{start, e.Part}
	var old *eventCount
	if s := t.streams[stream]; s != nil {
		old = s.events[key]
	}
	if old != nil && old.revision >= e.Revision {
		t.events.Repeated++
		return nil
	}
	fresh := &eventCount{length: length, revision: e.Revision, made: e.Made, inDoubt: e.InDoubt, notSent: e.NotSent, seen: now}
	ranges := t.ranges + fresh.ranges()
	if old != nil {
		ranges -= old.ranges()
		if fresh.tells() == old.tells() {
			fresh.seen = old.seen
		}
	}
	if ranges > t.limits.MaxRanges {
		return fmt.Errorf("%d ranges of sequence numbers are kept, and no more may be", t.ranges)
	}
	s, err := t.stream(stream)
	if err != nil {
		return err
	}
	if old == nil {
		if err := t.newWindow(); err != nil {
			return err
		}
	}
	t.ranges = ranges
	s.events[key] = fresh
	return nil
}
