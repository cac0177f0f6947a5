package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/clock"
)

// One lost and one doubled do not cancel out: the sequence numbers tell which ones came.
func TestOneLostAndOneDoubled(t *testing.T) {
	c := newCounter(t)
	c.come("front1", 1, 0, "1-4,6-10")
	c.come("front1", 1, 0, "7")
	c.event(event(t, "front1", 1, 0, 1, "1-10"))
	r := compare(t, c.state("live", time.Hour))
	wantRows(t, r, "live front1 0s: missing, 10 made, 9 counted, 1 missing, 1 doubled")
	if r.Clean || r.Tiers[0].Clean {
		t.Error("the report is clean")
	}
}

// Each verdict, and how several producers of a server make one.
func TestVerdicts(t *testing.T) {
	c := newCounter(t)
	c.come("all", 1, 0, "1-10")
	c.event(event(t, "all", 1, 0, 1, "1-10"))
	c.come("again", 2, 0, "1-10")
	c.come("again", 2, 0, "1-10")
	c.come("again", 2, 0, "3")
	c.event(event(t, "again", 2, 0, 1, "1-10"))
	c.come("dead", 3, 0, "1-5")
	c.event(event(t, "none", 4, 0, 1, "1-3"))
	c.come("two", 5, 0, "1-4")
	c.event(event(t, "two", 5, 0, 1, "1-4"))
	c.come("two", 6, 0, "1")
	c.event(event(t, "two", 6, 0, 1, "1-2"))
	doubt := event(t, "doubt", 7, 0, 1, "1-2,4")
	doubt.InDoubt = set(t, "3,5-6")
	c.come("doubt", 7, 0, "1-2,4,6")
	c.event(doubt)
	wantRows(t, compare(t, c.state("live", time.Hour)),
		"live again 0s: doubled, 10 made, 10 counted, 11 doubled",
		"live all 0s: complete, 10 made, 10 counted",
		"live dead 0s: unreported, 5 counted, 5 unreported",
		"live doubt 0s: complete, 3 made, 4 counted, 3 in doubt",
		"live none 0s: missing, 3 made, 3 missing",
		"live two 0s: missing, 6 made, 5 counted, 1 missing",
	)
	// Until the tier was caught up at the grace after the end, all is open.
	for _, caughtUp := range []time.Duration{0, length, length + DefaultGrace - time.Millisecond} {
		for _, row := range compare(t, c.state("live", caughtUp)).Rows {
			if row.Verdict != Open || row.Missing > 0 {
				t.Errorf("caught up at %v: %s is %s, %d missing", caughtUp, row.Server, row.Verdict, row.Missing)
			}
		}
	}
	never := c.state("live", 0)
	never.CaughtUp = time.Time{}
	if r := compare(t, never); !r.Clean || r.Tiers[0].Open != 6 || len(r.Tiers[0].Notes) == 0 {
		t.Errorf("a tier that was never caught up: %+v", r.Tiers[0])
	}
}

// The events of all tiers are put together, and what one tier has of a dead producer is
// missed in the others.
func TestTiersAreCompared(t *testing.T) {
	live, mirror := newCounter(t), newCounter(t)
	live.come("front1", 1, 0, "1-10")
	mirror.come("front1", 1, 0, "1-8,10")
	live.event(event(t, "front1", 1, 0, 1, "1-10"))
	live.come("dead", 2, 0, "1-3,6-7") // 4 and 5 have come nowhere
	mirror.come("dead", 2, 0, "1-2")
	r := compare(t, live.state("live", time.Hour), mirror.state("mirror", time.Hour))
	wantRows(t, r,
		"live dead 0s: missing, 5 counted, 2 missing, 5 unreported",
		"mirror dead 0s: missing, 2 counted, 5 missing, 2 unreported",
		"live front1 0s: complete, 10 made, 10 counted",
		"mirror front1 0s: missing, 10 made, 9 counted, 1 missing",
	)
	if _, err := Compare([]*State{live.state("live", 0), mirror.state("live", 0)}, ReportOptions{}); err == nil {
		t.Error("two tiers of one name were compared")
	}
}

