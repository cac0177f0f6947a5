package storage

import (
	"bytes"
	"encoding/binary"
	"testing"

	"kafkalab/kafka/message"
)

// ranges returns what scanPast finds in a segment file: the offsets of the sound
// entries, and the damaged ranges.
func ranges(t testing.TB, b []byte) (sound []int64, damaged []DamagedRange) {
	t.Helper()
	s := newScanner(bytes.NewReader(b), 1000, int64(len(b)))
	err := s.scanPast(testContext(t), func(e scanned, _ []byte) error {
		sound = append(sound, e.offset-1000)
		return nil
	}, func(d DamagedRange) error {
		d.Offset, d.End = d.Offset-1000, d.End-1000
		damaged = append(damaged, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sound, damaged
}

func TestScanPast(t *testing.T) {
	one, two, three := set(payload(1, 40)), set(payload(2, 50)), set(payload(3, 60))
	log := bytes.Join([][]byte{one, two, three}, nil)
	second, third, end := len(one), len(one)+len(two), len(log)
	empty := set(nil)
	embedded := set(bytes.Join([][]byte{[]byte("text"), one, []byte("text")}, nil))
	for name, test := range map[string]struct {
		log  []byte
		spot int // byte that is damaged, or -1
		with byte
		from int // the range
		to   int
	}{
		"payload":                       {log, second + 20, 1, second, third},
		"magic":                         {log, second + 4, 7, second, third},
		"length too large":              {log, second, 0x10, second, third},
		"length too small":              {log, second + 3, 0x37, second, third},
		"checksum":                      {log, second + 6, 1, second, third},
		"first message":                 {log, 10, 1, 0, second},
		"last message":                  {log, third + 10, 1, third, end},
		"last length":                   {log, third, 0x10, third, end},
		"torn":                          {log[:end-1], -1, 0, third, end - 1},
		"zeros behind":                  {append(log[:end:end], make([]byte, 3*scanBytes)...), -1, 0, end, end + 3*scanBytes},
		"a stray byte":                  {append(log[:end:end], 0), -1, 0, end, end + 1},
		"an empty one behind":           {bytes.Join([][]byte{one, two, empty, three}, nil), second + 20, 1, second, third},
		"empty ones to the end":         {bytes.Join([][]byte{one, two, empty, empty}, nil), second + 20, 1, second, third},
		"one that carries messages":     {bytes.Join([][]byte{one, embedded, three}, nil), second + 10, 1, second, second + len(embedded)},
		"what looks like an empty one":  {bytes.Join([][]byte{one, set(append([]byte{0, 0}, append(empty, 1, 2, 3)...)), three}, nil), second, 0x10, second, second + 9 + 14},
		"far behind, past the buffer":   {bytes.Join([][]byte{one, set(payload(4, 2*scanBytes)), three}, nil), second, 0x10, second, second + 9 + 2*scanBytes},
		"a compressed one, as it lies":  {bytes.Join([][]byte{one, compressed(t, two, message.CodecGzip), three}, nil), second + 30, 1, second, second + len(compressed(t, two, message.CodecGzip))},
		"a compressed one behind":       {bytes.Join([][]byte{one, two, compressed(t, three, message.CodecSnappy)}, nil), second, 0x10, second, third},
		"shorter than a header":         {[]byte{0, 0, 0}, -1, 0, 0, 3},
		"nothing but garbage, a buffer": {bytes.Repeat([]byte{0xff}, scanBytes+5), -1, 0, 0, scanBytes + 5},
	} {
		b := bytes.Clone(test.log)
		if test.spot >= 0 {
			b[test.spot] ^= test.with
		}
		_, damaged := ranges(t, b)
		if len(damaged) != 1 || damaged[0].Offset != int64(test.from) || damaged[0].End != int64(test.to) || damaged[0].Unsure || damaged[0].Err == nil {
			t.Errorf("%s: damaged %+v, wanted %d to %d", name, damaged, test.from, test.to)
		}
	}
}

// TestScanPastManyPlaces: each damage is a range of its own, and everything in
// between is found.
func TestScanPastManyPlaces(t *testing.T) {
	rng := newRand(t)
	for range 200 {
		var log []byte
		var starts []int64
		for i := range 30 {
			starts = append(starts, int64(len(log)))
			log = append(log, set(payload(i, 1+rng.IntN(2000)))...)
		}
		bad := map[int]bool{}
		for range 1 + rng.IntN(8) {
			i := rng.IntN(len(starts))
			end := int64(len(log))
			if i+1 < len(starts) {
				end = starts[i+1]
			}
			// Anything but the length, whose damage could join it to others.
			at := starts[i] + message.LengthSize + rng.Int64N(end-starts[i]-message.LengthSize)
			if !bad[i] {
				log[at] ^= byte(2 << rng.IntN(7))
			}
			bad[i] = true
		}
		sound, damaged := ranges(t, log)
		if len(sound) != len(starts)-len(bad) {
			t.Errorf("%d of %d messages are sound, %d were damaged: %+v", len(sound), len(starts), len(bad), damaged)
		}
	}
}

// TestSearchGivesUp: a file that is made to keep the search busy ends it, and
// what it says then is that it does not know.
func TestSearchGivesUp(t *testing.T) {
	// Each position of the second half looks like a long message.
	b := make([]byte, 2000)
	for i := range b {
		b[i] = 0xff
	}
	for i := 100; i+message.Overhead0 < len(b); i += message.Overhead0 {
		binary.BigEndian.PutUint32(b[i:], 500)
		b[i+4] = message.Magic0
	}
	s := newScanner(bytes.NewReader(b), 0, int64(len(b)))
	next, sure, err := s.search(testContext(t), 10_000)
	if err != nil || sure || next != int64(len(b)) || s.pos != 0 {
		t.Errorf("next %d, sure %v, %v", next, sure, err)
	}
	next, sure, err = s.search(testContext(t), searchBudget)
	if err != nil || !sure || next != int64(len(b)) {
		t.Errorf("with time: next %d, sure %v, %v", next, sure, err)
	}
}
