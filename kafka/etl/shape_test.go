package etl

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kafkalab/kafka/internal/vfs"
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
		s, err := parseShape(c.schema)
		must(t, err)
		rest, err := s.skip([]byte(c.datum+"rest"), 0)
		if err != nil || string(rest) != "rest" {
			t.Errorf("%s: %q is left of %q, %v", c.schema, rest, c.datum, err)
		}
		for _, b := range c.bad {
			if rest, err := s.skip([]byte(b), 0); err == nil {
				t.Errorf("%s: %q is taken, and %q left", c.schema, b, rest)
			} else if !errors.Is(err, errDatum) {
				t.Errorf("%s: %q: %v", c.schema, b, err)
			}
		}
	}
	for _, schema := range []string{"", "{}", `"unknown"`, `{"type":"array"}`, `{"type":"record","name":"R","fields":[{"name":"x"}]}`, `{"type":"fixed","name":"F","size":-1}`, "7"} {
		if s, err := parseShape(schema); err == nil {
			t.Errorf("schema %q is taken: %+v", schema, s)
		}
	}
	// What has no bytes takes no time, though this contains it 2⁶⁰ times.
	for _, nothing := range []string{`{"type":"record","name":"N0","fields":[]}`, `{"type":"fixed","name":"N0","size":0}`} {
		schema := nothing
		for i := range 60 {
			schema = fmt.Sprintf(`{"type":"record","name":"N%d","fields":[{"name":"a","type":%s},{"name":"b","type":"N%d"}]}`, i+1, schema, i)
		}
		s, err := parseShape(schema)
		must(t, err)
		if rest, err := s.skip([]byte("rest"), 0); err != nil || string(rest) != "rest" {
			t.Errorf("%s, many times: %q is left, %v", nothing, rest, err)
		}
	}
	// A record that holds itself has no end.
	endless, err := parseShape(`{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}`)
	must(t, err)
	if _, err := endless.skip(nil, 0); !errors.Is(err, errDatum) {
		t.Errorf("a datum without an end: %v", err)
	}
}

// Whatever a file holds, reading it ends, with an error unless it is whole.
func FuzzReadFile(f *testing.F) {
	dir := f.TempDir()
	s := testSplit()
	s.SchemaRegistry = "http://registry"
	out := newSorter(s, newLocal(vfs.OS(), dir), "", testSchemas{})
	for i := range 3 {
		for _, p := range [][]byte{enveloped(noon, i+1), datum(7, "text", int64(i))} {
			if err := out.add(f.Context(), s.Start, p); err != nil {
				f.Fatal(err)
			}
		}
	}
	made, err := out.finish()
	must(f, err)
	for _, m := range made {
		b, err := os.ReadFile(filepath.Join(dir, filesFolder, m.Name))
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_ = readRaw(bufio.NewReader(bytes.NewReader(b)), func(int64, []byte) error { n++; return nil })
		_ = readContainer(bufio.NewReader(bytes.NewReader(b)), func([]byte) error { n++; return nil })
	})
}
