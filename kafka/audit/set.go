package audit

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// MaxSequence is the largest sequence number that is counted (inclusive): the
// largest that JSON's numbers carry exactly, and far beyond what a producer sends.
const MaxSequence = 1<<53 - 1

// Range is the numbers from First to Last, both of them included.
type Range struct{ First, Last uint64 }

// Size returns how many numbers there are.
func (r Range) Size() uint64 { return r.Last - r.First + 1 }

// Set is a set of sequence numbers, kept as the ranges it consists of: what arrives
// without a gap is one range, however much it is. The zero Set is empty. It is for
// one goroutine at a time.
//
// The ranges lie in blocks, so that a number in the middle of very many moves only
// those of its block.
type Set struct {
	blocks [][]Range // none is empty; all ranges rise, with a gap between any two
	ranges int
	count  uint64
}

// maxBlock is how many ranges a block has before it is split.
const maxBlock = 256

// Count returns how many numbers are in the set.
func (s *Set) Count() uint64 { return s.count }

// Ranges returns how many ranges they are: what bounds its memory, 16 bytes each.
func (s *Set) Ranges() int { return s.ranges }

// Empty reports whether there is no number in it.
func (s *Set) Empty() bool { return s.count == 0 }

// All gives the ranges in rising order. The set must not change meanwhile.
func (s *Set) All() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		for _, b := range s.blocks {
			for _, r := range b {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// find returns the block and the place in it of the first range that ends at n or
// later; the number of blocks, if there is none.
func (s *Set) find(n uint64) (block, at int) {
	block = sort.Search(len(s.blocks), func(i int) bool { b := s.blocks[i]; return b[len(b)-1].Last >= n })
	if block == len(s.blocks) {
		return block, 0
	}
	b := s.blocks[block]
	return block, sort.Search(len(b), func(i int) bool { return b[i].Last >= n })
}

// Contains reports whether a number is in the set.
func (s *Set) Contains(n uint64) bool {
	block, at := s.find(n)
	return block < len(s.blocks) && s.blocks[block][at].First <= n
}

// Add puts a range of numbers up to [MaxSequence] into the set and returns how many
// of them were not in it yet.
func (s *Set) Add(r Range) (fresh uint64) {
	// What touches r is one range with it, so the search is for its neighbour too.
	block, at := s.find(max(r.First, 1) - 1)
	if block == len(s.blocks) {
		s.append(r)
		return r.Size()
	}
	merged, had := r, uint64(0)
	endBlock, end := block, at // behind what becomes part of merged
	for {
		b := s.blocks[endBlock]
		for ; end < len(b) && b[end].First <= merged.Last+1; end++ {
			merged.First, merged.Last = min(merged.First, b[end].First), max(merged.Last, b[end].Last)
			had += b[end].Size()
		}
		if end < len(b) || endBlock+1 == len(s.blocks) || s.blocks[endBlock+1][0].First > merged.Last+1 {
			break
		}
		endBlock, end = endBlock+1, 0
	}
	s.replace(block, at, endBlock, end, merged)
	fresh = merged.Size() - had
	s.count += fresh
	return fresh
}

// append adds a range that lies behind all others and touches none.
func (s *Set) append(r Range) {
	if n := len(s.blocks); n == 0 || len(s.blocks[n-1]) == maxBlock {
		s.blocks = append(s.blocks, nil)
	}
	last := len(s.blocks) - 1
	s.blocks[last] = append(s.blocks[last], r)
	s.ranges++
	s.count += r.Size()
}

// replace puts r in the place of the ranges from a place in one block up to a place
// in the same or a later one.
func (s *Set) replace(block, at, endBlock, end int, r Range) {
	if block == endBlock {
		s.ranges += 1 - (end - at)
		s.blocks[block] = slices.Replace(s.blocks[block], at, end, r)
	} else {
		for _, b := range s.blocks[block:endBlock] {
			s.ranges -= len(b)
		}
		s.ranges += at + 1 - end
		s.blocks[block] = append(s.blocks[block][:at], r)
		rest := endBlock
		if s.blocks[endBlock] = slices.Delete(s.blocks[endBlock], 0, end); len(s.blocks[endBlock]) == 0 {
			rest++
		}
		s.blocks = slices.Delete(s.blocks, block+1, rest)
	}
	if b := s.blocks[block]; len(b) > maxBlock {
		half := len(b) / 2
		s.blocks = slices.Insert(s.blocks, block+1, slices.Clone(b[half:]))
		s.blocks[block] = slices.Clip(b[:half])
	}
}

// AddAll puts all numbers of another set into this one.
func (s *Set) AddAll(o *Set) {
	for r := range o.All() {
		s.Add(r)
	}
}

// Common returns how many numbers are in both sets.
func (s *Set) Common(o *Set) uint64 {
	if o.ranges < s.ranges {
		s, o = o, s
	}
	var n uint64
	for r := range s.All() {
		for block, at := o.find(r.First); block < len(o.blocks); {
			with := o.blocks[block][at]
			if with.First > r.Last {
				break
			}
			n += min(r.Last, with.Last) - max(r.First, with.First) + 1
			if at++; at == len(o.blocks[block]) {
				block, at = block+1, 0
			}
		}
	}
	return n
}

// Without returns the numbers that are not in the other set.
func (s *Set) Without(o *Set) *Set {
	rest := &Set{}
	for r := range s.All() {
		block, at := o.find(r.First)
		for r.First <= r.Last && block < len(o.blocks) {
			with := o.blocks[block][at]
			if with.First > r.Last {
				break
			}
			if with.First > r.First {
				rest.Add(Range{r.First, with.First - 1})
			}
			r.First = with.Last + 1
			if at++; at == len(o.blocks[block]) {
				block, at = block+1, 0
			}
		}
		if r.First <= r.Last {
			rest.Add(r)
		}
	}
	return rest
}

// Clone returns a set of the same numbers.
func (s *Set) Clone() *Set {
	c := &Set{ranges: s.ranges, count: s.count, blocks: make([][]Range, len(s.blocks))}
	for i, b := range s.blocks {
		c.blocks[i] = slices.Clone(b)
	}
	return c
}

// String returns the set as text, such as "1-500,502".
func (s *Set) String() string { return string(s.appendText(nil)) }

func (s *Set) appendText(b []byte) []byte {
	for r := range s.All() {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, r.First, 10)
		if r.Last > r.First {
			b = append(b, '-')
			b = strconv.AppendUint(b, r.Last, 10)
		}
	}
	return b
}

// MarshalText is [Set.String].
func (s *Set) MarshalText() ([]byte, error) { return s.appendText(nil), nil }

// UnmarshalText reads what MarshalText writes, and only that: rising ranges of
// numbers from 1 to [MaxSequence], with a gap between any two. A range in the text
// takes two bytes or more, so that the text bounds the memory.
func (s *Set) UnmarshalText(text []byte) error {
	*s = Set{}
	if len(text) == 0 {
		return nil
	}
	next := uint64(1) // the least that may come
	for part := range strings.SplitSeq(string(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		r := Range{}
		var err error
		if r.First, err = parseSequence(first); err == nil {
			r.Last = r.First
			if isRange {
				r.Last, err = parseSequence(last)
			}
		}
		switch {
		case err != nil:
			return fmt.Errorf("range %.50q of sequence numbers: %w", part, err)
		case r.First < next || isRange && r.Last <= r.First:
			return fmt.Errorf("range %.50q of sequence numbers: ranges rise, with a gap between any two", part)
		}
		s.append(r)
		next = r.Last + 2
	}
	return nil
}

func parseSequence(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < 1 || n > MaxSequence || text[0] == '0' || text[0] == '+' {
		return 0, fmt.Errorf("%.30q is not a number from 1 to %d", text, uint64(MaxSequence))
	}
	return n, nil
}

// first returns the first range. The set must not be empty.
func (s *Set) first() Range { return s.blocks[0][0] }
