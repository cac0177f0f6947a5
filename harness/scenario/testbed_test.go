package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/link"
	"kafkalab/scenarios"
)

func TestBuiltInTestbed(t *testing.T) {
	tb, err := LoadTestbed("")
	if err != nil {
		t.Fatal(err)
	}
	if tb.Kind != host.Namespace || !tb.Emulated() || tb.Link != link.Default() {
		t.Errorf("got %+v", tb)
	}
	if tb.ClientHost.Namespace != "kafkalab-client" || tb.BrokerHost.Addr != tb.Link.Broker.Addr {
		t.Errorf("hosts %+v, %+v", tb.ClientHost, tb.BrokerHost)
	}
	if !strings.Contains(tb.LinkNote(), "984 Mbit/s") {
		t.Errorf("note %q", tb.LinkNote())
	}
}

// The template is good as it is, and what it says of the built-in testbed is
// true.
func TestTestbedTemplate(t *testing.T) {
	text, err := scenarios.Files.ReadFile("testbed.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	tb, err := parseTestbed("testbed.example.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	if tb.Kind != host.SSH || tb.Emulated() || tb.BrokerHost.SSH.Target != "user@192.168.7.2" || tb.Link.RateMbps != 1000 {
		t.Errorf("got %+v", tb)
	}
	_, built, _ := strings.Cut(string(text), "Written as a file it is:\n#\n")
	built, _, ok := strings.Cut(built, "\n#\n")
	if !ok {
		t.Fatal("the template does not show the built-in testbed")
	}
	same, err := parseTestbed("built-in", []byte(strings.ReplaceAll(built, "#   ", "")))
	if err != nil {
		t.Fatal(err)
	}
	want, err := LoadTestbed("")
	if err != nil {
		t.Fatal(err)
	}
	want.ClientHost.Dir, want.BrokerHost.Dir = host.DefaultDir, host.DefaultDir
	if same != want {
		t.Errorf("the template shows\n%+v, and built in is\n%+v", same, want)
	}
}

func TestTestbedFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"key", "config"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(text string) (Testbed, error) {
		path := filepath.Join(dir, "my.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadTestbed(path)
	}
	tb, err := load("kind = \"ssh\"\n[client]\naddress = \"10.1.1.1\"\n[broker]\nname = \"rack-2\"\nssh = \"b\"\nport = 2222\nidentity = \"key\"\nconfig = \"config\"\naddress = \"10.1.1.2\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if tb.ClientHost.Kind != host.Local || tb.ClientHost.Addr != "10.1.1.1" {
		t.Errorf("client host %+v", tb.ClientHost)
	}
	want := host.SSHConfig{Target: "b", Port: 2222, Identity: filepath.Join(dir, "key"), ConfigFile: filepath.Join(dir, "config")}
	if tb.BrokerHost.SSH != want || tb.BrokerHost.Name != "rack-2" || tb.BrokerHost.Kind != host.SSH {
		t.Errorf("broker host %+v", tb.BrokerHost)
	}
	tb, err = load("kind = \"local\"\n")
	if err != nil || tb.Link.RateMbps != 0 || !tb.Emulated() {
		t.Errorf("local: %+v, %v", tb, err)
	}
	tb, err = load("kind = \"netns\"\n[link]\nrate = \"none\"\n[broker]\nnamespace = \"other\"\n")
	if err != nil || tb.Link.RateMbps != 0 || tb.BrokerHost.Namespace != "other" || tb.Link.Broker.Namespace != "other" {
		t.Errorf("netns: %+v, %v", tb, err)
	}
}

// What every broker is to have, in the file's own units.
func TestTestbedLimits(t *testing.T) {
	tb, err := parseTestbed("my.toml", []byte("kind = \"local\"\n[broker]\ncores = \"0,2-3\"\nmemory = \"1.5GiB\"\n"))
	if want := (host.Limits{Cores: "0,2-3", MemoryBytes: 3 << 29}); err != nil || tb.BrokerLimits != want {
		t.Errorf("limits %+v, %v", tb.BrokerLimits, err)
	}
	for want, text := range map[string]string{
		"only for the broker host": "[client]\ncores = \"0\"",
		"[broker] memory":          "[broker]\nmemory = \"16\"",
		"64MiB":                    "[broker]\nmemory = \"16kB\"",
		`cores "0-"`:               "[broker]\ncores = \"0-\"",
		"[broker] cores: a list":   "[broker]\ncores = \"\"",
	} {
		if _, err := parseTestbed("my.toml", []byte("kind = \"local\"\n"+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestTestbedFaultsAreNamed(t *testing.T) {
	const ssh = "kind = \"ssh\"\n[client]\nssh = \"a\"\naddress = \"10.1.1.1\"\n[broker]\nssh = \"b\"\naddress = \"10.1.1.2\"\n"
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", []string{`kind ""`, "netns", "ssh", "local"}},
		{"kind = \"netn\"", []string{`"netn"`}},
		{"kind = \"netns\"\n[client]\nnamspace = \"x\"\n", []string{":3:", `"client.namspace"`, `"namespace"`}},
		{"kind = \"netns\"\n[clients]\n", []string{":2:", `"clients"`, `"client"`}},
		{"kind = \"netns\"\n[link]\nrate = 1000\n", []string{"line 3", "link.rate"}},
		{"kind = \"netns\"\n[link]\nrate = \"fast\"\n", []string{`"fast"`, "1gbit"}},
		{"kind = \"netns\"\n[link]\ncongestion = \"a b\"\n", []string{`"a b"`}},
		{"kind = \"netns\"\n[link]\nprefix = 99\n", []string{"99"}},
		{"kind = \"netns\"\n[client]\naddress = \"300.1.1.1\"\n", []string{`"300.1.1.1"`}},
		{"kind = \"netns\"\n[client]\nssh = \"a\"\n", []string{"[client]", "only for testbeds of kind \"ssh\""}},
		{"kind = \"netns\"\n[client]\nname = \"broker\"\n", []string{"both hosts have the name"}},
		{"kind = \"netns\"\n[client]\ndir = \"relative\"\n", []string{`"relative"`, "absolute"}},
		{"kind = \"local\"\n[link]\nrate = \"1gbit\"\n", []string{"no link"}},
		{"kind = \"local\"\n[client]\ndevice = \"x\"\n", []string{"netns"}},
		{strings.Replace(ssh, "ssh = \"b\"\n", "", 1), []string{"[broker]", "ssh is missing"}},
		{strings.Replace(ssh, "address = \"10.1.1.1\"\n", "", 1), []string{"[client]", "address is missing"}},
		{strings.Replace(ssh, "ssh = \"a\"\n", "port = 22\n", 1), []string{"[client]", "remove these keys too"}},
		{strings.Replace(ssh, "10.1.1.2", "10.1.1.1", 1), []string{"both hosts have the address"}},
		{strings.Replace(ssh, "\"b\"", "\"-oProxyCommand=x\"", 1), []string{"-oProxyCommand"}},
		{ssh + "port = 70000\n", []string{"70000"}},
		{ssh + "identity = \"/no/such/key\"\n", []string{"/no/such/key"}},
		{ssh + "namespace = \"x\"\n", []string{"[broker]", "netns"}},
		{"kind = \"ssh\"\n[link]\ncongestion = \"cubic\"\n" + ssh[len("kind = \"ssh\"\n"):], []string{"[link]", "congestion"}},
		{"kind = ", []string{":1"}},
		{strings.Repeat("#", maxTestbedBytes+1), []string{"bytes"}},
	} {
		path := filepath.Join(t.TempDir(), "bad.toml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadTestbed(path)
		for _, want := range append(c.want, "bad.toml") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: got %v, want %s", c.text, err, want)
			}
		}
	}
	if _, err := LoadTestbed("/no/such/file.toml"); err == nil || !strings.Contains(err.Error(), "template") {
		t.Errorf("a missing file: %v", err)
	}
}

// The files that the test hosts come with are good testbed files.
func TestTestbedFilesOfTestHosts(t *testing.T) {
	ns, err := LoadTestbed(hosttest.NamespaceTestbed(t))
	if err != nil || ns.Kind != host.Namespace {
		t.Errorf("%+v, %v", ns, err)
	}
	real := hosttest.SSH(t, "")
	tb, err := LoadTestbed(real.File)
	if err != nil {
		t.Fatal(err)
	}
	if tb.ClientHost != real.Client || tb.BrokerHost != real.Broker {
		t.Errorf("got %+v, want %+v and %+v", tb, real.Client, real.Broker)
	}
	h := hosttest.Open(t, tb.BrokerHost)
	if out, err := h.Run(t.Context(), "echo", "there"); err != nil || string(out) != "there\n" {
		t.Errorf("%q, %v", out, err)
	}
}
