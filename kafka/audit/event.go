package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/message"
)

// DefaultTopic is the topic of monitoring events.
const DefaultTopic = "audit"

// Bounds of a fixed window of time: its length is of whole milliseconds.
const (
	DefaultWindow = 10 * time.Second
	MinWindow     = 100 * time.Millisecond
	MaxWindow     = 24 * time.Hour
)

// MaxEventBytes is the largest monitoring event that is read, and made (inclusive):
// what fits a message with the settings of Kafka 0.7.
const MaxEventBytes = 1_000_000

// CheckWindow says why there can be no windows of a length, or nil.
func CheckWindow(length time.Duration) error {
	if length < MinWindow || length > MaxWindow || length%time.Millisecond != 0 {
		return fmt.Errorf("audit: a window of %v: give %v up to %v, in whole milliseconds", length, MinWindow, MaxWindow)
	}
	return nil
}

// windowStart returns when the window of a length begins that a time is in, both in
// milliseconds since 1970. Windows are fixed: they begin at multiples of their length.
func windowStart(milli, length int64) int64 { return milli - milli%length }

// Event is a monitoring event (NetDB'11 §4): how many messages a producer has
// published to a topic within a fixed window of time, and which ones.
//
// What it is about is told by producer, topic, start of the window and part. Of
// several that are about the same the one with the highest revision counts, so an
// event that is sent or consumed twice changes nothing, and a window that closes late
// has its event replaced by the next revision.
type Event struct {
	Producer envelope.ProducerID
	Server   string
	Topic    string
	Window   time.Time // its start, by the times in the messages' envelopes
	Length   time.Duration
	// Part is 0, but for a window of which more was to be told than one event holds.
	Part     int
	Revision int // from 1
	// Made are the sequence numbers of the messages that were published. InDoubt are
	// those of messages whose publishing has failed in a way that does not tell
	// whether they have arrived; they are none of Made.
	Made, InDoubt Set
	// NotSent is how many messages of Made, in all windows so far, the producer
	// itself knows not to have arrived, or not for certain; all topics together.
	NotSent int64
}

// eventJSON is how an event is written. The first field says what it is.
type eventJSON struct {
	Version  int                 `json:"kafka_audit"`
	Producer envelope.ProducerID `json:"producer"`
	Server   string              `json:"server"`
	Topic    string              `json:"topic"`
	Window   time.Time           `json:"window"`
	LengthMs int64               `json:"length_ms"`
	Part     int                 `json:"part,omitempty"`
	Revision int                 `json:"revision"`
	Count    uint64              `json:"count"`
	Made     *Set                `json:"made"`
	InDoubt  *Set                `json:"in_doubt,omitempty"`
	NotSent  int64               `json:"not_sent,omitempty"`
}

const eventVersion = 1

// Append appends the payload of the event to dst: one JSON object, for people to read
// with "kafka consume" as well.
func (e *Event) Append(dst []byte) ([]byte, error) {
	j := eventJSON{
		Version: eventVersion, Producer: e.Producer, Server: e.Server, Topic: e.Topic, Window: e.Window.UTC(), LengthMs: e.Length.Milliseconds(),
		Part: e.Part, Revision: e.Revision, Count: e.Made.Count(), Made: &e.Made, NotSent: e.NotSent,
	}
	if !e.InDoubt.Empty() {
		j.InDoubt = &e.InDoubt
	}
	b, err := json.Marshal(j)
	if err != nil {
		return dst, fmt.Errorf("audit: event of topic %s, window %v: %w", e.Topic, e.Window, err)
	}
	return append(dst, b...), nil
}

// ParseEvent reads the payload of an event. What it is given may be anything: its
// memory is bounded by the size of the payload, and that by [MaxEventBytes].
func ParseEvent(payload []byte) (*Event, error) {
	if len(payload) > MaxEventBytes {
		return nil, fmt.Errorf("audit event of %d bytes: at most %d are read", len(payload), MaxEventBytes)
	}
	var j eventJSON
	dec := json.NewDecoder(bytes.NewReader(payload))
	if err := dec.Decode(&j); err != nil {
		return nil, fmt.Errorf("audit event of %d bytes: %w", len(payload), shortError{err})
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("audit event of %d bytes: there is more behind it", len(payload))
	}
	if j.Version != eventVersion {
		return nil, fmt.Errorf("audit event of version %d: %d is known", j.Version, eventVersion)
	}
	// Multiplied below, so checked before.
	if j.LengthMs < MinWindow.Milliseconds() || j.LengthMs > MaxWindow.Milliseconds() {
		return nil, fmt.Errorf("audit event with a window of %d ms: %v up to %v is legal", j.LengthMs, MinWindow, MaxWindow)
	}
	e := &Event{
		Producer: j.Producer, Server: j.Server, Topic: j.Topic, Window: j.Window.UTC(), Length: time.Duration(j.LengthMs) * time.Millisecond,
		Part: j.Part, Revision: j.Revision, NotSent: j.NotSent,
	}
	if j.Made != nil {
		e.Made = *j.Made
	}
	if j.InDoubt != nil {
		e.InDoubt = *j.InDoubt
	}
	if e.Made.Count() != j.Count {
		return nil, fmt.Errorf("audit event that counts %d messages and names %d", j.Count, e.Made.Count())
	}
	return e, e.check()
}

// check says why an event makes no sense, or nil.
func (e *Event) check() error {
	start := e.Window.UnixMilli()
	if err := errors.Join(message.CheckTopic(e.Topic), envelope.CheckServer(e.Server)); err != nil {
		return fmt.Errorf("audit event: %w", err)
	}
	switch {
	case e.Producer == envelope.ProducerID{}:
		return errors.New("audit event without a producer id")
	case start < 0 || start > envelope.MaxTime.UnixMilli() || start%e.Length.Milliseconds() != 0 || !e.Window.Equal(time.UnixMilli(start)):
		return fmt.Errorf("audit event with a window at %v: windows of %v begin at its multiples since 1970", e.Window, e.Length)
	case e.Part < 0 || e.Revision < 1 || e.NotSent < 0:
		return fmt.Errorf("audit event with part %d, revision %d, %d not sent: none can be", e.Part, e.Revision, e.NotSent)
	case e.Made.Common(&e.InDoubt) > 0:
		return errors.New("audit event with messages that are both published and in doubt")
	}
	return nil
}

// shortError keeps what an error quotes of a payload short.
type shortError struct{ error }

func (e shortError) Error() string {
	if text := e.error.Error(); len(text) > maxErrorText {
		return text[:maxErrorText] + "…"
	} else {
		return text
	}
}

func (e shortError) Unwrap() error { return e.error }

const maxErrorText = 300
