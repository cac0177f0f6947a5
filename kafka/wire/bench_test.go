package wire_test

import (
	"encoding/binary"
	"testing"

	"kafkalab/kafka/wire"
)

// BenchmarkParse is what the requests of a producer cost a broker beside the messages
// in them: framing and body of a Produce with one message of 200 bytes.
func BenchmarkParse(b *testing.B) {
	request := wire.AppendProduce(nil, "topic", 0, make([]byte, 209))
	b.SetBytes(int64(len(request)))
	b.ReportAllocs()
	for b.Loop() {
		frame := request[wire.SizeSize:]
		if int(binary.BigEndian.Uint32(request)) != len(frame) {
			b.Fatal("size")
		}
		typ, body, err := wire.SplitRequest(frame)
		if err != nil || typ != wire.TypeProduce {
			b.Fatal(typ, err)
		}
		if p, err := wire.ParseProduce(body); err != nil || len(p.Set) != 209 {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode is the other side of it.
func BenchmarkEncode(b *testing.B) {
	set, buf := make([]byte, 209), make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.AppendProduce(buf[:0], "topic", 0, set)
	}
}
