package envelope

import (
	"encoding/binary"
	"fmt"
)

// SchemaHeaderSize is what the framing of a schema adds to an Avro datum, in bytes.
const SchemaHeaderSize = 1 + 4

// AppendSchema appends the payload of an Avro datum of a schema to dst.
func AppendSchema(dst []byte, id uint32, avro []byte) []byte {
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, id)
	return append(dst, avro...)
}

// OpenSchema takes a payload apart that AppendSchema, or another Avro tool, has
// made. avro is a part of it, and not looked at. Errors are [ErrNotEnvelope], for a
// payload that does not begin with a zero byte, and [*MalformedError].
func OpenSchema(payload []byte) (id uint32, avro []byte, err error) {
	if len(payload) == 0 || payload[0] != 0 {
		return 0, nil, ErrNotEnvelope
	}
	if len(payload) < SchemaHeaderSize {
		return 0, nil, &MalformedError{Field: "schema id", Size: len(payload), why: fmt.Sprintf("it needs %d bytes", SchemaHeaderSize)}
	}
	return binary.BigEndian.Uint32(payload[1:]), payload[SchemaHeaderSize:], nil
}
