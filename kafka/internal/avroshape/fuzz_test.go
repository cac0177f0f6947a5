package avroshape_test

import (
	"testing"

	"github.com/twmb/avro"

	"kafkalab/kafka/internal/avroshape"
)

// FuzzParseForward: what the Avro library takes for a schema has a shape, and what it has
// written by the schema ends where the shape says.
func FuzzParseForward(f *testing.F) {
	for _, text := range []string{
		`"null"`, `["null","string"]`, `{"type":"long","logicalType":"timestamp-millis"}`, `{"type":"array","items":"null"}`,
		`{"type":"map","values":{"type":"fixed","name":"F","size":2}}`,
		`{"type":"enum","name":"E","namespace":"a.b","symbols":["A","B"],"default":"A"}`,
		`{"type":"record","name":"a.R","fields":[{"name":"x","type":["null","R"],"default":null},{"name":"y","type":"a.R"}]}`,
		`{"type":"record","name":"R","fields":[{"name":"l","type":"Later"},{"name":"d","type":{"type":"record","name":"Later","fields":[{"name":"i","type":"int"}]}}]}`,
		`{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":{"type":"fixed","name":"F","namespace":"","size":1}},{"name":"g","type":"F"},{"name":"h","type":".F"}]}`,
		`{"type":"record","name":"R","fields":[{"name":"a","type":"long","Type":"string"}]}`,
		`{"type":"error","name":"R","fields":[]}`,
	} {
		f.Add(text, []byte{2, 0, 4, 'a', 'b', 0})
	}
	f.Fuzz(func(t *testing.T, text string, datum []byte) {
		if len(text) > 2000 || len(datum) > 2000 {
			return
		}
		schema, err := avro.Parse(text)
		if err != nil {
			return
		}
		s, sparse, err := avroshape.ParseForward(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		most := int64(100_000)
		if sparse {
			most = avroshape.SparseValues * int64(len(datum)+1)
		}
		if s.CheckValues(datum, most) != nil {
			return
		}
		var v any
		rest, err := schema.Decode(datum, &v)
		if err != nil {
			return // as a text that is not UTF-8
		}
		after, err := s.Skip(datum)
		if err != nil || len(after) != len(rest) {
			t.Errorf("%s: %q is left of %q, and the library leaves %q: %v", text, after, datum, rest, err)
		}
	})
}
