package measure

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// Too much that is free is taken a step at a time, up to all there is; too little
// is made up for at once, as far as what is held reaches; in between nothing moves.
func TestHoldingBalances(t *testing.T) {
	memory, err := unix.Mmap(-1, 0, 3*holdStep, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(memory); err != nil {
			t.Error(err)
		}
	}()
	h := holding{memory: memory}
	for _, c := range []struct {
		name string
		free int64
		held int
		more bool
	}{
		{"enough", holdMost, 0, false},
		{"much", holdMost + 1, 1, true},
		{"much", 1 << 40, 2, true},
		{"just enough", holdLeast, 2, false},
		{"much", 1 << 40, 3, true},
		{"nothing left to take it to", 1 << 40, 3, false},
		{"less than a step too little", (holdLeast+holdMost)/2 - 2*holdStep, 3, false},
		{"all", 0, 0, false},
		{"nothing to give", 0, 0, false},
	} {
		more, err := h.balance(c.free)
		if err != nil || more != c.more || h.held != c.held*holdStep {
			t.Errorf("%s, %d free: %d held, more %v, %v; want %d, %v", c.name, c.free, h.held, more, err, c.held*holdStep, c.more)
		}
	}
}

// It holds no more than it may, says so once, and ends with its context.
func TestHoldMemory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := 0
	err := HoldMemory(ctx, 2*holdStep+1, func(held int64) {
		if told++; held < 0 || held > 2*holdStep {
			t.Errorf("%d bytes held", held)
		}
		cancel()
	})
	if err != nil || told != 1 {
		t.Errorf("told %d times, %v", told, err)
	}
	if err := HoldMemory(ctx, 0, func(int64) { told++ }); err != nil || told != 1 {
		t.Errorf("after its end: told %d times, %v", told, err)
	}
}
