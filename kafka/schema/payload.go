package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/avro"

	"kafkalab/kafka/envelope"
)

// PayloadError says that a payload cannot be read, while others can. Its text is
// short, whatever the payload holds.
type PayloadError struct {
	ID   uint32 // of the schema that it names
	Size int    // in bytes
	Err  error
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("payload of %d bytes with schema %d: %s", e.Size, e.ID, shorten(e.Err.Error()))
}

func (e *PayloadError) Unwrap() error { return e.Err }

// open takes a payload apart and looks its schema up. datum is a part of it.
func (c *Client) open(ctx context.Context, payload []byte) (id uint32, s *Schema, datum []byte, err error) {
	id, datum, err = envelope.OpenSchema(payload)
	if err != nil {
		return 0, nil, nil, err
	}
	s, err = c.Schema(ctx, id)
	return id, s, datum, err
}

// Open takes a payload apart and looks its schema up, at the registry if it is not
// known yet. datum is a part of payload, and not looked at.
//
// Errors: [envelope.ErrNotEnvelope] and [*envelope.MalformedError] of a payload
// without a schema, [ErrUnknownID], and [ErrUnavailable], after which it can be tried
// again.
func (c *Client) Open(ctx context.Context, payload []byte) (s *Schema, datum []byte, err error) {
	_, s, datum, err = c.open(ctx, payload)
	return s, datum, err
}

// Decode reads a payload into v, as the Avro library does: into a struct whose fields
// have the names of some or all of the record's, a map, or an *any. Beside those of Open the error
// may be a [*PayloadError].
func (c *Client) Decode(ctx context.Context, payload []byte, v any) error {
	id, s, datum, err := c.open(ctx, payload)
	if err != nil {
		return err
	}
	if err := s.decode(s.avro, datum, v, avro.SkipUnknown()); err != nil {
		return &PayloadError{ID: id, Size: len(payload), Err: err}
	}
	return nil
}

// AppendJSON appends a payload as JSON to dst, in Avro's JSON encoding, in which the
// value of a union is an object that names its type. Errors are those of Decode; dst
// is returned as it came then.
func (c *Client) AppendJSON(ctx context.Context, dst, payload []byte) ([]byte, error) {
	id, s, datum, err := c.open(ctx, payload)
	if err != nil {
		return dst, err
	}
	var v any
	err = s.decode(s.avro, datum, &v, avro.TaggedUnions())
	var text []byte
	if err == nil {
		text, err = s.avro.EncodeJSON(v, avro.TaggedUnions())
	}
	if err != nil {
		return dst, &PayloadError{ID: id, Size: len(payload), Err: err}
	}
	return append(dst, text...), nil
}

// decode reads a whole datum by a reader of the schema.
func (s *Schema) decode(reader *avro.Schema, datum []byte, v any, opts ...avro.Opt) error {
	if err := s.checkValues(datum); err != nil {
		return err
	}
	rest, err := reader.Decode(datum, v, opts...)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow behind the datum", len(rest))
	}
	return err
}

// Encoder makes payloads of one schema. It does not change, and may be used by
// several goroutines at once.
type Encoder struct {
	id     uint32
	schema *Schema
}

// NewEncoder returns an encoder for a schema, and the id that a registry has given it.
func NewEncoder(id uint32, s *Schema) *Encoder { return &Encoder{id, s} }

// ID returns the id that the payloads carry.
func (e *Encoder) ID() uint32 { return e.id }

// Append appends a payload that holds v to dst: a struct, a map or another value as
// the Avro library takes it. After an error dst is returned as it came.
func (e *Encoder) Append(dst []byte, v any) ([]byte, error) {
	out, err := e.schema.avro.AppendEncode(envelope.AppendSchema(dst, e.id, nil), v)
	if err != nil {
		return dst, fmt.Errorf("schema %d: %s", e.id, shorten(err.Error()))
	}
	return out, nil
}

// AppendJSON appends a payload that holds a JSON value to dst. The value is in Avro's
// JSON encoding; that of a union may also stand alone, and is then of the first type
// that it fits. A field that the record does not have is an error; those of records
// inside it are passed over. After an error dst is returned as it came.
func (e *Encoder) AppendJSON(dst, value []byte) ([]byte, error) {
	if _, err := e.members(value); err != nil {
		return dst, err
	}
	return e.appendJSON(dst, value)
}

func (e *Encoder) appendJSON(dst, value []byte) ([]byte, error) {
	var v any
	if err := e.schema.avro.DecodeJSON(value, &v, avro.TaggedUnions()); err != nil {
		return dst, fmt.Errorf("schema %d: %s", e.id, shorten(err.Error()))
	}
	return e.Append(dst, v)
}

// members returns the members of a record's value, and finds those that the record does
// not have: they would be lost without a word. Of any other schema it returns none.
func (e *Encoder) members(value []byte) (members map[string]json.RawMessage, err error) {
	if e.schema.fields == nil {
		return nil, nil
	}
	if err := json.Unmarshal(value, &members); err != nil {
		return nil, fmt.Errorf("schema %d: the value of a record is wanted: %w", e.id, err)
	}
	for name := range members {
		if !e.schema.fields[name] {
			return nil, fmt.Errorf("schema %d: the record has no field %.60q", e.id, name)
		}
	}
	return members, nil
}

// AppendJSONWithHeader is AppendJSON of a record to which the audit header is added, for
// which its schema has a field: see [WithHeader]. The value must not have one.
func (e *Encoder) AppendJSONWithHeader(dst, value []byte, h envelope.Header) ([]byte, error) {
	if _, err := e.schema.headerReader(); err != nil {
		return dst, fmt.Errorf("schema %d: %w", e.id, err)
	}
	members, err := e.members(value)
	if err != nil {
		return dst, err
	}
	if _, has := members[HeaderField]; has || members == nil {
		return dst, fmt.Errorf("schema %d: the value has a field %q already, or is none at all", e.id, HeaderField)
	}
	with, err := appendHeader([]byte(`{"`+HeaderField+`":`), h)
	if err != nil {
		return dst, err
	}
	if len(members) > 0 {
		with = append(with, ',')
	}
	_, rest, _ := bytes.Cut(value, []byte("{")) // it is an object
	return e.appendJSON(dst, append(with, rest...))
}
