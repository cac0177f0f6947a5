package avroshape_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/avro"

	"kafkalab/kafka/internal/avroshape"
)

// Where a datum ends, by hand, and what is none.
func TestShapes(t *testing.T) {
	number := func(n int64) string { return string(binary.AppendVarint(nil, n)) }
	for _, c := range []struct {
		schema, datum string
		bad           []string
	}{
		{`"null"`, "", nil},
		{`"boolean"`, "\x01", []string{"", "\x02"}},
		{`"int"`, number(-1 << 31), []string{number(1 << 31), "\xff"}},
		{`{"type":"long","logicalType":"timestamp-millis"}`, number(1 << 40), []string{"", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}},
		{`"float"`, "1234", []string{"123"}},
		{`"double"`, "12345678", []string{"1234567"}},
		{`"string"`, number(3) + "abc", []string{number(4) + "abc", number(-1)}},
		{`{"type":"bytes"}`, number(0), []string{number(1)}},
		{`{"type":"fixed","name":"F","size":2}`, "ab", []string{"a"}},
		{`{"type":"enum","name":"E","symbols":["A","B"]}`, number(1), []string{number(2), number(-1)}},
		{`["null","string"]`, number(1) + number(1) + "x", []string{number(2), number(-1), number(1)}},
		{`{"type":"array","items":"int"}`, number(2) + number(7) + number(8) + number(-1) + number(1) + number(9) + number(0),
			[]string{number(2) + number(7), number(1) + number(7), number(-1) + number(2) + number(9) + number(9) + number(0), number(-2) + number(1) + number(9) + number(0)}},
		{`{"type":"array","items":"null"}`, number(1<<62) + number(0), []string{number(-1 << 63)}},
		{`{"type":"map","values":"boolean"}`, number(1) + number(1) + "k\x01" + number(0), []string{number(1) + number(1) + "k\x02" + number(0)}},
		{`{"type":"record","name":"a.R","fields":[{"name":"x","type":{"type":"enum","name":"E","symbols":["A"]}},{"name":"y","type":"E"},{"name":"r","type":["null","R"]}]}`,
			number(0) + number(0) + number(1) + number(0) + number(0) + number(0), []string{number(0) + number(1) + number(0)}},
	} {
		s, err := avroshape.Parse(c.schema)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := s.Skip([]byte(c.datum + "rest"))
		if err != nil || string(rest) != "rest" {
			t.Errorf("%s: %q is left of %q, %v", c.schema, rest, c.datum, err)
		}
		for _, b := range c.bad {
			if rest, err := s.Skip([]byte(b)); err == nil {
				t.Errorf("%s: %q is taken, and %q left", c.schema, b, rest)
			} else if !errors.Is(err, avroshape.ErrDatum) {
				t.Errorf("%s: %q: %v", c.schema, b, err)
			}
		}
	}
	for _, schema := range []string{"", "{}", `"unknown"`, `{"type":"array"}`, `{"type":"record","name":"R","fields":[{"name":"x"}]}`, `{"type":"fixed","name":"F","size":-1}`, "7"} {
		if s, err := avroshape.Parse(schema); err == nil {
			t.Errorf("schema %q is taken: %+v", schema, s)
		}
	}
	// What has no bytes takes no time, though this contains it 2⁶⁰ times.
	for _, nothing := range []string{`{"type":"record","name":"N0","fields":[]}`, `{"type":"fixed","name":"N0","size":0}`} {
		schema := nothing
		for i := range 60 {
			schema = fmt.Sprintf(`{"type":"record","name":"N%d","fields":[{"name":"a","type":%s},{"name":"b","type":"N%d"}]}`, i+1, schema, i)
		}
		s, err := avroshape.Parse(schema)
		if err != nil {
			t.Fatal(err)
		}
		if rest, err := s.Skip([]byte("rest")); err != nil || string(rest) != "rest" {
			t.Errorf("%s, many times: %q is left, %v", nothing, rest, err)
		}
	}
	// A record that holds itself has no end.
	endless, err := avroshape.Parse(`{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := endless.Skip(nil); !errors.Is(err, avroshape.ErrDatum) {
		t.Errorf("a datum without an end: %v", err)
	}
}

// Keys of other letters, and those that belong to other types, are somebody's own, and say
// nothing; names are found as the Avro library finds them.
func TestShapesAreThoseOfTheLibrary(t *testing.T) {
	for _, c := range []struct {
		schema string
		value  any
	}{
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"long","Type":"string"}]}`, map[string]any{"a": int64(5)}},
		{`{"type":"record","name":"R","Fields":"none","Name":7,"fields":[{"Name":"x","name":"a","TYPE":"null","type":"string"}]}`, map[string]any{"a": "text"}},
		{`{"type":"array","Items":"long","items":"string","size":"large","fields":{}}`, []any{"a", "b"}},
		{`{"type":"long","size":"large","symbols":7,"items":"x"}`, int64(1)},
		{`{"type":"fixed","name":"F","Size":9,"size":2}`, []byte("ab")},
		{`{"type":"fixed","name":"F","size":"3"}`, []byte("abc")},
		{`{"type":"enum","name":"E","Symbols":[],"symbols":["A","B"]}`, "B"},
		{`{"type":"record","name":"a.R","fields":[{"name":"f","type":{"type":"fixed","name":"F","namespace":"","size":1}},{"name":"g","type":"F"},{"name":"h","type":".F"}]}`,
			map[string]any{"f": []byte("1"), "g": []byte("2"), "h": []byte("3")}},
	} {
		parsed, err := avro.Parse(c.schema)
		if err != nil {
			t.Fatalf("%s: %v", c.schema, err)
		}
		datum, err := parsed.AppendEncode(nil, c.value)
		if err != nil {
			t.Fatalf("%s: %v", c.schema, err)
		}
		s, err := avroshape.Parse(c.schema)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		if rest, err := s.Skip(datum); err != nil || len(rest) > 0 {
			t.Errorf("%s: %q is left of %q, %v", c.schema, rest, datum, err)
		}
	}
}

