package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/avro"

	"kafkalab/kafka/envelope"
)

// HeaderField is the name of the field of a record that holds the audit header
// (NetDB'11 §4, rule R29).
const HeaderField = "header"

// headerType is the type of that field.
const headerType = `{"type":"record","name":"AuditHeader","namespace":"kafkalab","doc":"When, where and as which one a message was made.","fields":[` +
	`{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},` +
	`{"name":"server","type":"string"},` +
	`{"name":"producer","type":{"type":"fixed","name":"ProducerID","size":16}},` +
	`{"name":"sequence","type":"long","doc":"From 1 for each producer and topic, without a gap."}]}`

// headerDefault stands for no header. With a default the field can be added to a
// schema that has versions.
var headerDefault = `{"time":0,"server":"","producer":"` + strings.Repeat(`\u0000`, len(envelope.ProducerID{})) + `","sequence":0}`

// ErrNoHeader says that messages of a schema, or one of them, have no audit header.
var ErrNoHeader = errors.New("no audit header")

// WithHeader returns the text of a record's schema with the field of the audit header
// in front of the others. A schema that has it already stays as it is.
func WithHeader(text string) (string, error) {
	s, err := Parse(text)
	if err != nil {
		return "", err
	}
	if _, err := s.headerReader(); err == nil {
		return s.text, nil
	}
	record, err := parseObject([]byte(s.text))
	if err != nil {
		return "", fmt.Errorf("schema: only a record can have an audit header: %w", err)
	}
	var fields []json.RawMessage
	if err := json.Unmarshal(record.get("fields"), &fields); err != nil {
		return "", fmt.Errorf("schema: only a record can have an audit header: %w", err)
	}
	own := json.RawMessage(`{"name":"` + HeaderField + `","type":` + headerType + `,"default":` + headerDefault + `}`)
	all, err := json.Marshal(append([]json.RawMessage{own}, fields...))
	if err != nil {
		return "", fmt.Errorf("schema: %w", err)
	}
	record.set("fields", all)
	with, err := Parse(record.String())
	if err != nil {
		return "", fmt.Errorf("schema: the audit header does not go with it: %w", err)
	}
	return with.text, nil
}

// object is a JSON object whose keys keep their order.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

func parseObject(text []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(errors.New("it is no JSON object"), err)
	}
	var o object
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: key.(string)} // nothing else can be a key
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	return o, nil
}

func (o object) get(key string) json.RawMessage {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func (o object) set(key string, value json.RawMessage) {
	for i := range o {
		if o[i].key == key {
			o[i].value = value
		}
	}
}

func (o object) String() string {
	var b strings.Builder
	for i, m := range o {
		b.WriteString([]string{"{", ","}[min(i, 1)])
		key, _ := json.Marshal(m.key) // a string always can be
		b.Write(key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.String()
}

// headerReader returns what reads the audit header out of a datum of the schema, and
// passes over the rest.
func (s *Schema) headerReader() (*avro.Schema, error) {
	s.headerOnce.Do(func() { s.header, s.headerErr = s.makeHeaderReader() })
	return s.header, s.headerErr
}

func (s *Schema) makeHeaderReader() (*avro.Schema, error) {
	o, err := parseObject([]byte(s.text))
	if err != nil || o.get("name") == nil {
		return nil, fmt.Errorf("%w: the schema is no record", ErrNoHeader)
	}
	reader := object{{"type", json.RawMessage(`"record"`)}, {"name", o.get("name")}}
	if space := o.get("namespace"); space != nil {
		reader = append(reader, member{"namespace", space})
	}
	reader = append(reader, member{"fields", json.RawMessage(`[{"name":"` + HeaderField + `","type":` + headerType + `}]`)})
	only, err := avro.Parse(reader.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoHeader, err)
	}
	resolved, err := avro.Resolve(s.avro, only)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoHeader, err)
	}
	return resolved, nil
}

// headerDatum is a record of which the header alone is read.
type headerDatum struct {
	Header struct {
		Time     time.Time           `avro:"time"`
		Server   string              `avro:"server"`
		Producer envelope.ProducerID `avro:"producer"`
		Sequence int64               `avro:"sequence"`
	} `avro:"header"`
}

// Header returns the audit header of a payload. The error is [ErrNoHeader] if its
// schema has none or it was made without.
func (c *Client) Header(ctx context.Context, payload []byte) (envelope.Header, error) {
	id, s, datum, err := c.open(ctx, payload)
	if err != nil {
		return envelope.Header{}, err
	}
	reader, err := s.headerReader()
	if err != nil {
		return envelope.Header{}, &PayloadError{ID: id, Size: len(payload), Err: err}
	}
	var d headerDatum
	if err := s.decode(reader, datum, &d); err != nil {
		return envelope.Header{}, &PayloadError{ID: id, Size: len(payload), Err: err}
	}
	h := envelope.Header{Time: d.Header.Time, Server: d.Header.Server, Producer: d.Header.Producer, Sequence: uint64(max(d.Header.Sequence, 0))}
	if err := h.Check(); err != nil {
		return envelope.Header{}, &PayloadError{ID: id, Size: len(payload), Err: fmt.Errorf("%w: %w", ErrNoHeader, err)}
	}
	return h, nil
}

// appendHeader appends a header as JSON, as the field's type has it.
func appendHeader(dst []byte, h envelope.Header) ([]byte, error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	if h.Sequence > math.MaxInt64 {
		return nil, fmt.Errorf("schema: sequence %d of an audit header does not fit a long", h.Sequence)
	}
	server, err := json.Marshal(h.Server)
	if err != nil {
		return nil, fmt.Errorf("schema: server of an audit header: %w", err)
	}
	dst = fmt.Appendf(dst, `{"time":%d,"server":%s,"producer":"`, h.Time.UnixMilli(), server)
	for _, b := range h.Producer { // a byte is the character with its number
		dst = fmt.Appendf(dst, `\u%04x`, b)
	}
	return fmt.Appendf(dst, `","sequence":%d}`, h.Sequence), nil
}
