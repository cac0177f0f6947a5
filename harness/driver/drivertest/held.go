package drivertest

import (
	"context"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Held starts a server in the folder "server" of a host, held to so many bytes
// of memory, as far as the rights allow it, and to the cores that there are. It
// is stopped with the test.
func Held(t *testing.T, d driver.Driver, h host.Host, memory int64, o driver.Options) (driver.Server, *host.Confined) {
	t.Helper()
	limits, err := host.Limits{MemoryBytes: memory}.WithDefaults(timeout(t), h)
	if err != nil {
		t.Fatal(err)
	}
	held, err := host.Confine(timeout(t), h, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := held.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := d.Start(timeout(t), held, h.Dir()+"/server", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s, held
}

// Connect opens a client and closes it with the test, without an error.
func Connect(t *testing.T, d driver.Driver, s driver.Server, o driver.Options) driver.Client {
	t.Helper()
	c, err := d.Connect(timeout(t), s.Target(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeClient(t, c); err != nil {
			t.Error(err)
		}
	})
	return c
}
