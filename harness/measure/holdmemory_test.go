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
	free := int64(0)
	h := holding{memory: memory, free: func() (int64, error) { return free, nil }}
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
		free = c.free
		more, err := h.balance(holdMost)
		if err != nil || more != c.more || h.held != c.held*holdStep {
			t.Errorf("%s, %d free: %d held, more %v, %v; want %d, %v", c.name, c.free, h.held, more, err, c.held*holdStep, c.more)
		}
	}
}

// What is left free is touched and given up again, as far as it may be.
func TestHoldingTouches(t *testing.T) {
	h, err := newHolding(4 * holdStep)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(h.memory); err != nil {
			t.Error(err)
		}
	}()
	const all = touchMost + 2*holdStep + 1
	h.free = func() (int64, error) { return all - int64(h.held), nil }
	got, err := h.touchFree(t.Context())
	if err != nil || got.TouchedBytes != 3*holdStep || got.Bytes != 0 || h.held != 0 || got.Seconds <= 0 {
		t.Errorf("%+v, %d held, %v", got, h.held, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := h.touchFree(ended); err != nil || got.TouchedBytes != 0 {
		t.Errorf("after its end: %+v, %v", got, err)
	}
}

// It holds no more than it may, says so, touches when it is asked to, and ends with
// its context.
func TestHoldMemory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	touch := make(chan struct{}, 1)
	var told []Held
	err := HoldMemory(ctx, 2*holdStep+1, touch, func(h Held) {
		if told = append(told, h); len(told) == 1 {
			touch <- struct{}{}
		} else {
			cancel()
		}
	})
	if err != nil || len(told) != 2 || told[0].Bytes > 2*holdStep || told[0].Seconds > 0 || told[1].Bytes > 2*holdStep || told[1].Seconds <= 0 {
		t.Errorf("%+v, %v", told, err)
	}
	if err := HoldMemory(ctx, 0, nil, func(Held) { t.Error("told after its end") }); err != nil {
		t.Error(err)
	}
}
