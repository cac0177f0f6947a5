package etl

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"strconv"

	"github.com/klauspost/compress/flate"
)

// container is an Avro object container file: what every Avro tool reads. Payloads hold
// their datum in the very form that a container wants, so they are not taken apart,
// only checked.
//
//	"Obj" 1              magic
//	map of text → bytes  avro.schema, avro.codec, kafkalab.schema.id
//	16 bytes             sync marker
//	blocks: long number of data, long length in bytes, the data compressed, sync marker
//	a block of no data
//
// The last block is ours: the specification allows it, and it tells a file that was cut
// between two blocks from a whole one.
type container struct {
	header []byte
	sync   [16]byte
}

const (
	containerMagic = "Obj\x01"
	schemaKey      = "avro.schema"
	codecKey       = "avro.codec"
	codecDeflate   = "deflate"
	schemaIDKey    = "kafkalab.schema.id"
)

func newContainer(schema string, id uint32) *container {
	c := &container{}
	_, _ = rand.Read(c.sync[:]) // never fails (see crypto/rand)
	h := []byte(containerMagic)
	h = binary.AppendVarint(h, 3)
	for _, kv := range [][2]string{{schemaKey, schema}, {codecKey, codecDeflate}, {schemaIDKey, strconv.FormatUint(uint64(id), 10)}} {
		for _, text := range kv {
			h = binary.AppendVarint(h, int64(len(text)))
			h = append(h, text...)
		}
	}
	h = binary.AppendVarint(h, 0)
	c.header = append(h, c.sync[:]...)
	return c
}

func (c *container) begin(dst []byte) []byte { return append(dst, c.header...) }

func (c *container) piece(dst *bytes.Buffer, p *packer, gathered []byte, messages int64) error {
	var packed bytes.Buffer
	if p.raw == nil {
		w, err := flate.NewWriter(&packed, level)
		if err != nil {
			return err
		}
		p.raw = w
	} else {
		p.raw.Reset(&packed)
	}
	if _, err := p.raw.Write(gathered); err != nil {
		return err
	}
	if err := p.raw.Close(); err != nil {
		return err
	}
	head := binary.AppendVarint(nil, messages)
	head = binary.AppendVarint(head, int64(packed.Len()))
	dst.Write(head)
	dst.Write(packed.Bytes())
	dst.Write(c.sync[:])
	return nil
}

func (c *container) end(dst *bytes.Buffer, p *packer, _ int64) error {
	return c.piece(dst, p, nil, 0)
}
