package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/twmb/avro"

	"kafkalab/kafka/internal/avroshape"
)

const (
	// MaxSchemaBytes is the longest text of a schema (inclusive). With the quotes of
	// the text escaped, it fits into a message of the topic of schemas.
	MaxSchemaBytes = 256 << 10
	// maxSchemaDepth is how deep arrays and objects of a schema's text may be nested.
	maxSchemaDepth = 128
	// MaxID is the largest id: readers of today take it for an int of 32 bits.
	MaxID = 1<<31 - 1
)

// Schema is a parsed Avro schema. It does not change, and may be used by several
// goroutines at once.
type Schema struct {
	text   string
	key    schemaKey
	avro   *avro.Schema
	fields map[string]bool // names of those of the record; nil: it is none

	shapeOnce sync.Once        // it is not needed where schemas are only kept
	shape     *avroshape.Shape // nil: no datum has very many values, see checkValues
	shapeErr  error

	headerOnce sync.Once
	header     *avro.Schema // reads the audit header alone
	headerErr  error
}

// schemaKey is equal for schemas that are equal as JSON values.
type schemaKey [sha256.Size]byte

// Parse parses the text of a schema, of at most [MaxSchemaBytes].
func Parse(text string) (*Schema, error) {
	compact, key, err := normalize(text)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	parsed, err := avro.Parse(compact)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{text: compact, key: key, avro: parsed, fields: fieldNames(compact)}, nil
}

// maxValues is how many values a datum may hold at least, and then
// [avroshape.SparseValues] for each of its bytes.
const maxValues = 8 << 10

// checkValues says why a datum holds more values than its bytes account for, before any
// is made: of types that have no bytes, such as null and records of nothing else, a datum
// holds as many as it claims, or as its schema has them contain each other.
func (s *Schema) checkValues(datum []byte) error {
	s.shapeOnce.Do(func() {
		shape, sparse, err := avroshape.ParseForward(s.text)
		switch {
		case err != nil:
			s.shapeErr = fmt.Errorf("how many values data have cannot be told: %w", err)
		case !sparse:
			s.shape = shape
		}
	})
	if s.shape == nil {
		return s.shapeErr
	}
	return s.shape.CheckValues(datum, maxValues+avroshape.SparseValues*int64(len(datum)))
}

// fieldNames returns the names of the fields of a record, nil of any other schema.
func fieldNames(text string) map[string]bool {
	// Maps, as fields of a struct would be found by keys of other letters too.
	var record map[string]json.RawMessage
	var kind, name string
	var fields []map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &record) != nil || json.Unmarshal(record["type"], &kind) != nil || kind != "record" && kind != "error" ||
		json.Unmarshal(record["fields"], &fields) != nil {
		return nil
	}
	names := make(map[string]bool, len(fields))
	for _, f := range fields {
		if json.Unmarshal(f["name"], &name) == nil {
			names[name] = true
		}
	}
	return names
}

// String returns the text of the schema, without blanks between its parts.
func (s *Schema) String() string { return s.text }

// Avro returns the schema for use with the Avro library.
func (s *Schema) Avro() *avro.Schema { return s.avro }

// Equal says whether two schemas are the same: equal as JSON values.
func (s *Schema) Equal(other *Schema) bool { return s.key == other.key }

// normalize checks the bounds of a schema's text, and returns it without blanks, and
// the key of its value.
func normalize(text string) (compact string, key schemaKey, err error) {
	switch {
	case len(text) > MaxSchemaBytes:
		return "", key, fmt.Errorf("its text has %d bytes: at most %d are taken", len(text), MaxSchemaBytes)
	case !utf8.ValidString(text):
		return "", key, errors.New("its text is not UTF-8")
	}
	if err := checkDepth(text); err != nil {
		return "", key, err
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber() // 1 and 1.0 are not the same default
	var value any
	if err := d.Decode(&value); err != nil {
		return "", key, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", key, errors.New("something follows behind it")
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil {
		return "", key, fmt.Errorf("it is not JSON: %w", err)
	}
	sorted, err := json.Marshal(value) // objects by their keys
	if err != nil {
		return "", key, fmt.Errorf("it is not JSON: %w", err)
	}
	return out.String(), sha256.Sum256(sorted), nil
}

// checkDepth bounds how deep a text is nested, before anything recurses into it.
// Brackets in strings are no nesting.
func checkDepth(text string) error {
	depth, quoted, escaped := 0, false, false
	for i := range len(text) {
		c := text[i]
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxSchemaDepth {
				return fmt.Errorf("it is nested deeper than %d levels", maxSchemaDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
