package broker_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Vectors of Kafka 0.7: "one", "two", "three" in one entry.
var (
	entryGzip = unhex(`0000003f 01 01 4539a073
		1f8b0800000000000000636060e06464a8ca69fb989f97ca00e6089eea4a2b29cf0772b81919dc8edef85a9251949a0a000da421ea29
		000000`)
	entrySnappy = unhex(`00000045 01 02 24873405
		82534e415050590000000001000000010000002b29a00000000901007a6c86f16f6e6500000009010011ca8a6674776f0000000b0100
		46c5d8f57468726565`)
	entryLast = unhex("0000000a 01 00 4adba9a0 6c617374")
)

// compressed returns the entry that holds the set.
func compressed(codec message.Codec, set ...[]byte) []byte {
	entry, err := message.Compress(nil, join(set...), codec)
	if err != nil {
		panic(err)
	}
	return entry
}

// compressedSets are sets with what the broker of compressedConfig, which takes
// payloads of 400 bytes and 10,000 when they are decompressed, does with them.
var compressedSets = []struct {
	name     string
	set      []byte
	stored   []byte // of it
	messages int    // in what is stored
	code     wire.Code
	dropped  bool // with code: the connection of a silent producer stays open
}{
	{name: "V25 gzip", set: entryGzip, stored: entryGzip, messages: 3},
	{name: "V26 snappy", set: entrySnappy, stored: entrySnappy, messages: 3},
	{name: "V27 mixed", set: join(entryP0, entryP, entryGzip, entryLast), stored: join(entryP0, entryP, entryGzip, entryLast), messages: 6},
	{name: "nested", set: compressed(message.CodecGzip, entryGzip, entryLast), stored: compressed(message.CodecGzip, entryGzip, entryLast), messages: 4},
	{name: "snappy as a bare block", set: message.Append1(nil, []byte("\x09\x20\x00\x00\x00\x05\x00\x00\x00\x00\x00"), message.CodecSnappy),
		stored: message.Append1(nil, []byte("\x09\x20\x00\x00\x00\x05\x00\x00\x00\x00\x00"), message.CodecSnappy), messages: 1},
	{name: "no message inside", set: message.Append1(nil, []byte{0}, message.CodecSnappy), stored: message.Append1(nil, []byte{0}, message.CodecSnappy)},
	{name: "the next one cut", set: join(entryGzip, entrySnappy[:70]), stored: entryGzip, messages: 3},
	{name: "as large inside as is allowed", set: compressed(message.CodecGzip, message.Append(nil, make([]byte, 9991))),
		stored: compressed(message.CodecGzip, message.Append(nil, make([]byte, 9991))), messages: 1},

	{name: "no gzip", set: join(entryP, message.Append1(nil, []byte("x"), message.CodecGzip)), code: wire.CodeInvalidMessage},
	{name: "no snappy", set: message.Append1(nil, []byte("xxxx"), message.CodecSnappy), code: wire.CodeInvalidMessage},
	{name: "gzip cut", set: message.Append1(nil, entryGzip[10:63], message.CodecGzip), code: wire.CodeInvalidMessage},
	{name: "CRC of the compressed bytes", set: join(entryGzip[:66], []byte("X")), code: wire.CodeInvalidMessage},
	{name: "CRC of a message inside", set: compressed(message.CodecGzip, entryP, entryP[:25], []byte("X")), code: wire.CodeInvalidMessage},
	{name: "magic of a message inside", set: compressed(message.CodecSnappy, unhex("00000006 02 00 00000000")), code: wire.CodeInvalidMessage},
	{name: "a message inside cut", set: message.Append1(nil, []byte("\x05\x10\x00\x00\x00\x05\x00"), message.CodecSnappy), code: wire.CodeInvalidMessage},
	{name: "first entry cut", set: entryGzip[:60], code: wire.CodeInvalidMessage},
	{name: "compressed too often", set: nested(message.MaxNesting + 1), code: wire.CodeInvalidMessage},
	{name: "claims 4 GiB", set: message.Append1(nil, []byte("\xff\xff\xff\xff\x0f\x00a"), message.CodecSnappy), code: wire.CodeInvalidMessage},
	{name: "holds too much", set: join(entryP, compressed(message.CodecGzip, message.Append(nil, make([]byte, 9992)))), code: wire.CodeMessageTooLarge, dropped: true},
	{name: "holds too much, nested", set: compressed(message.CodecGzip, compressed(message.CodecGzip, message.Append(nil, make([]byte, 9980)))), code: wire.CodeMessageTooLarge, dropped: true},
	{name: "too large as it is", set: compressed(message.CodecSnappy, message.Append(nil, noise)), code: wire.CodeMessageTooLarge, dropped: true},
}

