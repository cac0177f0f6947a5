package host_test

import (
	"testing"

	"kafkalab/harness/host"
)

func TestLocal(t *testing.T) {
	contract(t, func(t *testing.T) host.Host {
		return open(t, host.Config{Name: "here", Kind: host.Local, Dir: t.TempDir()})
	})
}

func open(t *testing.T, c host.Config) host.Host {
	t.Helper()
	h, err := host.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return h
}
