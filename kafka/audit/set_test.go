package audit

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkSet compares a set with the numbers that should be in it, and checks its form.
func checkSet(t *rapid.T, s *Set, want map[uint64]bool) {
	t.Helper()
	var got []uint64
	ranges, last := 0, uint64(0)
	for r := range s.All() {
		if r.Last < r.First || ranges > 0 && r.First <= last+1 {
			t.Fatalf("range %v behind %d in %v", r, last, s)
		}
		for n := r.First; n <= r.Last; n++ {
			got = append(got, n)
		}
		ranges, last = ranges+1, r.Last
	}
	if ranges != s.Ranges() || uint64(len(got)) != s.Count() || s.Empty() != (len(want) == 0) {
		t.Fatalf("%v says %d ranges, %d numbers", s, s.Ranges(), s.Count())
	}
	for _, b := range s.blocks {
		if len(b) == 0 || len(b) > maxBlock {
			t.Fatalf("a block of %d ranges", len(b))
		}
	}
	if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("%v, want %v", s, slices.Sorted(maps.Keys(want)))
	}
}

func drawRange(t *rapid.T, most uint64) Range {
	first := rapid.Uint64Range(1, most).Draw(t, "first")
	return Range{first, min(most, first+rapid.SampledFrom([]uint64{0, 0, 0, 1, 2, 7, 60}).Draw(t, "more"))}
}

// A set holds the numbers that were added and tells how many were new; what is
// computed of two of them, and the text, agree with sets that hold each number.
func TestSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]uint64{20, 300, 3000}).Draw(t, "most")
		var sets [2]Set
		var models [2]map[uint64]bool
		for i := range sets {
			models[i] = map[uint64]bool{}
			for range rapid.IntRange(0, 200).Draw(t, "steps") {
				r := drawRange(t, most)
				fresh := uint64(0)
				for n := r.First; n <= r.Last; n++ {
					if !models[i][n] {
						fresh++
					}
					models[i][n] = true
				}
				if got := sets[i].Add(r); got != fresh {
					t.Fatalf("adding %v gave %d new numbers, want %d", r, got, fresh)
				}
			}
			checkSet(t, &sets[i], models[i])
		}
		common, rest, all := uint64(0), maps.Clone(models[0]), maps.Clone(models[0])
		for n := range models[1] {
			if models[0][n] {
				common++
			}
			delete(rest, n)
			all[n] = true
		}
		a, b := &sets[0], &sets[1]
		if got := a.Common(b); got != common || b.Common(a) != common {
			t.Fatalf("%v and %v have %d in common, want %d", a, b, got, common)
		}
		checkSet(t, a.Without(b), rest)
		union := a.Clone()
		union.AddAll(b)
		checkSet(t, union, all)
		checkSet(t, a, models[0]) // the clone has its own memory
		for n := range most + 2 {
			if a.Contains(n) != models[0][n] {
				t.Fatalf("%v contains %d: %v", a, n, !models[0][n])
			}
		}
		text, _ := a.MarshalText()
		var back Set
		if err := back.UnmarshalText(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		checkSet(t, &back, models[0])
	})
}

// Many ranges, filled in an order that splits and joins blocks.
func TestSetOfManyRanges(t *testing.T) {
	var s Set
	const n = 20_000
	for i := uint64(1); i <= n; i += 2 {
		s.Add(Range{i, i})
	}
	if s.Ranges() != n/2 || s.Count() != n/2 {
		t.Fatalf("%d ranges of %d numbers, want %d", s.Ranges(), s.Count(), n/2)
	}
	for i := uint64(2); i <= n; i += 4 {
		s.Add(Range{i, i})
	}
	for i := uint64(n); i >= 4; i -= 4 {
		s.Add(Range{i, i})
	}
	if got := s.String(); got != "1-20000" || len(s.blocks) != 1 {
		t.Errorf("%d numbers in %d blocks: %.60s", s.Count(), len(s.blocks), got)
	}
	// One range over all blocks.
	s = Set{}
	for i := uint64(1); i <= n; i += 3 {
		s.Add(Range{i, i})
	}
	had := s.Count()
	if fresh := s.Add(Range{2, n + 5}); fresh != n+5-had || s.String() != "1-20005" {
		t.Errorf("%d new numbers, %.60s", fresh, s.String())
	}
}

// What is handed out in order costs one range.
func TestSetInOrderAllocatesNothing(t *testing.T) {
	var s Set
	next := uint64(1)
	s.Add(Range{next, next})
	if n := testing.AllocsPerRun(1000, func() {
		next++
		s.Add(Range{next, next})
	}); n != 0 || s.Ranges() != 1 {
		t.Errorf("%v allocations, %d ranges", n, s.Ranges())
	}
}

// Text that no set has written is refused.
func TestSetText(t *testing.T) {
	for _, text := range []string{",", "0", "1-", "-1", "2-1", "1-1", "1,1", "1,2", "3,1", "1-5,6", "1 ", "+1", "01", "a", "1-2-3", "9007199254740992", "1-18446744073709551616"} {
		var s Set
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, &s)
		}
	}
	var s Set
	if err := s.UnmarshalText([]byte("1-3,5,9007199254740991")); err != nil || s.Count() != 5 {
		t.Errorf("%v, %v", &s, err)
	}
}
