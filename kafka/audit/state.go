package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/vfs"
)

// stateKind begins the file of a state.
const stateKind = "kafka-audit-state-1"

// State is what a checker knows of one tier: what it has counted, and up to where.
// Both are in one file that is replaced whole, so what comes again after a crash is
// counted once. It is written as JSON, behind a line with its length and checksum.
type State struct {
	Tier     string    `json:"tier"`
	ID       string    `json:"id"` // tells this state from others, also of the same tier
	WindowMs int64     `json:"window_ms"`
	Saved    time.Time `json:"saved"`
	// CaughtUp is when the tier was last known to hold no message that is not counted
	// here; zero: never yet.
	CaughtUp time.Time `json:"caught_up"`
	Horizon  time.Time `json:"horizon"` // windows that had ended by then are in Older alone

	Positions []Position              `json:"positions,omitempty"` // of what is consumed
	Files     []FileDone              `json:"files,omitempty"`     // of what is read from files, those that are done with
	Topics    map[string]*TopicCounts `json:"topics"`              // those that are watched
	Events    EventCounts             `json:"events"`
	Older     []Older                 `json:"older,omitempty"`
	Producers []ProducerCounts        `json:"producers,omitempty"`
}

// Position is how far a partition has been counted.
type Position struct {
	Topic     string `json:"topic"`
	Broker    int32  `json:"broker"` // its id
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"` // offset behind the last message that is counted
	// Skipped is how many bytes of the log were deleted before they were counted, and
	// BeganAnew how often the log was found to be another one, of lower offsets.
	Skipped   int64 `json:"skipped,omitempty"`
	BeganAnew int64 `json:"began_anew,omitempty"`
	// Gone is how many bytes behind Next were deleted, of a log in which nothing has come
	// since: they are among those skipped as soon as something comes.
	Gone    int64  `json:"gone,omitempty"`
	Problem string `json:"problem,omitempty"` // why it stands still, if it does
}

// FileDone is a file that was counted.
type FileDone struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"` // all in it was made before
}

// Older are the sums of a topic and server over what is older than State.Horizon.
type Older struct {
	Topic  string `json:"topic"`
	Server string `json:"server"`
	OlderCounts
}

// ProducerCounts is what is known of a producer's messages to a topic.
type ProducerCounts struct {
	Topic    string              `json:"topic"`
	Server   string              `json:"server"`
	Producer envelope.ProducerID `json:"producer"`
	Folded   *Set                `json:"folded,omitempty"` // messages that are in Older
	Slots    []SlotCounts        `json:"slots,omitempty"`
	Events   []EventOf           `json:"events,omitempty"`
}

// SlotCounts are messages that came and were made within a window of State.WindowMs.
type SlotCounts struct {
	Start int64  `json:"start"` // milliseconds since 1970
	Seen  int64  `json:"seen"`  // when the last one came
	Came  []*Set `json:"came"`  // those that came, those that came twice, and so on
	More  uint64 `json:"more,omitempty"`
}

// EventOf is what an event has told of the producer it stands below.
type EventOf struct {
	Start    int64 `json:"start"` // milliseconds since 1970
	LengthMs int64 `json:"length_ms"`
	Part     int   `json:"part,omitempty"`
	Revision int   `json:"revision"`
	Seen     int64 `json:"seen"` // when its first revision came that tells of as many messages
	Made     *Set  `json:"made"`
	InDoubt  *Set  `json:"in_doubt,omitempty"`
	NotSent  int64 `json:"not_sent,omitempty"`
}

// fill puts what is counted into a state.
func (t *tally) fill(s *State) {
	s.WindowMs, s.Horizon, s.Topics, s.Events = t.window, time.UnixMilli(t.horizon).UTC(), t.topics, t.events
	s.Older, s.Producers = nil, nil
	for k, o := range t.older {
		s.Older = append(s.Older, Older{k.topic, k.server, *o})
	}
	slices.SortFunc(s.Older, func(a, b Older) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Server, b.Server)) })
	for _, key := range slices.SortedFunc(maps.Keys(t.streams), streamKey.compare) {
		of := t.streams[key]
		p := ProducerCounts{Topic: key.topic, Server: key.server, Producer: key.producer}
		if !of.folded.Empty() {
			p.Folded = &of.folded
		}
		for _, start := range slices.Sorted(maps.Keys(of.slots)) {
			slot := of.slots[start]
			c := SlotCounts{Start: start, Seen: slot.seen, More: slot.more}
			for i := range slot.layers {
				c.Came = append(c.Came, &slot.layers[i])
			}
			p.Slots = append(p.Slots, c)
		}
		for at, e := range of.events {
			c := EventOf{Start: at.start, LengthMs: e.length, Part: at.part, Revision: e.revision, Seen: e.seen, Made: &e.made, NotSent: e.notSent}
			if !e.inDoubt.Empty() {
				c.InDoubt = &e.inDoubt
			}
			p.Events = append(p.Events, c)
		}
		slices.SortFunc(p.Events, func(a, b EventOf) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Part, b.Part)) })
		s.Producers = append(s.Producers, p)
	}
}