// Values are counted without being made.
func TestCheckValues(t *testing.T) {
	number := func(n int64) string { return string(binary.AppendVarint(nil, n)) }
	doubling := `{"type":"record","name":"N0","fields":[]}`
	backwards := `{"type":"record","name":"N60","fields":[]}`
	for i := range 60 {
		doubling = fmt.Sprintf(`{"type":"record","name":"N%d","fields":[{"name":"a","type":%s},{"name":"b","type":"N%d"}]}`, i+1, doubling, i)
		backwards = fmt.Sprintf(`{"type":"record","name":"N%d","fields":[{"name":"a","type":"N%d"},{"name":"b","type":%s}]}`, 59-i, 60-i, backwards)
	}
	wide := `{"type":"record","name":"W","fields":[{"name":"x","type":"int"}`
	for i := range 100 {
		wide += fmt.Sprintf(`,{"name":"n%d","type":"null"}`, i)
	}
	wide += "]}"
	for _, c := range []struct {
		schema, datum string
		values        int64 // -1: too many to be counted
		sparse        bool
	}{
		{`"null"`, "", 1, true},
		{`["null","string"]`, number(1) + number(1) + "x", 2, true},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"n","type":"null"},{"name":"s","type":"string"}]}`, number(1) + number(0), 4, true},
		{`{"type":"array","items":"int"}`, number(2) + number(7) + number(8) + number(0), 3, true},
		{`{"type":"map","values":"null"}`, number(2) + number(1) + "a" + number(1) + "b" + number(0), 3, true},
		{`{"type":"array","items":"null"}`, number(5) + number(0), 6, false},
		{`{"type":"array","items":{"type":"array","items":"null"}}`, number(2) + number(5) + number(0) + number(7) + number(0) + number(0), 1 + 2 + 12, false},
		{`{"type":"array","items":"null"}`, number(1<<62) + number(0), -1, false},
		{wide, number(1), 102, false},
		{`{"type":"array","items":` + wide + `}`, number(3) + number(1) + number(1) + number(1) + number(0), 1 + 3*102, false},
		{doubling, "", -1, false},
		{backwards, "", -1, false},
		{`{"type":"record","name":"R","fields":[{"name":"l","type":"Later"},{"name":"d","type":{"type":"record","name":"Later","fields":[{"name":"i","type":"int"}]}}]}`,
			number(1) + number(2), 6, false}, // a reference counts too
	} {
		s, sparse, err := avroshape.ParseForward(c.schema)
		if err != nil || sparse != c.sparse {
			t.Errorf("%.100s: sparse %v, %v", c.schema, sparse, err)
			continue
		}
		if c.values < 0 {
			if err := s.CheckValues([]byte(c.datum), 1_000_000); !errors.Is(err, avroshape.ErrTooMany) {
				t.Errorf("%.100s: %v", c.schema, err)
			}
			continue
		}
		if err := s.CheckValues([]byte(c.datum), c.values); err != nil {
			t.Errorf("%.100s: not within %d: %v", c.schema, c.values, err)
		}
		if err := s.CheckValues([]byte(c.datum), c.values-1); !errors.Is(err, avroshape.ErrTooMany) {
			t.Errorf("%.100s: within %d: %v", c.schema, c.values-1, err)
		}
		if c.sparse && c.values > avroshape.SparseValues*int64(len(c.datum)+1) {
			t.Errorf("%.100s is no sparse schema", c.schema)
		}
	}
	if _, _, err := avroshape.ParseForward(`["null","Nowhere"]`); err == nil {
		t.Error("a type that is defined nowhere is taken")
	}
}
