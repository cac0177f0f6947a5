package pipeline

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"

	"kafkalab/results/resultfile"
)

// What a front end publishes is lines, each of which can be told from all others
// and from one that was damaged:
//
//	<run id, 16 hex digits> <number, 12 digits> <letters> <CRC of what is before, 8 hex digits>
const (
	lineHead  = 16 + 1 + 12 + 1
	lineTail  = 1 + 8
	leastLine = lineHead + lineTail // bytes, without the line's end
)

// appendLine appends the line of a number, which has size bytes.
func appendLine(dst []byte, runID uint64, number int64, size int) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, "%016x %012d ", runID, number)
	for i := size - leastLine; i > 0; i-- {
		dst = append(dst, 'a'+byte((number+int64(i))%26))
	}
	return fmt.Appendf(dst, " %08x", crc32.ChecksumIEEE(dst[start:]))
}

// parseLine returns the number of a line of a run, false if it is none that was
// made by appendLine.
func parseLine(line []byte, runID uint64, size int) (number int64, ok bool) {
	if len(line) != size || size < leastLine {
		return 0, false
	}
	body, sum := line[:size-lineTail], line[size-lineTail+1:]
	crc, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || line[size-lineTail] != ' ' || uint32(crc) != crc32.ChecksumIEEE(body) {
		return 0, false
	}
	id, rest, _ := bytes.Cut(body, []byte{' '})
	digits, _, _ := bytes.Cut(rest, []byte{' '})
	run, err := strconv.ParseUint(string(id), 16, 64)
	if err != nil || run != runID {
		return 0, false
	}
	number, err = strconv.ParseInt(string(digits), 10, 64)
	return number, err == nil && number >= 0
}

// ledger knows which lines have come to which tier, and how often. It may be used
// by several goroutines at once.
type ledger struct {
	runID uint64
	size  int // of a line

	mu    sync.Mutex
	tiers []tierLedger // in the order of resultfile.Tiers
}

type tierLedger struct {
	seen                       []uint64 // a bit for each number
	distinct, doubled, damaged int64
}

func newLedger(runID uint64, size int, messages int64) *ledger {
	l := &ledger{runID: runID, size: size}
	for range resultfile.Tiers() {
		l.tiers = append(l.tiers, tierLedger{seen: make([]uint64, (messages+63)/64)})
	}
	return l
}

// take notes a line that came to a tier, and says whether it is the first time.
func (l *ledger) take(tier int, line []byte) (fresh bool) {
	n, ok := parseLine(line, l.runID, l.size)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.tiers[tier]
	if !ok || n >= int64(len(t.seen))*64 {
		t.damaged++
		return false
	}
	bit := uint64(1) << (n % 64)
	if t.seen[n/64]&bit != 0 {
		t.doubled++
		return false
	}
	t.seen[n/64] |= bit
	t.distinct++
	return true
}

// spoil notes something that came to a tier and is no line.
func (l *ledger) spoil(tier int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tiers[tier].damaged++
}

// counts are those of a tier so far.
func (l *ledger) counts(tier int) (distinct, doubled, damaged int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.tiers[tier]
	return t.distinct, t.doubled, t.damaged
}
