package host_test

import (
	"bytes"
	"strings"
	"testing"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
)

func TestLocal(t *testing.T) {
	contract(t, func(t *testing.T) host.Host { return hosttest.Local(t, "") })
}

func TestNamespace(t *testing.T) {
	c, _ := hosttest.NamespaceConfigs(t, hosttest.Link(t), "")
	contract(t, func(t *testing.T) host.Host { return hosttest.Open(t, c) })
}

func TestNamespaceIsEntered(t *testing.T) {
	client, broker := hosttest.Namespaces(t, "")
	for _, h := range []host.Host{client, broker} {
		out, err := h.Run(t.Context(), "ip", "-o", "-4", "address", "show")
		if err != nil || !strings.Contains(string(out), h.Addr()) || bytes.Count(out, []byte("\n")) != 2 {
			t.Errorf("addresses of %s: %s, %v", h.Name(), out, err)
		}
	}
}

func TestNamespaceMissing(t *testing.T) {
	hosttest.Root(t)
	_, err := host.Open(t.Context(), host.Config{Name: "broker", Kind: host.Namespace, Namespace: "kltest-nowhere", Addr: "10.1.1.1"})
	if err == nil || !strings.Contains(err.Error(), "testbed up") || !strings.Contains(err.Error(), "kltest-nowhere") {
		t.Errorf("got %v", err)
	}
}

func TestSSH(t *testing.T) {
	tb := hosttest.SSH(t, "")
	contract(t, func(t *testing.T) host.Host {
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(tb.Log())
			}
		})
		return hosttest.Open(t, tb.Broker)
	})
}