// An event counts once, however often it comes, and a later revision replaces it.
func TestEventsAreIdempotent(t *testing.T) {
	c := newCounter(t)
	c.come("front1", 1, 0, "1-10")
	for _, revision := range []int{1, 1, 2, 1, 2} {
		c.event(event(t, "front1", 1, 0, revision, map[int]string{1: "1-6", 2: "1-10"}[revision]))
	}
	wantRows(t, compare(t, c.state("live", time.Hour)), "live front1 0s: complete, 10 made, 10 counted")
	if c.tally.events.Events != 5 || c.tally.events.Repeated != 3 || c.tally.windows != 2 || c.tally.ranges != 2 {
		t.Errorf("%+v, %d windows, %d ranges", c.tally.events, c.tally.windows, c.tally.ranges)
	}
	// The same number again, in the event of another part, is another event.
	part := event(t, "front1", 1, 0, 1, "11-12")
	part.Part = 1
	c.event(part)
	wantRows(t, compare(t, c.state("live", time.Hour)), "live front1 0s: missing, 12 made, 10 counted, 2 missing")
}

// The windows of an event may be longer or shorter than those of the tally.
func TestWindowsOfAnotherLength(t *testing.T) {
	c := newCounter(t)
	for i := range 12 {
		c.come("front1", 1, time.Duration(i)*5*time.Second, string(set1(uint64(i+1))))
	}
	c.come("front1", 1, 20*time.Second, "5")
	long := event(t, "front1", 1, 0, 1, "1-6")
	long.Length = 30 * time.Second
	c.event(long)
	for i := range 6 {
		short := event(t, "front1", 1, time.Duration(30+5*i)*time.Second, 1, string(set1(uint64(7+i))))
		short.Length = 5 * time.Second
		c.event(short)
	}
	r := compare(t, c.state("live", time.Hour))
	if s := r.Tiers[0]; len(r.Rows) != 7 || s.Complete != 6 || s.Doubled != 1 || s.Made != 12 || s.Counted != 12 || !s.Clean {
		t.Errorf("%d rows: %+v", len(r.Rows), s)
	}
}

