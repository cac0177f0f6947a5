package schema

import (
	"errors"
	"strings"
	"testing"
)

// Pairs of schemas, and whether each can read what the other has written.
var compatPairs = []struct {
	name              string
	old, new          string
	backward, forward bool // new reads old, old reads new
}{
	{"the same", `"int"`, `"int"`, true, true},
	{"wider", `"int"`, `"long"`, true, false},
	{"int and double", `"int"`, `"double"`, true, false},
	{"string and bytes", `"string"`, `"bytes"`, true, true},
	{"string and int", `"string"`, `"int"`, false, false},
	{"field with a default comes", rec(`{"name":"a","type":"int"}`), rec(`{"name":"a","type":"int"},{"name":"b","type":"int","default":0}`), true, true},
	{"field without one comes", rec(`{"name":"a","type":"int"}`), rec(`{"name":"a","type":"int"},{"name":"b","type":"int"}`), false, true},
	{"field with a default goes", rec(`{"name":"a","type":"int"},{"name":"b","type":"int","default":0}`), rec(`{"name":"a","type":"int"}`), true, true},
	{"field without one goes", rec(`{"name":"a","type":"int"},{"name":"b","type":"int"}`), rec(`{"name":"a","type":"int"}`), true, false},
	{"fields change places", rec(`{"name":"a","type":"int"},{"name":"b","type":"string"}`), rec(`{"name":"b","type":"string"},{"name":"a","type":"int"}`), true, true},
	{"field is renamed", rec(`{"name":"a","type":"int"}`), rec(`{"name":"b","type":"int"}`), false, false},
	{"field is renamed with an alias", rec(`{"name":"a","type":"int"}`), rec(`{"name":"b","type":"int","aliases":["a"]}`), true, false},
	{"record is renamed", `{"type":"record","name":"R","fields":[]}`, `{"type":"record","name":"Q","fields":[]}`, false, false},
	{"a type joins a union", `["null","int"]`, `["null","int","string"]`, true, false},
	{"becomes a union", `"int"`, `["null","int"]`, true, false},
	{"a symbol comes", `{"type":"enum","name":"E","symbols":["A"]}`, `{"type":"enum","name":"E","symbols":["A","B"]}`, true, false},
	{"a symbol comes, with a default", `{"type":"enum","name":"E","symbols":["A"],"default":"A"}`, `{"type":"enum","name":"E","symbols":["A","B"],"default":"A"}`, true, true},
	{"a fixed becomes longer", `{"type":"fixed","name":"F","size":2}`, `{"type":"fixed","name":"F","size":3}`, false, false},
	{"items become wider", `{"type":"array","items":"int"}`, `{"type":"array","items":"long"}`, true, false},
	{"values change", `{"type":"map","values":"int"}`, `{"type":"map","values":"string"}`, false, false},
	{"a recursive record", node(""), node(`,{"name":"n","type":"int","default":0}`), true, true},
	{"a recursive record that cannot", node(""), node(`,{"name":"n","type":"int"}`), false, true},
	{"doc", `{"type":"record","name":"R","doc":"x","fields":[]}`, `{"type":"record","name":"R","doc":"y","fields":[]}`, true, true},
}

func rec(fields string) string { return `{"type":"record","name":"R","fields":[` + fields + `]}` }

func node(field string) string {
	return `{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}` + field + `]}`
}

// TestCompatibilityOfPairs: what each level says of two versions.
func TestCompatibilityOfPairs(t *testing.T) {
	for _, p := range compatPairs {
		older := []version{versionOf(4, p.old)}
		for level, want := range map[Level]bool{
			None: true, Backward: p.backward, BackwardTransitive: p.backward, Forward: p.forward, ForwardTransitive: p.forward,
			Full: p.backward && p.forward, FullTransitive: p.backward && p.forward,
		} {
			found, err := level.conflicts(must(t, p.new), older)
			if (len(found) == 0) != want || err != nil {
				t.Errorf("%s at %s: %q, %v", p.name, level, found, err)
			}
			for _, f := range found {
				if !strings.Contains(f, "version 4") {
					t.Errorf("%s at %s: %q does not say with which version", p.name, level, f)
				}
			}
		}
	}
}

// TestCompatibilityWithManyVersions: levels that are not transitive look at the newest
// version alone. The middle one is what goes with neither end.
func TestCompatibilityWithManyVersions(t *testing.T) {
	older := []version{versionOf(1, `"string"`), versionOf(2, `"int"`), versionOf(3, `"long"`)}
	for _, row := range []struct {
		level Level
		new   string
		want  bool
	}{
		{Backward, `"double"`, true}, // reads long
		{BackwardTransitive, `"double"`, false},
		{Forward, `"int"`, true}, // long reads int
		{ForwardTransitive, `"int"`, false},
		{Full, `"long"`, true},
		{FullTransitive, `"long"`, false},
		{BackwardTransitive, `["string","long"]`, true},
		{Full, `["string","long"]`, false},
	} {
		if found, err := row.level.conflicts(must(t, row.new), older); (len(found) == 0) != row.want || err != nil {
			t.Errorf("%s at %s: %q, %v", row.new, row.level, found, err)
		}
	}
}

// TestConflictsAreBounded: what is told of a subject with many versions is bounded.
func TestConflictsAreBounded(t *testing.T) {
	var older []version
	for i := range 1000 {
		older = append(older, versionOf(i+1, `"string"`))
	}
	if found, err := FullTransitive.conflicts(must(t, `"int"`), older); len(found) < 2 || len(found) > maxConflicts+1 || err != nil {
		t.Errorf("%d conflicts are told, %v", len(found), err)
	}
}

func versionOf(number int, text string) version {
	return version{number: number, of: &stored{text: text}}
}

func TestParseLevel(t *testing.T) {
	for _, l := range []Level{None, Backward, BackwardTransitive, Forward, ForwardTransitive, Full, FullTransitive} {
		if got, err := ParseLevel(string(l)); got != l || err != nil {
			t.Errorf("%s: %s, %v", l, got, err)
		}
	}
	for _, name := range []string{"", "none", "BACKWARDS", "BACKWARD "} {
		if _, err := ParseLevel(name); !errors.Is(err, &Error{Code: CodeInvalidCompatibility}) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func must(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
