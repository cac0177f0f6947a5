package launch

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openHost(t *testing.T) host.Host {
	t.Helper()
	return hosttest.Open(t, host.Config{Name: "here", Kind: host.Local, Dir: t.TempDir()})
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// shell starts a shell script as a program.
func shell(t *testing.T, h host.Host, name, script, ready string) *Program {
	t.Helper()
	p, err := Start(t.Context(), h, host.Command{Name: name, Args: []string{"sh", "-c", script}}, 4711, ready)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWaitReady(t *testing.T) {
	h := openHost(t)
	// The text comes in two pieces, after more than is kept.
	p := shell(t, h, "good", `i=0; while [ $i -lt 200 ]; do echo "line $i of many ................"; i=$((i+1)); done; printf "all re"; sleep 0.1; echo "ady"; exec sleep 100`, "all ready")
	if err := p.WaitReady(deadline(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReady(deadline(t, 30*time.Second)); err != nil {
		t.Errorf("the second time: %v", err)
	}
	for _, test := range []struct {
		name string
		wait func() error
		want []string
	}{
		{"ends", func() error {
			return shell(t, h, "bad", `echo "address in use" >&2; exit 3`, "ready").WaitReady(deadline(t, 30*time.Second))
		}, []string{"bad", "4711", "address in use", "exit status 3", `"ss -tlnp" on here`}},
		{"ends without an error", func() error {
			return shell(t, h, "bad", `exit 0`, "ready").WaitReady(deadline(t, 30*time.Second))
		}, []string{"bad ended", "4711", "it wrote nothing"}},
		{"deadline", func() error {
			return shell(t, h, "slow", `echo thinking; exec sleep 100`, "ready").WaitReady(deadline(t, 300*time.Millisecond))
		}, []string{"slow", "4711", "thinking", context.DeadlineExceeded.Error()}},
		{"what it needs ends", func() error {
			needed := shell(t, h, "needed", `echo "no room"; exit 1`, "")
			return shell(t, h, "needy", `exec sleep 100`, "ready").WaitReady(deadline(t, 30*time.Second), needed)
		}, []string{"needy", "needed", "no room"}},
	} {
		err := test.wait()
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not name %q", test.name, err, want)
			}
		}
	}
}

// What an error message shows of an output is short, and plain text.
func TestTail(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{"", "it wrote nothing"},
		{" \n\x1b[0m\n", "it wrote nothing"},
		{"one\ntwo\n\n  three\nfour\n", "its last output: two / three / four"},
		{"\x1b[38;5;87mred\x1b[0m and \x1b[1mbold\x1b[K", "its last output: red and bold"},
	} {
		w := NewWatch("")
		if _, err := w.Write([]byte(c.output)); err != nil {
			t.Fatal(err)
		}
		if got := w.Tail(); got != c.want {
			t.Errorf("tail of %q is %q, want %q", c.output, got, c.want)
		}
	}
	w := NewWatch("")
	for range 100 {
		if _, err := w.Write([]byte(strings.Repeat("é", 100))); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.TrimPrefix(w.Tail(), "its last output: ")
	if n := utf8.RuneCountInString(got); n != tailRunes || !strings.HasSuffix(got, "éé") || !utf8.ValidString(got) {
		t.Errorf("the tail of one long line has %d characters: %q", n, got)
	}
}

func TestMissing(t *testing.T) {
	h := openHost(t)
	if err := Missing(t.Context(), h, "some-package", "sh", "/bin/sh"); err != nil {
		t.Error(err)
	}
	err := Missing(t.Context(), h, "some-package", "sh", "/no/such/file", "no-such-program")
	if !errors.Is(err, driver.ErrNotInstalled) {
		t.Fatalf("%v, wanted ErrNotInstalled", err)
	}
	for _, want := range []string{"here", "/no/such/file", "no-such-program", "apt-get install --no-install-recommends some-package"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
}

func TestPackageVersion(t *testing.T) {
	h := openHost(t)
	v, err := PackageVersion(t.Context(), h, "no-such-package", "sh", "-c", "echo 1.2.3; echo more")
	if v != "1.2.3" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	// dpkg-query succeeds and says nothing of a package that was removed.
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "dpkg-query"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("no version", func(t *testing.T) {
		t.Setenv("PATH", empty+":"+os.Getenv("PATH"))
		if v, err := PackageVersion(t.Context(), h, "removed", "false"); err == nil || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "it names none") {
			t.Errorf("%q, %v", v, err)
		}
	})
	if v, err := PackageVersion(t.Context(), h, "no-such-package", "false"); err == nil || !strings.Contains(err.Error(), "no-such-package") {
		t.Errorf("%q, %v, wanted an error that names the package", v, err)
	}
}

func TestExchange(t *testing.T) {
	h := openHost(t)
	l, err := net.Listen("tcp", net.JoinHostPort(h.Addr(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		b := make([]byte, 8)
		n, err := c.Read(b)
		if err != nil {
			t.Error(err)
		}
		served <- string(b[:n])
		// With bytes that a shell has trouble with, and in two pieces.
		for _, part := range []string{"\x01\x00\xff* RAB", "BIT \x00"} {
			if _, err := c.Write([]byte(part)); err != nil {
				t.Error(err)
			}
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	if err := Exchange(deadline(t, 30*time.Second), h, port, `HI\0\11`, "RABBIT"); err != nil {
		t.Fatal(err)
	}
	if got := <-served; got != "HI\x00\t" {
		t.Errorf("the server was sent %q", got)
	}
	l.Close()
	if err := Exchange(deadline(t, 300*time.Millisecond), h, port, "HI", "RABBIT"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody listens: %v", err)
	}
}