// tally returns what is counted in a state, to go on from there. The state must not
// be used beside it.
func (s *State) tally(limits Limits) (*tally, error) {
	if s.WindowMs < MinWindow.Milliseconds() || s.WindowMs > MaxWindow.Milliseconds() {
		return nil, fmt.Errorf("a window of %d ms", s.WindowMs)
	}
	t := newTally(nil, time.Duration(s.WindowMs)*time.Millisecond, limits)
	t.horizon, t.events = s.Horizon.UnixMilli(), s.Events
	if s.Topics != nil {
		t.topics = s.Topics
	}
	for _, o := range s.Older {
		t.older[olderKey{o.Topic, o.Server}] = &o.OlderCounts
	}
	for _, p := range s.Producers {
		of := &stream{slots: map[int64]*slot{}, events: map[windowKey]*eventCount{}}
		if p.Folded != nil {
			of.folded = *p.Folded
			t.ranges += of.folded.Ranges()
		}
		for _, c := range p.Slots {
			slot := &slot{seen: c.Seen, more: c.More}
			for _, layer := range c.Came {
				slot.layers = append(slot.layers, *layer)
				t.ranges += layer.Ranges()
			}
			of.slots[c.Start] = slot
		}
		for _, c := range p.Events {
			e := &eventCount{length: c.LengthMs, revision: c.Revision, seen: c.Seen, made: *c.Made, notSent: c.NotSent}
			if c.InDoubt != nil {
				e.inDoubt = *c.InDoubt
			}
			t.ranges += e.made.Ranges() + e.inDoubt.Ranges()
			of.events[windowKey{c.Start, c.Part}] = e
		}
		t.windows += len(of.slots) + len(of.events)
		t.streams[streamKey{p.Topic, p.Server, p.Producer}] = of
	}
	return t, nil
}

// check says why a state that was read makes no sense, or nil: its checksum fits, so
// it was not written by this program.
func (s *State) check() error {
	if s.Tier == "" || s.Topics == nil {
		return errors.New("it names no tier or topics")
	}
	for topic, counts := range s.Topics {
		if counts == nil {
			return fmt.Errorf("topic %.60q has no counts", topic)
		}
	}
	for _, p := range s.Producers {
		for _, c := range p.Slots {
			if len(c.Came) > maxLayers || slices.Contains(c.Came, nil) || c.More > 0 && len(c.Came) < maxLayers {
				return fmt.Errorf("producer %v: the window at %d", p.Producer, c.Start)
			}
		}
		for _, e := range p.Events {
			if e.Made == nil || e.LengthMs < MinWindow.Milliseconds() || e.LengthMs > MaxWindow.Milliseconds() {
				return fmt.Errorf("producer %v: the event at %d", p.Producer, e.Start)
			}
		}
	}
	return nil
}

// ReadState reads the file of a state, which may be in use.
func ReadState(name string) (*State, error) { return readState(vfs.OS(), name) }

func readState(files vfs.FS, name string) (*State, error) {
	content, err := readFile(files, name, stateKind)
	if err != nil {
		return nil, err
	}
	var s State
	if err := json.Unmarshal(content, &s); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, shortError{err})
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("read %s: it makes no sense: %w", name, err)
	}
	return &s, nil
}

// encode returns the content of the state's file.
func (s *State) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("audit: state of tier %s: %w", s.Tier, err)
	}
	return b, nil
}

// lockState keeps other processes from using a state. The lock is to be closed.
func lockState(files vfs.FS, name string) (io.Closer, error) {
	lock, err := files.Lock(name + lockSuffix)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("audit: state %s: another process uses it", name)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: state: %w", err)
	}
	return lock, nil
}

// openState reads a state that is to be gone on with, or begins one. It must be of the
// same tier, window and topics; topics that are new to it are added.
func openState(files vfs.FS, name, tier string, topics []string, window time.Duration) (*State, error) {
	s, err := readState(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		s = &State{Tier: tier, ID: envelope.NewProducerID().String()[:8], WindowMs: window.Milliseconds(), Topics: map[string]*TopicCounts{}}
		s.Horizon = time.UnixMilli(0).UTC()
	} else if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	switch {
	case s.Tier != tier:
		return nil, fmt.Errorf("audit: state %s is of tier %s, not %s: give another file", name, s.Tier, tier)
	case s.WindowMs != window.Milliseconds():
		return nil, fmt.Errorf("audit: state %s has windows of %v, not %v: give that, or another file", name, time.Duration(s.WindowMs)*time.Millisecond, window)
	}
	for t := range s.Topics {
		if !slices.Contains(topics, t) {
			return nil, fmt.Errorf("audit: state %s counts topic %s too: give that also, or another file", name, t)
		}
	}
	for _, t := range topics {
		if s.Topics[t] == nil {
			s.Topics[t] = &TopicCounts{}
		}
	}
	return s, nil
}

func (p Position) compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Topic, o.Topic), cmp.Compare(p.Broker, o.Broker), cmp.Compare(p.Partition, o.Partition))
}
