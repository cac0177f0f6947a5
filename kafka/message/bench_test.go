package message

import "testing"

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
				if _, n, err := Check(set, 1_000_000); n != 50 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
