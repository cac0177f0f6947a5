package message

import "testing"

// TestFactors: those that are derived are the ones of Linux and of Go's library.
func TestFactors(t *testing.T) {
	for i, want := range map[int]uint64{0: 0x154442bd4, 1: 0x1c6e41596, 6: 0x1751997d0, 7: 0x0ccaa009e, 8: 0x163cd6124, 10: 0x1db710641} {
		if factors[i] != want {
			t.Errorf("factor %d is %#x, want %#x", i, factors[i], want)
		}
	}
}
