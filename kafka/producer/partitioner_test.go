package producer

import (
	"math"
	"testing"
)

// The hash is Java's, over UTF-16 units, and so is the partition that a key
// chooses (Kafka 0.7, DefaultPartitioner).
func TestHashPartitioner(t *testing.T) {
	for _, c := range []struct {
		key  string
		hash int32
		of10 int
	}{
		{"", 0, 0},
		{"a", 97, 7},
		{"key", 106079, 9},
		{"topic1", -868034334, 4},
		{"é", 0xe9, 3},
		{"日本", 31*0x65e5 + 0x672c, (31*0x65e5 + 0x672c) % 10},
		{"😀", 31*0xd83d + 0xde00, 9}, // two units
		{"polygenelubricants", math.MinInt32, 8},
		{"\xff", 0xff, 5},                             // not UTF-8: each byte is a character
		{"\xc3\xa9\xff", 31*(31*0xc3+0xa9) + 0xff, 9}, // though it begins with an é
		{"\x00\x00\x00\x80", 0x80, 8},                 // a number, say
		{"\x00\x00\x00\x81", 0x81, 9},                 // another one
	} {
		if got := javaHash([]byte(c.key)); got != c.hash {
			t.Errorf("hash of %q is %d, want %d", c.key, got, c.hash)
		}
		if got := (HashPartitioner{}).Partition("t", []byte(c.key), 10); got != c.of10 {
			t.Errorf("%q chooses %d of 10, want %d", c.key, got, c.of10)
		}
	}
}

func TestPartitionersStayWithinTheList(t *testing.T) {
	for _, p := range []Partitioner{HashPartitioner{}, RandomPartitioner{}} {
		for n := 1; n < 20; n++ {
			for _, key := range []string{"polygenelubricants", "topic1", "x", "\xff\xfe\x80"} {
				if i := p.Partition("t", []byte(key), n); i < 0 || i >= n {
					t.Errorf("%T: %d of %d", p, i, n)
				}
			}
		}
	}
}

func BenchmarkHashPartitioner(b *testing.B) {
	key := []byte("a key of ordinary length")
	b.ReportAllocs()
	for b.Loop() {
		_ = HashPartitioner{}.Partition("t", key, 12)
	}
}
