package schema

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestStateProperty: whatever several registries want to change, each with what it has
// read so far: all that read the log come to one state, an id stands for one schema for
// ever, also when it was deleted, and the versions of a subject only grow while it is
// there.
func TestStateProperty(t *testing.T) {
	texts := []string{`"string"`, `"int"`, `"long"`, `{"type":"map","values":"int"}`, `{"type":"map","values":"long"}`}
	parsed := make([]*Schema, len(texts))
	for i, text := range texts {
		parsed[i] = must(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		const writers = 3
		var log []*record
		read := [writers]int{}
		states := [writers]*state{newState(), newState(), newState()}
		ever := map[uint32]schemaKey{}
		catchUp := func(w, to int) {
			for ; read[w] < to; read[w]++ {
				if _, err := states[w].apply(log[read[w]]); err != nil {
					t.Fatalf("record %d: %v", read[w], err)
				}
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w := rapid.IntRange(0, writers-1).Draw(t, "writer")
			catchUp(w, rapid.IntRange(read[w], len(log)).Draw(t, "reads to"))
			s := states[w]
			subject := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "subject")
			var r *record
			var err error
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				reg := Registration{Subject: subject, Schema: rapid.SampledFrom(parsed).Draw(t, "schema")}
				f := s.factsOf(reg)
				_, r, err = f.plan(reg, 1<<20)
			case 3:
				r, _, err = s.planDelete(subject, rapid.IntRange(0, 4).Draw(t, "version"), false)
			case 4:
				r, _, err = s.planDelete(subject, rapid.IntRange(0, 4).Draw(t, "version"), true)
			case 5:
				r = &record{Sequence: s.sequence + 1, Kind: kindConfig, Subject: subject, Level: rapid.SampledFrom([]Level{None, Full, ""}).Draw(t, "level")}
			}
			var refused *Error
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			if r != nil {
				r.Format = recordFormat
				log = append(log, r)
			}
		}
		for w := range states {
			catchUp(w, len(log))
		}
		fresh := newState()
		for _, r := range log {
			counts, err := fresh.apply(r)
			if err != nil {
				t.Fatal(err)
			}
			if counts && r.Kind == kindVersion {
				key := fresh.byID[r.ID].key
				if was, given := ever[r.ID]; given && was != key {
					t.Fatalf("id %d was given to two schemas", r.ID)
				}
				ever[r.ID] = key
			}
			check(t, fresh)
		}
		for w := range states {
			if got, want := dump(states[w]), dump(fresh); got != want {
				t.Fatalf("registry %d has\n%s\nand a fresh one\n%s", w, got, want)
			}
		}
	})
}

// check checks what holds in every state.
func check(t *rapid.T, s *state) {
	uses := map[uint32]int{}
	for name, sub := range s.subjects {
		last := 0
		for _, v := range sub.versions {
			if v.number <= last {
				t.Fatalf("subject %s: version %d behind %d", name, v.number, last)
			}
			last = v.number
			uses[v.of.id]++
			if s.byID[v.of.id] != v.of || s.byKey[v.of.key] != v.of {
				t.Fatalf("subject %s, version %d: id %d is another schema", name, v.number, v.of.id)
			}
		}
	}
	bytes := spentCost * int64(len(s.spent))
	for name, sub := range s.subjects {
		bytes += subjectCost(name) + versionCost*int64(len(sub.versions))
	}
	for id, of := range s.byID {
		if of.uses != uses[id] || of.uses == 0 || id > s.maxID {
			t.Fatalf("id %d is used %d times, and counts %d", id, uses[id], of.uses)
		}
		if _, spent := s.spent[id]; spent {
			t.Fatalf("id %d is there and gone", id)
		}
		bytes += int64(len(of.text))
	}
	if bytes != s.bytes || len(s.byID) != len(s.byKey) {
		t.Fatalf("%d bytes count as %d; %d ids, %d schemas", bytes, s.bytes, len(s.byID), len(s.byKey))
	}
}

// dump writes a state, all that an answer could depend on.
func dump(s *state) string {
	text := fmt.Sprintf("%d %d %d %s %s %v\n", s.sequence, s.maxID, s.bytes, s.level, s.mode, s.spent)
	for _, name := range []string{"a", "b"} {
		sub := s.subjects[name]
		if sub == nil {
			continue
		}
		text += fmt.Sprintf("%s %s %s:", name, sub.level, sub.mode)
		for _, v := range sub.versions {
			text += fmt.Sprintf(" %d=%d %v %s", v.number, v.of.id, v.deleted, v.of.text)
		}
		text += "\n"
	}
	return text
}

// TestRecordFits: the longest schema that is taken fits into a message as brokers take
// them by default, whatever it is made of.
func TestRecordFits(t *testing.T) {
	quotes := make([]byte, MaxSchemaBytes)
	for i := range quotes {
		quotes[i] = '"' // no character of JSON's text grows more
	}
	subject := make([]byte, MaxSubjectLength)
	for i := range subject {
		subject[i] = '"'
	}
	r := record{Format: recordFormat, Sequence: 1<<64 - 1, Writer: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Kind: kindVersion, Subject: string(subject), Version: 1<<31 - 1, ID: MaxID, Schema: string(quotes)}
	b, err := r.encode()
	if err != nil || len(b) > 1_000_000 {
		t.Fatalf("it has %d bytes, %v", len(b), err)
	}
	if back, ok := parseRecord(b); !ok || back != r {
		t.Error("it is not read as it was written")
	}
}

func TestErrorStatus(t *testing.T) {
	for code, want := range map[int]int{40401: 404, 42201: 422, 409: 409, 50001: 500, 415: 415, 0: 500, 7: 500, 99999: 500} {
		if got := (&Error{Code: code}).Status(); got != want {
			t.Errorf("code %d: status %d, want %d", code, got, want)
		}
	}
}
