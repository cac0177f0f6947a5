package message

import (
	"fmt"
	"testing"
)

// BenchmarkCheck is what every message of a producer costs a broker, but for the
// write: 50 messages, as in a batch.
func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{20, 200} {
		b.Run(map[int]string{20: "20B", 200: "200B"}[size], func(b *testing.B) {
			var set []byte
			for range 50 {
				set = Append(set, make([]byte, size))
			}
			b.SetBytes(int64(len(set)))
			b.ReportAllocs()
			for b.Loop() {
				if _, n, err := Check(set, Limits{MaxPayload: 1_000_000}); n != 50 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkEncode is what every message costs a producer, but for the send.
func BenchmarkEncode(b *testing.B) {
	payload, buf := make([]byte, 200), make([]byte, 0, 1<<10)
	b.SetBytes(int64(EntrySize(len(payload))))
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], payload)
	}
}

// BenchmarkIterate is what every message costs a consumer, but for the read.
func BenchmarkIterate(b *testing.B) {
	var set []byte
	for range 1000 {
		set = Append(set, make([]byte, 200))
	}
	b.SetBytes(int64(len(set)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for it := Set(set).Iterate(0); it.Next(); n++ {
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkCodecs compresses, checks and walks a set of 200 lines of a log, as a
// producer, a broker and a consumer do. Bytes are those of the set as it is.
func BenchmarkCodecs(b *testing.B) {
	var set []byte
	for i := range 200 {
		set = Append(set, fmt.Appendf(nil, "10.0.%d.%d - - [11/Jun/2011:10:%02d:%02d +0000] \"GET /page/%x HTTP/1.1\" 200 %d", i%7, i%251, i/60, i%60, i*i*7919, i*37%5000))
	}
	for _, codec := range []Codec{CodecGzip, CodecSnappy} {
		entry, err := Compress(nil, set, codec)
		if err != nil {
			b.Fatal(err)
		}
		for name, f := range map[string]func(){
			"Compress": func() { entry, err = Compress(entry[:0], set, codec) },
			"Check":    func() { _, _, err = Check(entry, Limits{}) },
			"Iterate": func() {
				it := Set(entry).Iterate(0)
				for it.Next() {
				}
				err = it.Err()
			},
		} {
			b.Run(fmt.Sprintf("%v/%s", codec, name), func(b *testing.B) {
				b.SetBytes(int64(len(set)))
				b.ReportAllocs()
				for b.Loop() {
					if f(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(set))/float64(len(entry)), "ratio")
			})
		}
	}
}

// BenchmarkCheckOne is [BenchmarkCheck] for a request of one message.
func BenchmarkCheckOne(b *testing.B) {
	set := Append(nil, make([]byte, 200))
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := Check(set, Limits{MaxPayload: 1_000_000}); n != 1 || err != nil {
			b.Fatal(n, err)
		}
	}
}
