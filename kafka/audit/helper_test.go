package audit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/vfs"
)

// Times of the tests without brokers: windows of ten seconds from noon on.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const length = 10 * time.Second

func at(d time.Duration) time.Time { return noon.Add(d) }

// id returns a producer id that is easy to tell.
func id(n byte) (p envelope.ProducerID) {
	p[0], p[15] = n, 1
	return p
}

func header(server string, producer byte, sequence uint64, made time.Duration) envelope.Header {
	return envelope.Header{Time: at(made), Server: server, Producer: id(producer), Sequence: sequence}
}

// set makes a set of text.
func set(t testing.TB, text string) Set {
	t.Helper()
	var s Set
	if err := s.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return s
}

func event(t testing.TB, server string, producer byte, start time.Duration, revision int, made string) *Event {
	t.Helper()
	return &Event{Producer: id(producer), Server: server, Topic: "clicks", Window: at(start), Length: length, Revision: revision, Made: set(t, made)}
}

// counter is a tier that a test fills by hand.
type counter struct {
	testing.TB
	tally *tally
	now   time.Duration // since noon
}

func newCounter(t testing.TB) *counter {
	t.Helper()
	limits, err := Limits{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &counter{TB: t, tally: newTally([]string{"clicks"}, length, limits), now: time.Second}
}

func (c *counter) come(server string, producer byte, made time.Duration, sequences string) {
	c.Helper()
	s := set(c, sequences)
	for r := range s.All() {
		for n := r.First; n <= r.Last; n++ {
			c.tally.message("clicks", header(server, producer, n, made), at(c.now).UnixMilli())
		}
	}
}

func (c *counter) event(e *Event) { c.tally.event(e, nil, at(c.now).UnixMilli()) }

// state returns what is counted as the state of a tier that is caught up at a time.
func (c *counter) state(tier string, caughtUp time.Duration) *State {
	s := &State{Tier: tier, CaughtUp: at(caughtUp)}
	c.tally.fill(s)
	return s
}

func compare(t testing.TB, states ...*State) *Report {
	t.Helper()
	r, err := Compare(states, ReportOptions{At: at(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantRows compares the rows of a report, written as "tier server start: verdict, numbers
// that are not zero".
func wantRows(t testing.TB, r *Report, want ...string) {
	t.Helper()
	var got []string
	for i := range r.Rows {
		row := &r.Rows[i]
		text := fmt.Sprintf("%s %s %v: %s", row.Tier, row.Server, row.Window.Sub(noon), row.Verdict)
		for _, n := range []struct {
			name string
			n    uint64
		}{{"made", row.Made}, {"counted", row.Counted}, {"missing", row.Missing}, {"doubled", row.Doubled}, {"in doubt", row.InDoubt}, {"unreported", row.Unreported}} {
			if n.n > 0 {
				text += fmt.Sprintf(", %d %s", n.n, n.name)
			}
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", lines(got), lines(want))
	}
}

func lines(l []string) (text string) {
	for _, s := range l {
		text += "  " + s + "\n"
	}
	return text
}

// sink is a Sender that keeps what it is sent.
type sink struct {
	mu       sync.Mutex
	payloads [][]byte
	topics   []string                                       // of the payloads
	fail     func(payloads [][]byte) (taken int, err error) // nil: it takes all
}

func (s *sink) Send(_ context.Context, topic string, _ []byte, payloads ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken, err := len(payloads), error(nil)
	if s.fail != nil {
		taken, err = s.fail(payloads)
	}
	for _, p := range payloads[:taken] {
		s.payloads, s.topics = append(s.payloads, slices.Clone(p)), append(s.topics, topic)
	}
	return err
}

func (s *sink) failWith(f func([][]byte) (int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// all returns what was taken so far.
func (s *sink) all() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.payloads)
}

// headers returns the headers of what was taken of topic clicks.
func (s *sink) headers(t testing.TB) (headers []envelope.Header) {
	t.Helper()
	for i, p := range s.all() {
		if s.topics[i] != "clicks" {
			continue
		}
		h, _, err := envelope.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
	}
	return headers
}

// events returns the events that were taken.
func (s *sink) events(t testing.TB) (events []*Event) {
	t.Helper()
	for _, p := range s.all() {
		e, err := ParseEvent(p)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		events = append(events, e)
	}
	return events
}

// folder returns a file system in memory with a folder for the test's files.
func folder(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem(nil)
	if err := m.Mkdir("/d"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	return m
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