// noise is what no codec makes fewer bytes of.
var noise = func() []byte {
	rnd, b := rand.New(rand.NewPCG(1, 2)), make([]byte, 500)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}()

// nested returns an entry that was compressed so many times.
func nested(times int) []byte {
	e := entryP
	for range times {
		e = compressed(message.CodecGzip, e)
	}
	return e
}

func compressedConfig(c *broker.Config) {
	goldenConfig(c)
	c.MaxMessageBytes = 400
	c.MaxDecompressedBytes = 10_000
}

// TestCompressedSets: a compressed set is stored as it came, or nothing of it is,
// whether its producer is told or not, and the messages inside are counted.
func TestCompressedSets(t *testing.T) {
	for _, row := range compressedSets {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Start(t, compressedConfig, withMetrics)
			stored := func(topic string, times int) {
				t.Helper()
				if got, err := os.ReadFile(filepath.Join(b.Config.LogDir, topic+"-0", fmt.Sprintf("%020d.kafka", 0))); err != nil || !bytes.Equal(got, bytes.Repeat(row.stored, times)) {
					t.Errorf("log of %q is %x, %v; want %d × %x", topic, got, err, times, row.stored)
				}
				if got := metric(t, b, fmt.Sprintf("kafka_broker_messages_in_total{topic=%q}", topic)); got != float64(times*row.messages) && !(row.stored == nil && got == -1) {
					t.Errorf("%v messages of %q are counted, want %d", got, topic, times*row.messages)
				}
			}
			acked := dial(t, b)
			for i := range 2 { // the offsets are those of the entry
				acked.send(wire.AppendAckedProduce(nil, "acked", 0, row.set, wire.AcksAppended, 1000))
				at := wire.AckedRange{Base: int64(i * len(row.stored)), Next: int64((i + 1) * len(row.stored))}
				if row.code != wire.CodeNone {
					at = wire.AckedRange{Base: -1, Next: -1}
				}
				acked.want(row.code, wire.AppendAckedRange(nil, at))
			}
			stored("acked", 2)

			silent := dial(t, b)
			silent.send(join(produce("silent", 0, row.set), produce("silent", 0, row.set)))
			if row.code == wire.CodeNone || row.dropped {
				silent.barrier()
			} else if got := silent.rest(); len(got) > 0 {
				t.Errorf("answer %x before the close", got)
			}
			stored("silent", 2)
		})
	}
}

// TestCompressedMessagesCountForTheFlush: the messages inside are what a flush by
// number counts (Kafka 0.7 §3.4).
func TestCompressedMessagesCountForTheFlush(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.FlushMessages = 4 })
	p := dial(t, b)
	p.send(produce("t", 0, entryGzip))
	p.barrier()
	if got := logOf(t, b, "t", 0); len(got) > 0 {
		t.Errorf("visible behind three messages: %x", got)
	}
	p.send(produce("t", 0, entrySnappy))
	p.barrier()
	if got := logOf(t, b, "t", 0); !bytes.Equal(got, join(entryGzip, entrySnappy)) {
		t.Errorf("visible behind six messages: %x", got)
	}
}

// TestCompressedBombs: many connections with entries that hold as much as is
// allowed do not make the broker stand still for others.
func TestCompressedBombs(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.MaxDecompressedBytes = 32 << 20 })
	bomb := compressed(message.CodecGzip, message.Append(nil, make([]byte, 31<<20)))
	tooMuch := compressed(message.CodecGzip, message.Append(nil, make([]byte, 33<<20)))
	var peers []*peer
	for range 8 {
		p := dial(t, b)
		p.send(produce("bombs", 0, slices.Concat(bomb, bomb)))
		p.send(produce("bombs", 0, tooMuch)) // dropped
		peers = append(peers, p)
	}
	other := dial(t, b)
	other.send(produce("t", 0, entryGzip))
	other.barrier()
	for _, p := range peers {
		p.barrier()
	}
	if got, want := len(logOf(t, b, "bombs", 0)), 16*len(bomb); got != want {
		t.Errorf("%d bytes of bombs are stored, want %d", got, want)
	}
}
