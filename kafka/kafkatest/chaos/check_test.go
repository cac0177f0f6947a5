package chaos

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var p0 = Partition{Broker: 0, Number: 0}

// at makes the events of a test short: each message is 10 bytes long.
func at(time int64, kind Kind, n int64) Event {
	return Event{Time: time, Kind: kind, Partition: p0, Offset: n * 10, Next: n*10 + 10, Sequence: uint64(n)}
}

// handles is what a consumer notes that handles messages, one each unit of time.
func handles(from int64, messages ...int64) (events []Event) {
	for i, n := range messages {
		events = append(events, at(from+int64(i), Handed, n), at(from+int64(i), Done, n))
	}
	return events
}

func join(parts ...[]Event) []Event { return slices.Concat(parts...) }

func assigned(t int64) []Event { return []Event{{Time: t, Kind: Assigned, Partition: p0}} }
func released(t int64, lost bool) []Event {
	return []Event{{Time: t, Kind: Released, Partition: p0, Lost: lost}}
}

// TestCheck shows that the checker accepts what a group may do and finds what it
// may not.
func TestCheck(t *testing.T) {
	ends := map[Partition]int64{p0: 40}
	for _, c := range []struct {
		name    string
		run     Run
		problem string // a part of the one that is wanted; empty: none
		inHand  int
		twice   int
		clean   int
	}{
		{"one consumer", Run{Journals: map[string][]Event{"a": join(assigned(1), handles(2, 0, 1, 2, 3))}, Ends: ends}, "", 0, 0, 0},
		{"a clean handover", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1), released(4, false)),
			"b": join(assigned(5), handles(6, 2, 3)),
		}, Ends: ends}, "", 0, 0, 1},
		{"the one in hand comes again", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1), released(4, false)),
			"b": join(assigned(5), handles(6, 1, 2, 3)),
		}, Ends: ends}, "", 1, 1, 1},
		{"two come again after a clean end", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1), released(4, false)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Ends: ends}, "ended cleanly", 0, 2, 1},
		{"two come again after a kill", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Ends: ends}, "", 0, 2, 0},
		{"two come again after an end with trouble", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1), released(4, false)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Troubles: []Trouble{{From: 3, To: 4}}, Ends: ends}, "", 0, 2, 0},
		{"given up only after another has it, because of trouble", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1), released(14, false)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Troubles: []Trouble{{Consumer: "a", From: 6, To: 12}}, Ends: ends}, "", 0, 2, 0},
		{"trouble of another consumer", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1), released(4, false)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Troubles: []Trouble{{Consumer: "c", From: 3, To: 4}}, Ends: ends}, "ended cleanly", 0, 2, 1},
		{"again from before the commit", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Offsets: []ObservedOffset{{4, p0, 10}}, Ends: ends}, "had been committed", 0, 2, 0},
		{"a commit that came later", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Offsets: []ObservedOffset{{6, p0, 10}}, Ends: ends}, "", 0, 2, 0},
		{"a commit goes back", Run{Journals: map[string][]Event{"a": join(assigned(1), handles(2, 0, 1, 2, 3))},
			Offsets: []ObservedOffset{{4, p0, 20}, {5, p0, 10}}, Ends: ends}, "went back", 0, 0, 0},
		{"two owners", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1, 2, 3)),
			"b": join(assigned(2), handles(3, 0, 1, 2)),
		}, Ends: ends}, "two owners at once", 0, 3, 0},
		{"within the lease of a session that was ended early", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1, 2), released(10, true)),
			"b": join(assigned(3), handles(3, 0, 1, 2, 3)),
		}, Troubles: []Trouble{{Consumer: "a", From: 3, To: 9, Early: true}}, Lease: 1, Ends: ends}, "", 0, 3, 0},
		{"beyond the lease of a session that was ended early", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1, 2, 3), handles(8, 0, 1)),
			"b": join(assigned(3), handles(3, 0, 1, 2, 3)),
		}, Troubles: []Trouble{{Consumer: "a", From: 3, To: 9, Early: true}}, Lease: 2, Ends: ends}, "two owners at once", 0, 6, 0},
		{"in hand of one that was stopped", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0), handles(20, 1), released(21, true)),
			"b": join(assigned(5), handles(6, 1, 2, 3)),
		}, Ends: ends}, "", 1, 1, 0},
		{"two in hand of one that was stopped", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0), handles(7, 1, 2), released(21, true)),
			"b": join(assigned(5), handles(6, 1, 2, 3)),
		}, Ends: ends}, "two owners at once", 0, 2, 0},
		{"the first of a term noted too late", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(20, 0), released(21, true)),
			"b": join(assigned(5), handles(6, 0, 1, 2, 3)),
		}, Ends: ends}, "", 0, 1, 0},
		{"in hand at a release", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0), released(3, false), handles(4, 1)),
			"b": join(assigned(5), handles(6, 1, 2, 3)),
		}, Ends: ends}, "", 1, 1, 1},
		{"handed out after the release", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0), released(3, false), handles(4, 1, 2)),
			"b": join(assigned(7), handles(8, 1, 2, 3)),
		}, Ends: ends}, "afterwards", 1, 2, 1},
		{"noted in the next term", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0), released(3, false), assigned(4), handles(5, 1), handles(6, 1, 2, 3)),
		}, Ends: ends}, "", 1, 1, 1},
		{"out of order", Run{Journals: map[string][]Event{"a": join(assigned(1), handles(2, 0, 2, 1, 3))}, Ends: ends}, "came the one at", 0, 0, 0},
		{"left out", Run{Journals: map[string][]Event{"a": join(assigned(1), handles(2, 0, 1, 3))}, Ends: ends}, "came the one at", 0, 0, 0},
		{"lost between terms", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1), released(4, false)),
			"b": join(assigned(5), handles(6, 3)),
		}, Ends: ends}, "from offset 20 to 30 was never handled", 0, 0, 1},
		{"lost at the end", Run{Journals: map[string][]Event{"a": join(assigned(1), handles(2, 0, 1, 2))}, Ends: ends}, "end of the log", 0, 0, 0},
		{"nothing handled", Run{Ends: ends}, "end of the log", 0, 0, 0},
		{"handed and not done", Run{Journals: map[string][]Event{"a": join(assigned(1), handles(2, 0, 1, 2), []Event{at(5, Handed, 3)})}, Ends: ends}, "end of the log", 0, 0, 0},
		{"acknowledged and not there", Run{Journals: map[string][]Event{"a": join(assigned(1), handles(2, 0, 1, 2, 3))}, Ends: ends, Acked: []uint64{3, 4}}, "message 4 was acknowledged", 0, 0, 0},
		{"not its own", Run{Journals: map[string][]Event{"a": handles(2, 0, 1, 2, 3)}, Ends: ends}, "which it never had", 0, 0, 0},
		{"no message begins there", Run{Journals: map[string][]Event{
			"a": join(assigned(1), handles(2, 0, 1, 2, 3)),
			"b": join(assigned(10), []Event{{Time: 11, Kind: Handed, Partition: p0, Offset: 15, Next: 25}, {Time: 11, Kind: Done, Partition: p0, Offset: 15, Next: 25}}),
		}, Ends: ends}, "where none begins", 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Check(c.run)
			all := strings.Join(r.Problems, "\n")
			switch {
			case c.problem == "" && all != "":
				t.Errorf("problems:\n%s", all)
			case !strings.Contains(all, c.problem):
				t.Errorf("no problem with %q in it:\n%s", c.problem, all)
			}
			if r.InHand != c.inHand || r.Twice != c.twice || r.Clean != c.clean {
				t.Errorf("in hand %d, twice %d, clean %d, want %d, %d, %d", r.InHand, r.Twice, r.Clean, c.inHand, c.twice, c.clean)
			}
		})
	}
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := CreateJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{
		{Kind: Joined},
		{Kind: Handed, Stream: 3, Partition: Partition{1, 2}, Offset: 1 << 40, Next: 1<<40 + 25, Sequence: 1<<64 - 1},
		{Kind: Released, Lost: true, Partition: Partition{1, 2}},
	}
	for _, e := range want {
		if err := j.Note(e); err != nil {
			t.Fatal(err)
		}
	}
	// A record that its process was killed over.
	if _, err := j.f.Write(make([]byte, eventBytes-1)); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if i > 0 && got[i].Time < got[i-1].Time {
			t.Errorf("event %d is of %d, the one before of %d", i, got[i].Time, got[i-1].Time)
		}
		got[i].Time = 0
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPayload(t *testing.T) {
	b := appendPayload(nil, 42)
	if n, err := parsePayload(b); n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for i := range b {
		b[i] ^= 4
		if n, err := parsePayload(b); err == nil {
			t.Errorf("byte %d changed: %d and no error", i, n)
		}
		b[i] ^= 4
	}
	if _, err := parsePayload(b[:payloadBytes-1]); err == nil {
		t.Error("a short payload is no error")
	}
}
