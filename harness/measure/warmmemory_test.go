package measure

import (
	"context"
	"errors"
	"testing"
)

// What is wanted is touched, in whole steps, and never more than three quarters
// of what is free.
func TestWarmMemory(t *testing.T) {
	for _, c := range []struct{ wanted, most int64 }{
		{0, 0},
		{warmStep - 1, 0},
		{warmStep, warmStep},
		{2*warmStep + 5, 2 * warmStep},
	} {
		got, err := WarmMemory(t.Context(), c.wanted)
		if err != nil || got.Bytes > c.most || got.Bytes%warmStep != 0 || (got.Bytes > 0) != (got.Seconds > 0) {
			t.Errorf("%d: %+v, %v", c.wanted, got, err)
		}
	}
	if free, err := freeMemory(); err != nil || free <= 0 {
		t.Errorf("free memory %d, %v", free, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := WarmMemory(ended, warmStep); got.Bytes > 0 || (err != nil && !errors.Is(err, context.Canceled)) {
		t.Errorf("%+v, %v", got, err)
	}
}
