// Package hosttest gives tests hosts of every kind: this machine, two network
// namespaces with a link, and two real sshd servers, each in a namespace of
// its own. Names, addresses and ports are unique to the test, and all is
// removed when it ends, also when it is interrupted or killed.
package hosttest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
)

// programs are the packages of the programs that a host's Binary finds.
var programs = map[string]string{
	"kafka":   "kafkalab/kafka/cmd/kafka",
	"testbed": "kafkalab/harness/cmd/testbed",
}

// closeWait bounds the removal of what a test made.
const closeWait = 60 * time.Second

// Root ends a test that needs root rights and has none: it fails where the
// tests must be complete (CI=true), and is skipped elsewhere.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const why = "this test needs root rights, for network namespaces, control groups or mounts: run it as root, such as with \"sudo make test\""
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// built are the programs that this process has built: open files, whose names go
// with the folder of the test that was the first to want them.
var built struct {
	mu    sync.Mutex
	files map[string]*os.File
}

// Programs builds this project's programs of those names ("kafka", "testbed"),
// each once, and returns the folder that holds them, for host.Config.BinDir.
// It is a folder of the test's own: its path tells who started a program of it.
func Programs(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := program(name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// program puts a program at a path. A process of its own writes the file, so that
// none that this one starts meanwhile has it open: then it could not be run.
func program(name, path string) error {
	pkg, ok := programs[name]
	if !ok {
		return fmt.Errorf("there is no program %q", name)
	}
	built.mu.Lock()
	defer built.mu.Unlock()
	if f := built.files[name]; f != nil {
		if out, err := exec.Command("cp", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), path).CombinedOutput(); err != nil {
			return fmt.Errorf("copying the program %s: %w\n%s", name, err, out)
		}
		return nil
	}
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if built.files == nil {
		built.files = map[string]*os.File{}
	}
	built.files[name] = f
	return nil
}

// Open opens a host and closes it when the test ends.
func Open(t testing.TB, c host.Config) host.Host {
	t.Helper()
	h, err := host.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("closing host %s: %v", h.Name(), err)
		}
	})
	return h
}

// Local opens this machine, with its data in a temporary folder. binDir is
// what Programs returned, or "" if the test needs none.
func Local(t testing.TB, binDir string) host.Host {
	t.Helper()
	return Open(t, host.Config{Name: "local", Kind: host.Local, Dir: t.TempDir(), BinDir: binDir})
}

var serial atomic.Uint32

// unique returns a number that no other test has at the same time on this
// machine, below 1<<21, and in few letters.
func unique() (n uint32, letters string) {
	n = uint32(os.Getpid())&(1<<15-1)<<6 | serial.Add(1)&(1<<6-1)
	return n, fmt.Sprintf("%x", n)
}

// LinkConfig returns a link whose names no other test has. It is not made yet;
// what is made of it is removed when the test ends.
func LinkConfig(t testing.TB) link.Config {
	t.Helper()
	Root(t)
	c := link.Default()
	_, id := unique()
	c.Client.Namespace, c.Client.Device = "kltest-"+id+"-client", "klc"+id
	c.Broker.Namespace, c.Broker.Device = "kltest-"+id+"-broker", "klb"+id
	guardLink(t, c) // first, so that it ends last
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		if err := link.Down(ctx, c, &bytes.Buffer{}); err != nil {
			t.Errorf("removing the link: %v", err)
		}
	})
	return c
}

// Link makes a link and removes it when the test ends.
func Link(t testing.TB) link.Config {
	t.Helper()
	c := LinkConfig(t)
	var commands bytes.Buffer
	if err := link.Up(t.Context(), c, &commands); err != nil {
		t.Fatalf("%v\n%s", err, &commands)
	}
	return c
}

// NamespaceConfigs returns the two hosts of a link.
func NamespaceConfigs(t testing.TB, c link.Config, binDir string) (client, broker host.Config) {
	t.Helper()
	config := func(name string, e link.End) host.Config {
		return host.Config{Name: name, Kind: host.Namespace, Namespace: e.Namespace, Addr: e.Addr, Dir: t.TempDir(), BinDir: binDir}
	}
	return config("client", c.Client), config("broker", c.Broker)
}

// Namespaces makes a link and opens its two hosts.
func Namespaces(t testing.TB, binDir string) (client, broker host.Host) {
	t.Helper()
	c, b := NamespaceConfigs(t, Link(t), binDir)
	return Open(t, c), Open(t, b)
}

// NamespaceTestbed writes a testbed file for "testbed --testbed FILE" with two
// emulated hosts, which are not made yet, and returns its path. What is made
// of it is removed when the test ends.
func NamespaceTestbed(t testing.TB) string {
	t.Helper()
	c := LinkConfig(t)
	text := "kind = \"netns\"\n"
	for _, h := range []struct {
		table string
		end   link.End
	}{{"client", c.Client}, {"broker", c.Broker}} {
		text += fmt.Sprintf("\n[%s]\nnamespace = %q\ndevice = %q\naddress = %q\ndir = %q\n",
			h.table, h.end.Namespace, h.end.Device, h.end.Addr, t.TempDir())
	}
	return writeTestbed(t, text)
}

func writeTestbed(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testbed.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
