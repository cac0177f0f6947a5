package broker

import (
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// arenaUnit is what the arena is divided in, in bytes: a buffer is a row of
// units.
const arenaUnit = 8 << 10

// arena is one anonymous mapping that read buffers are cut from. It lies
// outside of the heap, so that its size bounds what the process holds for
// them exactly: freed buffers neither wait for the garbage collector nor let it
// run later. Pages that were never read into take no memory. It is not safe for
// concurrent use.
type arena struct {
	mem   []byte
	units int
	free  []uint64 // a bit for each unit, set while it is free
	used  int      // units
}

// newArena makes an arena of so many bytes, rounded up to units.
func newArena(bytes int) (*arena, error) {
	units := (bytes + arenaUnit - 1) / arenaUnit
	mem, err := mapMemory(units * arenaUnit)
	if err != nil {
		return nil, err
	}
	a := &arena{mem: mem, units: units, free: make([]uint64, (units+63)/64)}
	a.mark(0, units, true)
	return a, nil
}

// take cuts a buffer of at least n bytes (n > 0) out and returns its first unit
// too, which give wants back. ok is false when there is no row of free units
// that is long enough. The first that is gets it, so that a broker with little
// to do touches few pages.
func (a *arena) take(n int) (b []byte, first int, ok bool) {
	units := (n + arenaUnit - 1) / arenaUnit
	first = a.find(units)
	if first < 0 {
		return nil, 0, false
	}
	a.mark(first, units, false)
	a.used += units
	from, to := first*arenaUnit, (first+units)*arenaUnit
	return a.mem[from:to:to], first, true
}

// give takes a buffer back.
func (a *arena) give(b []byte, first int) {
	units := len(b) / arenaUnit
	a.mark(first, units, true)
	a.used -= units
}

// find returns the first of n free units in a row, or -1.
func (a *arena) find(n int) int {
	row := 0
	for i := 0; i < a.units; {
		word := a.free[i/64] >> (i % 64)
		if word == 0 {
			row, i = 0, i+64-i%64
			continue
		}
		if taken := bits.TrailingZeros64(word); taken > 0 {
			row, i = 0, i+taken
			continue
		}
		free := bits.TrailingZeros64(^word)
		row, i = row+free, i+free
		if row >= n {
			return i - row
		}
	}
	return -1
}

// mark sets or clears the bits of n units.
func (a *arena) mark(first, n int, free bool) {
	for n > 0 {
		in := min(64-first%64, n) // of this word
		mask := ^uint64(0) >> (64 - in) << (first % 64)
		if free {
			a.free[first/64] |= mask
		} else {
			a.free[first/64] &^= mask
		}
		first, n = first+in, n-in
	}
}

// close unmaps the arena. No buffer of it may be in use.
func (a *arena) close() error { return unmapMemory(a.mem) }

// mapMemory returns memory that takes none until it is written to.
func mapMemory(bytes int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", bytes, err)
	}
	return mem, nil
}

func unmapMemory(mem []byte) error {
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("unmap %d bytes of memory: %w", len(mem), err)
	}
	return nil
}
