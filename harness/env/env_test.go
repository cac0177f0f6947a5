package env_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/harness/env"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/link"
)

// Every kind of host describes itself with the same facts, in the same order,
// none of them empty.
func TestDescribe(t *testing.T) {
	tb := hosttest.SSH(t, "")
	client, _ := hosttest.NamespaceConfigs(t, tb.Link, "")
	var names string
	for _, h := range []host.Host{hosttest.Local(t, ""), hosttest.Open(t, client), hosttest.Open(t, tb.Broker)} {
		d, err := env.Describe(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		if d.Name != h.Name() {
			t.Errorf("name %q", d.Name)
		}
		var own []string
		for _, f := range d.Facts {
			own = append(own, f.Name)
			if f.Value == "" || strings.Contains(f.Value, "\n") || strings.Contains(f.Value, h.Dir()) {
				t.Errorf("%s: fact %s is %q", h.Kind(), f.Name, f.Value)
			}
		}
		if list := strings.Join(own, ", "); names == "" {
			names = list
		} else if names != list {
			t.Errorf("%s has the facts %s\nothers have %s", h.Kind(), list, names)
		}
		for _, name := range []string{"processor", "cores", "memory", "kernel", "file system", "network device"} {
			if v := d.Fact(name); v == "" || v == "not known" {
				t.Errorf("%s: %s is %q", h.Kind(), name, v)
			}
		}
		if h.Kind() != host.Local {
			if d.Fact("TCP congestion control") != "cubic" || d.Fact("MTU") != "1500" || !strings.Contains(d.Fact("network queue"), "984Mbit") {
				t.Errorf("%s: %v", h.Kind(), d.Facts)
			}
		}
		for _, name := range []string{"RabbitMQ", "ActiveMQ", "Java", "Erlang", "ssh"} {
			if d.Fact(name) == "not installed" {
				t.Errorf("%s: %s is not installed, or not found: \"make setup\"", h.Kind(), name)
			}
		}
	}
}

func check(t *testing.T, site env.Site) (found []env.Finding) {
	t.Helper()
	if err := env.Check(t.Context(), site, func(f env.Finding) { found = append(found, f) }); err != nil {
		t.Fatal(err)
	}
	return found
}

func statusOf(findings []env.Finding, check string) (all []env.Status) {
	for _, f := range findings {
		if f.Check == check {
			all = append(all, f.Status)
		}
	}
	return all
}

func emptyPrograms(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"kafka", "testbed"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// missing lists what is missing, as a test's message.
func missing(findings []env.Finding) string {
	var bad []env.Finding
	for _, f := range findings {
		if f.Status == env.Missing {
			bad = append(bad, f)
		}
	}
	text, _ := json.MarshalIndent(bad, "", " ")
	return string(text)
}

func TestCheckNamespaces(t *testing.T) {
	l := hosttest.LinkConfig(t)
	client, broker := hosttest.NamespaceConfigs(t, l, emptyPrograms(t))
	site := env.Site{Kind: host.Namespace, Client: client, Broker: broker, Link: l, NeedBytes: 1 << 20, TestbedFlag: "--testbed my.toml"}
	if found := check(t, site); missing(found) != "null" {
		t.Errorf("missing: %s", missing(found))
	}
	before, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(before), "kafkalab-try") {
		t.Errorf("the check left %s", before)
	}

	// A foreign namespace of that name, no space, no programs.
	if out, err := exec.Command("sh", "-c", "ip netns add $1 && ip -netns $1 link set dev lo up", "sh", l.Client.Namespace).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() {
		if out, err := exec.Command("ip", "netns", "delete", l.Client.Namespace).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	site.NeedBytes = 1 << 60
	site.Broker.BinDir = t.TempDir()
	found := check(t, site)
	for _, want := range []string{"namespaces", "disk space", "own programs"} {
		if s := statusOf(found, want); len(s) != 1 || s[0] != env.Missing {
			t.Errorf("%s: %v", want, s)
		}
	}
	for _, f := range found {
		if f.Status == env.Missing && f.Fix == "" {
			t.Errorf("%+v does not say what mends it", f)
		}
	}
}

// What an interrupted run left is told, with the command that ends it.
func TestCheckLeftovers(t *testing.T) {
	l := hosttest.Link(t)
	client, broker := hosttest.NamespaceConfigs(t, l, emptyPrograms(t))
	h := hosttest.Open(t, broker)
	if _, err := h.Start(t.Context(), host.Command{Args: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	site := env.Site{Kind: host.Namespace, Client: client, Broker: broker, Link: l, TestbedFlag: "--testbed my.toml", Program: "bin/testbed"}
	var fixes []string
	for _, f := range check(t, site) {
		if f.Check == "namespaces" && f.Status == env.Note {
			fixes = append(fixes, f.Fix)
		}
	}
	if len(fixes) != 1 || fixes[0] != "bin/testbed down --testbed my.toml" {
		t.Errorf("fixes %q", fixes)
	}
}

func TestCheckSSH(t *testing.T) {
	tb := hosttest.SSH(t, emptyPrograms(t))
	site := env.Site{Kind: host.SSH, Client: tb.Client, Broker: tb.Broker, Link: tb.Link, NeedBytes: 1 << 20}
	found := check(t, site)
	if missing(found) != "null" {
		t.Errorf("missing: %s", missing(found))
	}
	for _, want := range []string{"reachable", "address", "clock", "own programs", "congestion control"} {
		if s := statusOf(found, want); len(s) < 2 || s[0] != env.OK {
			t.Errorf("%s: %v", want, s)
		}
	}
	site.Broker.SSH.Port = 1 // where nobody listens
	site.Client.Addr = "10.99.99.99"
	found = check(t, site)
	for _, f := range found {
		if f.Check == "reachable" && f.Status == env.Missing && !strings.Contains(f.Fix, "ssh-copy-id") {
			t.Errorf("what mends it: %s", f.Fix)
		}
		if f.Check == "address" && f.Status == env.Missing && !strings.Contains(f.Fix, "as address into [client]") {
			t.Errorf("what mends the address: %s", f.Fix)
		}
	}
	if s := statusOf(found, "reachable"); len(s) != 2 || s[0] != env.OK || s[1] != env.Missing {
		t.Errorf("reachable: %v", s)
	}
	if s := statusOf(found, "address"); len(s) != 1 || s[0] != env.Missing {
		t.Errorf("address: %v", s)
	}
}

func TestCheckLocal(t *testing.T) {
	c := host.Config{Name: "client", Kind: host.Local, Dir: t.TempDir(), BinDir: emptyPrograms(t)}
	site := env.Site{Kind: host.Local, Client: c, Broker: c, Link: link.Default(), NeedBytes: env.NeedBytes(1)}
	found := check(t, site)
	if missing(found) != "null" {
		t.Errorf("missing: %s", missing(found))
	}
	held := env.OK
	if os.Geteuid() != 0 {
		held = env.Note
	}
	if s := statusOf(found, "equal limits"); len(s) != 1 || s[0] != held {
		t.Errorf("equal limits: %v", s)
	}
	// Cores that the machine has not would end a run before it began.
	site.Limits.Cores = "0,4095"
	if s := statusOf(check(t, site), "equal limits"); len(s) != 1 || s[0] != env.Missing {
		t.Errorf("equal limits of cores that are not there: %v", s)
	}
}
