package workload

import (
	"fmt"
	"math/bits"
)

// MaxSequences is how many messages a [Checker] can tell apart: sequence
// numbers below it. Its memory is then 125 MB, and never more.
const MaxSequences = 1_000_000_000

const (
	chunkBits  = 1 << 20 // sequence numbers per chunk of the bitmap
	chunkWords = chunkBits / 64
)

// Checker looks at every message that came back from one stream and counts
// what is wrong. Memory is one bit per sequence number seen, in chunks of
// 128 KiB. It must not be used by several goroutines at once.
type Checker struct {
	runID   uint64
	seen    [][]uint64 // chunks; nil where nothing was seen
	largest uint64     // largest sequence seen; valid if any is
	any     bool

	received  int64
	doubled   int64
	damaged   int64
	foreign   int64
	reordered int64
}

// NewChecker returns a checker of the messages of the run runID.
func NewChecker(runID uint64) *Checker { return &Checker{runID: runID} }

// Check looks at one payload and counts it. The only error is a sequence
// number that is undamaged but not below [MaxSequences]: the run is larger
// than can be checked.
func (c *Checker) Check(payload []byte) error {
	_, _, err := c.Take(payload)
	return err
}

// Take does what Check does, and tells which message it was. fresh says that it
// is one of this run, undamaged, that has not come before: only then is
// sequence its number.
func (c *Checker) Take(payload []byte) (sequence uint64, fresh bool, err error) {
	c.received++
	h, err := Parse(payload, c.runID)
	if err != nil {
		c.damaged++
		return 0, false, nil
	}
	if h.RunID != c.runID {
		c.damaged++
		c.foreign++
		return 0, false, nil
	}
	if h.Sequence >= MaxSequences {
		return 0, false, fmt.Errorf("message with sequence number %d: a run of more than %d messages cannot be checked; ask for fewer", h.Sequence, MaxSequences)
	}
	chunk := c.chunk(h.Sequence)
	word, bit := &chunk[h.Sequence%chunkBits/64], uint64(1)<<(h.Sequence%64)
	if *word&bit != 0 {
		c.doubled++
		return 0, false, nil
	}
	*word |= bit
	if c.any && h.Sequence < c.largest {
		c.reordered++
		return h.Sequence, true, nil
	}
	c.largest, c.any = h.Sequence, true
	return h.Sequence, true, nil
}

// chunk returns the part of the bitmap that holds sequence, which is below
// MaxSequences.
func (c *Checker) chunk(sequence uint64) []uint64 {
	i := int(sequence / chunkBits)
	for len(c.seen) <= i {
		c.seen = append(c.seen, nil)
	}
	if c.seen[i] == nil {
		c.seen[i] = make([]uint64, chunkWords)
	}
	return c.seen[i]
}

// Received returns how many messages Check was given.
func (c *Checker) Received() int64 { return c.received }

// Result is what a checker found.
type Result struct {
	Received int64 // all, whatever was wrong with them
	Lost     int64 // sequence numbers below the expected count that never came
	Doubled  int64 // came again, the first time not counted
	Damaged  int64 // wrong checksum, too short, or Foreign
	Foreign  int64 // of another run, undamaged; a small payload does not tell
	// Reordered came after one with a larger sequence number. A message that is
	// doubled as well counts as doubled only.
	Reordered int64
	// Unexpected are sequence numbers from the expected count up: more was
	// received than was sent.
	Unexpected int64
}

// Result returns what was found so far, if the sequence numbers from 0 to
// expected (exclusive) were sent.
func (c *Checker) Result(expected int64) Result {
	if expected < 0 {
		expected = 0
	}
	var below, all int64
	for i, chunk := range c.seen {
		for j, word := range chunk {
			n := int64(bits.OnesCount64(word))
			all += n
			switch first := int64(i)*chunkBits + int64(j)*64; {
			case first+64 <= expected:
				below += n
			case first < expected:
				below += int64(bits.OnesCount64(word & (1<<(expected-first) - 1)))
			}
		}
	}
	return Result{
		Received: c.received, Lost: expected - below, Doubled: c.doubled, Damaged: c.damaged,
		Foreign: c.foreign, Reordered: c.reordered, Unexpected: all - below,
	}
}

// Err returns nil when everything came once, whole and in order, and
// otherwise says what did not.
func (r Result) Err() error {
	if r.Lost == 0 && r.Doubled == 0 && r.Damaged == 0 && r.Reordered == 0 && r.Unexpected == 0 {
		return nil
	}
	return fmt.Errorf("of %d messages received: %d lost, %d doubled, %d damaged (%d of them from another run), %d reordered, %d never sent",
		r.Received, r.Lost, r.Doubled, r.Damaged, r.Foreign, r.Reordered, r.Unexpected)
}
