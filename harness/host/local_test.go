package host_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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

// When the connection is lost, the programs on the host end, whoever waits for
// one of them is told, and nothing hangs.
func TestSSHConnectionLost(t *testing.T) {
	tb := hosttest.SSH(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	h, err := host.Open(ctx, tb.Broker)
	if err != nil {
		t.Fatal(err)
	}
	dir := h.Dir()
	p, pids := startFamily(t, ctx, h, family)
	// Everything of sshd in the namespace, at once.
	out, err := exec.Command("ip", "netns", "pids", tb.Link.Broker.Namespace).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(out)) {
		comm, err := os.ReadFile("/proc/" + word + "/comm")
		pid, convErr := strconv.Atoi(word)
		if err == nil && convErr == nil && strings.HasPrefix(string(comm), "sshd") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
		}
	}
	if err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "connection was lost") {
		t.Errorf("the program ended with %v", err)
	}
	for _, pid := range pids {
		waitGone(t, pid)
	}
	waitNoFile(t, filepath.Dir(dir))
	if _, err := h.Run(ctx, "true"); err == nil {
		t.Error("a program was started without a connection")
	}
	if err := h.Close(ctx); err == nil || !strings.Contains(err.Error(), "broker") {
		t.Errorf("close: %v", err)
	}
}

func TestSSHUnreachable(t *testing.T) {
	c := host.Config{Name: "far", Kind: host.SSH, Addr: "10.1.1.1", SSH: host.SSHConfig{Target: "127.0.0.1", Port: 1, ConfigFile: "/dev/null"}}
	_, err := host.Open(t.Context(), c)
	for _, want := range []string{"far", "127.0.0.1", "refused", "BatchMode"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestBinary(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kafka"), []byte("#!/bin/sh\necho it runs \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tb := hosttest.SSH(t, bin)
	for _, h := range []host.Host{hosttest.Local(t, bin), hosttest.Open(t, tb.Client)} {
		for range 2 { // the second time it is there
			path, err := h.Binary(t.Context(), "kafka")
			if err != nil {
				t.Fatal(err)
			}
			if out, err := h.Run(t.Context(), path, "well"); err != nil || string(out) != "it runs well\n" {
				t.Errorf("%s: %q, %v", h.Kind(), out, err)
			}
		}
		if _, err := h.Binary(t.Context(), "testbed"); err == nil || !strings.Contains(err.Error(), "make build") {
			t.Errorf("a program that is not there: %v", err)
		}
		if _, err := h.Binary(t.Context(), "../kafka"); err == nil {
			t.Error("a path was taken for a name")
		}
	}
}

func TestConfigFaultsAreNamed(t *testing.T) {
	for want, c := range map[string]host.Config{
		`"a b"`:              {Name: "a b", Kind: host.Local},
		`kind "vm"`:          {Name: "h", Kind: "vm"},
		`"localhost"`:        {Name: "h", Kind: host.Local, Addr: "localhost"},
		`address "0.0.0.0"`:  {Name: "h", Kind: host.Local, Addr: "0.0.0.0"},
		`dir "data"`:         {Name: "h", Kind: host.Local, Dir: "data"},
		`dir "/"`:            {Name: "h", Kind: host.Local, Dir: "/"},
		`namespace ""`:       {Name: "h", Kind: host.Namespace, Addr: "10.1.1.1"},
		`namespace "x"`:      {Name: "h", Kind: host.Local, Namespace: "x"},
		`ssh target ""`:      {Name: "h", Kind: host.SSH, Addr: "10.1.1.1"},
		`ssh target "-v"`:    {Name: "h", Kind: host.SSH, Addr: "10.1.1.1", SSH: host.SSHConfig{Target: "-v"}},
		"ssh port 70000":     {Name: "h", Kind: host.SSH, Addr: "10.1.1.1", SSH: host.SSHConfig{Target: "x", Port: 70000}},
		"/no/such/key":       {Name: "h", Kind: host.SSH, Addr: "10.1.1.1", SSH: host.SSHConfig{Target: "x", Identity: "/no/such/key"}},
		"ssh settings: only": {Name: "h", Kind: host.Local, SSH: host.SSHConfig{Target: "x"}},
	} {
		if _, err := host.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The folder that holds the runs' folders goes with the last of several runs,
// if it was not there before the first.
func TestFolderOfRuns(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	there := t.TempDir()
	made := filepath.Join(t.TempDir(), "below", "runs")
	for _, dir := range []string{there, made} {
		var hosts []host.Host
		for range 3 {
			h, err := host.Open(ctx, host.Config{Name: "h", Kind: host.Local, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			hosts = append(hosts, h)
		}
		for i, h := range hosts {
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("before the end of host %d: %v", i, err)
			}
			if err := h.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	if names, err := os.ReadDir(there); err != nil || len(names) != 0 {
		t.Errorf("in the folder that was there: %v, %v", names, err)
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("the folder that was made: %v", err)
	}
}
