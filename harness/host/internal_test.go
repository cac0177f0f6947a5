package host

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Whatever a login shell prints before it, and however the output is cut up,
// the pid is found and the program's output is whole.
func TestPIDLine(t *testing.T) {
	text := "Welcome\nYou have mail\nkafkalab-pid 4711\nfirst\nkafkalab-pid 1\n\nlast"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := &pidLine{out: &out, found: make(chan int, 1)}
		for i := 0; i < len(text); i += size {
			piece := text[i:min(i+size, len(text))]
			if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if pid := <-w.found; pid != 4711 || out.String() != "first\nkafkalab-pid 1\n\nlast" {
			t.Errorf("in pieces of %d: pid %d, output %q", size, pid, out.String())
		}
	}
	w := &pidLine{found: make(chan int, 1)}
	if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err == nil {
		t.Error("a line without end was kept")
	}
	if _, err := (&pidLine{found: make(chan int, 1)}).Write([]byte("kafkalab-pid x\n")); err == nil {
		t.Error("a pid that is no number was taken")
	}
}

func TestParseUsage(t *testing.T) {
	// A program may call itself ") S 1 (".
	stat := []byte("42 () S 1 () R 1 42 42 0 -1 4194304 90 0 0 0 150 25 0 0 20 0 1 0 100 1 1 1")
	status := []byte("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n")
	io := []byte("rchar: 1\nsyscr: 7\nsyscw: 5\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n")
	u, err := parseUsage(stat, status, io)
	want := Usage{UserSeconds: 1.5, SystemSeconds: 0.25, ResidentBytes: 2048 << 10, ReadBytes: 4096, WrittenBytes: 8192, Syscalls: 12}
	if err != nil || u != want {
		t.Errorf("got %+v, %v", u, err)
	}
	for _, bad := range [][3][]byte{
		{nil, status, io}, {[]byte("42 (x) R 1"), status, io}, {stat, status, nil},
		{stat, []byte("VmRSS:\n"), io}, {[]byte("42 (x) R 1 42 42 0 -1 4194304 90 0 0 0 a 25 0"), status, io},
	} {
		if _, err := parseUsage(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestUsedPorts(t *testing.T) {
	used := usedPorts([]byte("  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A\n   1: 00000000000000000000000000000000:0016 0:0 0A\nshort\n"))
	if len(used) != 2 || !used[8080] || !used[22] {
		t.Errorf("got %v", used)
	}
}

func TestBoundedOutput(t *testing.T) {
	b := bounded{buf: make([]byte, maxOutputBytes-1)}
	if _, err := b.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := b.Write([]byte("x")); err == nil {
		t.Error("more than the bound was kept")
	}
	tl := NewTail(4)
	fmt.Fprint(tl, "abc")
	fmt.Fprint(tl, "defgh")
	if tl.String() != "efgh" {
		t.Errorf("tail %q", tl.String())
	}
}

// A write whose input is cut off, as by a lost connection, changes nothing.
func TestWriteIsWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/file"
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", writeScript, "write", file, "0600", "100")
	cmd.Stdin = strings.NewReader("cut off")
	if err := cmd.Run(); err == nil {
		t.Error("a write that was cut off was taken")
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "before" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left: %v, %v", names, err)
	}
}

func TestCoresOfAList(t *testing.T) {
	for _, c := range []struct {
		list  string
		n     int
		first string
	}{{"0-3", 1, "0"}, {"0-3", 3, "0,1,2"}, {"4,0-2", 2, "4,0"}, {"1,1-2", 2, "1,2"}, {"0-1", 5, "0,1"}, {"7", 1, "7"}} {
		if got := FirstCores(c.list, c.n); got != c.first {
			t.Errorf("the first %d of %s: %q, want %q", c.n, c.list, got, c.first)
		}
	}
	for list, want := range map[string]int{"": 0, "0": 1, "0-3": 4, "0,2,2-3": 3} {
		if got := CountCores(list); got != want {
			t.Errorf("%q: %d cores, want %d", list, got, want)
		}
	}
}
