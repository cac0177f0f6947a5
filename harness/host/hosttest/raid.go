package hosttest

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"kafkalab/harness/raid"
)

// RAIDConfig returns a RAID 10 of small disks in a folder of the test, which is
// not made yet; what is made of it is removed when the test ends. A kernel that
// cannot make one skips the test, also where the tests must be complete: unlike
// a package that is missing, no "make setup" mends that.
func RAIDConfig(t testing.TB) raid.Config {
	t.Helper()
	c := raid.For(filepath.Join(t.TempDir(), "broker"))
	c.DiskBytes = raid.MinDiskBytes
	GuardRAID(t, c)
	trial := c
	trial.Dir += "-trial"
	guardRAID(t, trial)
	var commands bytes.Buffer
	err := raid.Up(t.Context(), trial, &commands)
	if errors.Is(err, raid.ErrNoKernel) {
		t.Skip(err)
	}
	if err == nil {
		err = raid.Down(t.Context(), trial, &commands)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &commands)
	}
	return c
}

// GuardRAID removes what is made of an array when the test ends, also when it
// is killed.
func GuardRAID(t testing.TB, c raid.Config) {
	t.Helper()
	Root(t)
	guardRAID(t, c) // first, so that it ends last
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		if err := raid.Down(ctx, c, &bytes.Buffer{}); err != nil {
			t.Errorf("removing the RAID 10: %v", err)
		}
	})
}