// The slots of a window are found whether it has fewer slots than there are or more, also
// where it begins within one.
func TestSlotsWithin(t *testing.T) {
	const slotLength = 100
	s := &stream{slots: map[int64]*slot{}}
	for _, at := range []int64{0, 100, 300, 700, 1000, 900_000} {
		s.slots[at] = &slot{seen: at}
	}
	for _, start := range []int64{0, 100, 250, 500, 900} {
		for _, length := range []int64{100, 150, 400, 1000, 86_400_000} {
			got, want := map[int64]int{}, map[int64]int{}
			for found := range s.slotsWithin(start, length, slotLength) {
				got[found.seen]++
			}
			for at := range s.slots {
				if at+slotLength > start && at < start+length {
					want[at] = 1
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("from %d, %d ms: slots %v, want %v", start, length, got, want)
			}
		}
	}
	for range s.slotsWithin(0, 86_400_000, slotLength) {
		break // nothing more is asked for
	}
	for range s.slotsWithin(0, 200, slotLength) {
		break
	}
}

func set1(n uint64) []byte { s := Set{}; s.Add(Range{n, n}); return s.appendText(nil) }

// Clocks that are wrong: ahead and behind by minutes a message counts in the window of
// its time; far ahead, and longer ago than is kept, it is told of.
func TestWrongClocks(t *testing.T) {
	c := newCounter(t)
	c.now = time.Hour
	c.tally.fold(at(c.now).UnixMilli())
	c.come("behind", 1, 50*time.Minute, "1")
	c.event(event(t, "behind", 1, 50*time.Minute, 1, "1"))
	c.come("ahead", 2, 70*time.Minute, "1")
	c.event(event(t, "ahead", 2, 70*time.Minute, 1, "1"))
	c.come("future", 3, 5*time.Hour, "1")
	c.event(event(t, "future", 3, 5*time.Hour, 1, "1"))
	c.come("late", 4, -24*time.Hour, "1")
	c.event(event(t, "late", 4, -24*time.Hour, 1, "1"))
	r := compare(t, c.state("live", 71*time.Minute))
	wantRows(t, r, "live behind 50m0s: complete, 1 made, 1 counted", "live ahead 1h10m0s: complete, 1 made, 1 counted")
	counts := c.tally.topics["clicks"]
	if counts.Late != 1 || counts.Future != 1 || counts.Messages != 4 || c.tally.events.Late != 1 || c.tally.events.Future != 1 {
		t.Errorf("%+v, %+v", counts, c.tally.events)
	}
	notes := strings.Join(r.Tiers[0].Notes, "\n")
	if r.Clean || !strings.Contains(notes, "its clock is wrong") || !strings.Contains(notes, "monitoring events: 1 came when their windows were no longer kept") {
		t.Errorf("clean %v, notes %q", r.Clean, r.Tiers[0].Notes)
	}
}

// A message of a producer whose clock is behind, and its event, come long after the
// window's end: meanwhile it is open, and not called unreported or missing.
func TestClockBehindStaysOpen(t *testing.T) {
	c := newCounter(t)
	c.now = 10 * time.Minute
	c.come("behind", 1, 0, "1-2")
	caughtUp := c.now + DefaultGrace - time.Millisecond
	wantRows(t, compare(t, c.state("live", caughtUp)), "live behind 0s: open, 2 counted, 2 unreported")
	wantRows(t, compare(t, c.state("live", caughtUp+time.Millisecond)), "live behind 0s: unreported, 2 counted, 2 unreported")
	c.now = 12 * time.Minute
	c.event(event(t, "behind", 1, 0, 1, "1-3"))
	caughtUp = c.now + DefaultGrace
	wantRows(t, compare(t, c.state("live", caughtUp-time.Millisecond)), "live behind 0s: open, 3 made, 2 counted")
	wantRows(t, compare(t, c.state("live", caughtUp)), "live behind 0s: missing, 3 made, 2 counted, 1 missing")
}

// A Send that ended long after its window makes a later revision of the event, which tells
// of more messages: those may be on their way still, so the window is open again for the
// grace, in each tier. A revision that tells of nothing more opens nothing.
func TestLaterRevisionsOpenAgain(t *testing.T) {
	live, mirror := newCounter(t), newCounter(t)
	for _, c := range []*counter{live, mirror} {
		c.come("front1", 1, 0, "1-2")
	}
	live.now = length
	live.event(event(t, "front1", 1, 0, 1, "1-2"))
	mirror.now = 2 * length
	mirror.event(event(t, "front1", 1, 0, 1, "1-2"))
	live.now = 10 * time.Minute
	live.come("front1", 1, 0, "3")
	live.event(event(t, "front1", 1, 0, 2, "1-3"))
	mirrored := func(caughtUp time.Duration) *Report {
		return compare(t, live.state("live", 2*time.Hour), mirror.state("mirror", caughtUp))
	}
	complete, open := "live front1 0s: complete, 3 made, 3 counted", "mirror front1 0s: open, 3 made, 2 counted"
	wantRows(t, mirrored(live.now+DefaultGrace-time.Millisecond), complete, open)
	live.now += 10 * time.Minute
	live.event(event(t, "front1", 1, 0, 3, "1-3"))
	mirror.now = live.now
	mirror.event(event(t, "front1", 1, 0, 3, "1-3"))
	wantRows(t, mirrored(10*time.Minute+DefaultGrace-time.Millisecond), complete, open)
	wantRows(t, mirrored(10*time.Minute+DefaultGrace), complete, "mirror front1 0s: missing, 3 made, 2 counted, 1 missing")
}

// A producer counts once in a row, however many events its window has, and also if there are
// messages beside that no event tells of.
func TestProducersOfARow(t *testing.T) {
	c := newCounter(t)
	c.come("front1", 1, 0, "1-9")
	c.come("front1", 2, 0, "1")
	c.event(event(t, "front1", 1, 0, 1, "1-2"))
	part := event(t, "front1", 1, 0, 1, "3-4")
	part.Part = 1
	c.event(part)
	r := compare(t, c.state("live", time.Hour))
	wantRows(t, r, "live front1 0s: unreported, 4 made, 10 counted, 6 unreported")
	if n := r.Rows[0].Producers; n != 2 {
		t.Errorf("%d producers, want 2", n)
	}
}

// At the limit what tells nothing new, or no more than it replaces, is no loss.
func TestLimitsLetRepeatedEventsPass(t *testing.T) {
	c := newCounter(t)
	c.tally.limits.MaxRanges = 2
	c.come("front1", 1, 0, "1-2")
	for _, revision := range []int{1, 1, 2} {
		c.event(event(t, "front1", 1, 0, revision, "1-2"))
	}
	if e := c.tally.events; e.Uncounted != 0 || e.Repeated != 1 || c.tally.ranges != 2 {
		t.Errorf("%+v, %d ranges", e, c.tally.ranges)
	}
	c.event(event(t, "front1", 1, 0, 3, "1,3"))
	if e := c.tally.events; e.Uncounted != 1 || c.tally.ranges != 2 {
		t.Errorf("beyond the limit: %+v, %d ranges", e, c.tally.ranges)
	}
	if r := compare(t, c.state("live", time.Hour)); r.Clean {
		t.Error("the report is clean")
	}
}

// What cannot be kept is told of, and keeps every report from being clean.
func TestLimitsAreLoud(t *testing.T) {
	for name, limit := range map[string]Limits{
		"producers": {MaxProducers: 2}, "windows": {MaxWindows: 2}, "ranges": {MaxRanges: 2},
	} {
		c := newCounter(t)
		limits, err := limit.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		c.tally.limits = limits
		for i := range byte(5) {
			c.come("front", i+1, 0, "1")
		}
		if n := c.tally.topics["clicks"].Uncounted; n != 3 {
			t.Errorf("%s: %d messages are uncounted, want 3", name, n)
		}
		c.event(event(t, "front", 9, 0, 1, "1"))
		if c.tally.events.Uncounted != 1 {
			t.Errorf("%s: %+v", name, c.tally.events)
		}
		r := compare(t, c.state("live", time.Second))
		if r.Clean || r.Tiers[0].Uncounted != 4 || !strings.Contains(strings.Join(r.Tiers[0].Notes, "\n"), "no more may be") {
			t.Errorf("%s: %+v", name, r.Tiers[0])
		}
		if len(c.tally.streams) != 2 || c.tally.windows > 2 || c.tally.ranges > 2 {
			t.Errorf("%s: %d producers, %d windows, %d ranges are kept", name, len(c.tally.streams), c.tally.windows, c.tally.ranges)
		}
	}
}

// A message that comes very often costs bounded memory, and each time counts.
func TestVeryOftenDoubled(t *testing.T) {
	c := newCounter(t)
	c.event(event(t, "front1", 1, 0, 1, "1-2"))
	for range 1000 {
		c.come("front1", 1, 0, "2")
	}
	c.come("front1", 1, 0, "1")
	wantRows(t, compare(t, c.state("live", time.Hour)), "live front1 0s: doubled, 2 made, 2 counted, 999 doubled")
	if c.tally.ranges > 1+maxLayers {
		t.Errorf("%d ranges", c.tally.ranges)
	}
}

// Windows that are no longer kept become sums that say the same, and give their memory
// back.
func TestOlderWindowsBecomeSums(t *testing.T) {
	c := newCounter(t)
	c.come("front1", 1, 0, "1-4,6-10")
	c.come("front1", 1, 0, "7")
	c.event(event(t, "front1", 1, 0, 1, "1-10"))
	c.come("dead", 2, 0, "1-3")
	c.come("dead", 2, 0, "2")
	before := compare(t, c.state("live", 30*time.Hour)).Tiers[0]
	c.now = 26 * time.Hour
	c.come("front1", 1, 26*time.Hour, "11-20")
	c.event(event(t, "front1", 1, 26*time.Hour, 1, "11-20"))
	c.tally.fold(at(26 * time.Hour).UnixMilli())
	r := compare(t, c.state("live", 30*time.Hour))
	wantRows(t, r, "live front1 26h0m0s: complete, 10 made, 10 counted")
	got := r.Tiers[0]
	if got.Missing != 1 || got.Doubled != 2 || got.Unreported != 3 || got.Made != 20 || got.Counted != 22 || got.Clean || got.Missing != before.Missing || got.Doubled != before.Doubled {
		t.Errorf("after %+v\nbefore %+v", got, before)
	}
	if len(c.tally.streams) != 1 || c.tally.windows != 2 {
		t.Errorf("%d producers, %d windows are kept", len(c.tally.streams), c.tally.windows)
	}
	// The state that was written says the same.
	again := reread(t, c.state("live", 30*time.Hour))
	if a, b := text(t, compare(t, again)), text(t, r); a != b {
		t.Errorf("read again:\n%s\nwas\n%s", a, b)
	}
}

// The clock of the checker is two days ahead for a moment. What is made after that is counted
// by windows, and they are judged when they are caught up, not before.
func TestCheckerClockThatWasAhead(t *testing.T) {
	manual := clock.NewManual(at(0))
	c, err := openChecker(CheckerConfig{Tier: "live", Topics: []string{"clicks"}, State: "/d/state", Files: folder(t), Clock: manual})
	if err != nil {
		t.Fatal(err)
	}
	key := partitionKey{"clicks", 0, 0}
	save := func(d time.Duration) {
		t.Helper()
		manual.Step(at(d).Sub(manual.Now()))
		if err := c.save(); err != nil {
			t.Fatal(err)
		}
		c.caughtUp(at(d))
	}
	c.count(key, []counted{{header: header("front1", 1, 1, 0)}}, 0, 100, false)
	save(0)
	save(48 * time.Hour)
	save(time.Minute)
	c.count(key, []counted{{offset: 100, header: header("front1", 1, 2, time.Minute)}}, 100, 200, false)
	c.count(partitionKey{"audit", 0, 0}, []counted{{event: event(t, "front1", 1, time.Minute, 1, "2-3")}}, 0, 100, true)
	save(time.Minute + time.Second)
	wantRows(t, compare(t, c.state), "live front1 1m0s: open, 2 made, 1 counted")
	save(time.Hour)
	r := compare(t, c.state)
	wantRows(t, r, "live front1 1m0s: missing, 2 made, 1 counted, 1 missing")
	if counts := c.tally.topics["clicks"]; r.Clean || counts.Late != 0 || counts.Messages != 2 {
		t.Errorf("%+v, %s", counts, text(t, r))
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// reread writes a state and reads it.
func reread(t testing.TB, s *State) *State {
	t.Helper()
	files := folder(t)
	content, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(files, "/d/state", stateKind, content); err != nil {
		t.Fatal(err)
	}
	again, err := readState(files, "/d/state")
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// Hostile messages and events are errors of their own, counted, with short texts.
func TestHostileEvents(t *testing.T) {
	good, err := event(t, "front1", 1, 0, 1, "1-10").Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := ParseEvent(good); err != nil || e.Made.Count() != 10 || !e.Window.Equal(noon) || e.Length != length {
		t.Fatalf("%s: %+v, %v", good, e, err)
	}
	replace := func(old, new string) []byte { return bytes.Replace(good, []byte(old), []byte(new), 1) }
	for name, payload := range map[string][]byte{
		"empty":            nil,
		"no JSON":          []byte("hello"),
		"other JSON":       []byte(`{"a":1}`),
		"deep":             bytes.Repeat([]byte("["), 100_000),
		"more behind":      append(bytes.Clone(good), '{'),
		"long":             append(bytes.Repeat([]byte(" "), MaxEventBytes), good...),
		"other version":    replace(`"kafka_audit":1`, `"kafka_audit":2`),
		"count":            replace(`"count":10`, `"count":11`),
		"negative window":  replace(`"length_ms":10000`, `"length_ms":-1`),
		"huge window":      replace(`"length_ms":10000`, `"length_ms":9223372036854775807`),
		"window in window": replace(`12:00:00Z`, `12:00:01Z`),
		"long ago":         replace(`2026-11-29`, `1926-11-29`),
		"revision":         replace(`"revision":1`, `"revision":0`),
		"topic":            replace(`"clicks"`, `"../x"`),
		"server":           replace(`"front1"`, `"`+strings.Repeat("s", 10_000)+`"`),
		"sequences":        replace(`"1-10"`, `"10-1"`),
		"huge sequences":   replace(`"1-10"`, `"1-18446744073709551615"`),
		"both":             replace(`"made":"1-10"`, `"made":"1-10","in_doubt":"10"`),
		"no producer":      replace(id(1).String(), envelope.ProducerID{}.String()),
	} {
		c := newCounter(t)
		e, err := ParseEvent(payload)
		if err == nil {
			t.Errorf("%s was read: %+v", name, e)
			continue
		}
		c.tally.event(e, err, at(0).UnixMilli())
		if c.tally.events.Malformed != 1 || len(c.tally.events.LastProblem) > maxErrorText+10 || len(c.tally.streams) > 0 {
			t.Errorf("%s: %+v", name, c.tally.events)
		}
	}
	c := newCounter(t)
	c.tally.problem("clicks", envelope.ErrNotEnvelope)
	c.tally.problem("clicks", errors.New(strings.Repeat("x", 1<<20)))
	c.come("front1", 1, 0, "1")
	c.tally.message("clicks", header("front1", 1, MaxSequence+1, 0), 0)
	if n := *c.tally.topics["clicks"]; n.NotEnvelope != 1 || n.Malformed != 2 || n.Messages != 4 || len(n.LastProblem) > maxErrorText+10 {
		t.Errorf("%+v", n)
	}
}

func FuzzParseEvent(f *testing.F) {
	good, err := event(f, "front1", 1, 0, 1, "1-10,12").Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := ParseEvent(payload)
		if err != nil {
			return
		}
		b, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseEvent(b)
		if err != nil || again.Made.String() != e.Made.String() || !again.Window.Equal(e.Window) {
			t.Fatalf("%s became %s: %v", payload, b, err)
		}
	})
}

// The figure is whole, and the same each time.
func TestFigure(t *testing.T) {
	c := newCounter(t)
	c.come("front<1>", 1, 0, "1-9")
	c.event(event(t, "front<1>", 1, 0, 1, "1-10"))
	c.come("front<1>", 1, time.Minute, "11-20")
	c.event(event(t, "front<1>", 1, time.Minute, 1, "11-20"))
	var images [2]bytes.Buffer
	for i := range images {
		r := compare(t, c.state("live & well", time.Hour), newCounter(t).state("empty", 0))
		if err := r.Figure(&images[i]); err != nil {
			t.Fatal(err)
		}
	}
	if image := images[0].String(); image != images[1].String() || !strings.Contains(image, "live &amp; well") || !strings.HasSuffix(image, "</svg>\n") ||
		strings.Count(image, `fill="#c0392b"`) != 2 || strings.Contains(image, "NaN") {
		t.Errorf("%s", image)
	}
	var empty bytes.Buffer
	if err := compare(t, newCounter(t).state("empty", 0)).Figure(&empty); err != nil || strings.Contains(empty.String(), "NaN") {
		t.Errorf("%v: %s", err, empty.String())
	}
}

// BenchmarkCount counts messages of two producers that take turns, in batches, as they
// lie in a partition.
func BenchmarkCount(b *testing.B) {
	c := newCounter(b)
	now := at(c.now).UnixMilli()
	headers := [2]envelope.Header{header("front1", 1, 0, 0), header("front2", 2, 0, 0)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h := &headers[i/50%2]
		h.Sequence++
		c.tally.message("clicks", *h, now)
	}
}
