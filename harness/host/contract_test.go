package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/host"
)

// contract checks that a host does what the interface promises. It is run
// with every kind.
func contract(t *testing.T, open func(t *testing.T) host.Host) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, ctx context.Context, h host.Host)
	}{
		{"a program's output and pid are its own", testOutput},
		{"input reaches the program", testInput},
		{"environment and folder", testEnvironment},
		{"words arrive as they are", testQuoting},
		{"a failure says how", testFailure},
		{"a missing program is refused", testMissingProgram},
		{"a signal reaches the program", testSignal},
		{"stop lets a program end", testStop},
		{"stop kills the group", testStopKills},
		{"the group ends with its program", testGroupEnds},
		{"waiting ends with the context", testWaitContext},
		{"run ends with the context", testRunContext},
		{"usage grows", testUsage},
		{"files", testFiles},
		{"fetch", testFetch},
		{"removal stays below the folder", testRemoveAll},
		{"sizes", testSizes},
		{"free ports differ", testPorts},
		{"many at once", testMany},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			c.test(t, ctx, open(t))
		})
	}
	t.Run("close ends all and removes its folder", func(t *testing.T) { testClose(t, open(t)) })
}

func start(t *testing.T, ctx context.Context, h host.Host, out *bytes.Buffer, args ...string) host.Process {
	t.Helper()
	c := host.Command{Name: "test program", Args: args}
	if out != nil {
		c.Out = out
	}
	p, err := h.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testOutput(t *testing.T, ctx context.Context, h host.Host) {
	var out, errs bytes.Buffer
	p, err := h.Start(ctx, host.Command{Name: "pid", Args: []string{"sh", "-c", "echo $$; echo two; echo trouble >&2"}, Out: &out, Err: &errs})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d\ntwo\n", p.PID()); out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
	if errs.String() != "trouble\n" {
		t.Errorf("standard error %q", errs.String())
	}
}

func testInput(t *testing.T, ctx context.Context, h host.Host) {
	in := strings.Repeat("0123456789abcde\n", 20000)
	var out bytes.Buffer
	p, err := h.Start(ctx, host.Command{Args: []string{"cat"}, In: strings.NewReader(in), Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if out.String() != in {
		t.Errorf("%d bytes came back of %d", out.Len(), len(in))
	}
	// Without input a program sees its end at once.
	if got, err := h.Run(ctx, "cat"); err != nil || len(got) != 0 {
		t.Errorf("cat without input: %q, %v", got, err)
	}
}

func testEnvironment(t *testing.T, ctx context.Context, h host.Host) {
	var out bytes.Buffer
	p, err := h.Start(ctx, host.Command{
		Args: []string{"sh", "-c", "echo \"$KAFKALAB_A\"; pwd"},
		Env:  []string{"KAFKALAB_A=it's a \"value\" $HOME"},
		Dir:  "/usr/lib", Out: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if want := "it's a \"value\" $HOME\n/usr/lib\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if _, err := h.Start(ctx, host.Command{Args: []string{"true"}, Env: []string{"no assignment"}}); err == nil {
		t.Error("an environment without a name was taken")
	}
}

func testQuoting(t *testing.T, ctx context.Context, h host.Host) {
	words := []string{"it's", "$HOME", "a  b", "`id`", "\\", "*", "", "\"", "line\nline", "--", "ü"}
	out, err := h.Run(ctx, append([]string{"printf", "<%s>"}, words...)...)
	if err != nil {
		t.Fatal(err)
	}
	if want := "<" + strings.Join(words, "><") + ">"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func testFailure(t *testing.T, ctx context.Context, h host.Host) {
	_, err := h.Run(ctx, "sh", "-c", "echo first >&2; echo the reason >&2; exit 7")
	if err == nil {
		t.Fatal("a failure was taken for success")
	}
	for _, want := range []string{"the reason", "7", h.Name()} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	p := start(t, ctx, h, nil, "sh", "-c", "kill -KILL $$")
	if err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a program that was killed: %v", err)
	}
	if err := p.Signal(ctx, syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
	if _, err := p.Usage(ctx); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("usage after the end: %v", err)
	}
}

func testMissingProgram(t *testing.T, ctx context.Context, h host.Host) {
	for _, name := range []string{"no-such-program", "/no/such/program"} {
		if _, err := h.Start(ctx, host.Command{Args: []string{name}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("starting %s: %v", name, err)
		}
	}
	if _, err := h.Start(ctx, host.Command{}); err == nil {
		t.Error("a command without words was started")
	}
	if _, err := h.Start(ctx, host.Command{Args: []string{"true", "a\x00b"}}); err == nil {
		t.Error("a NUL byte was taken")
	}
}

func testSignal(t *testing.T, ctx context.Context, h host.Host) {
	var out bytes.Buffer
	p := start(t, ctx, h, &out, "sh", "-c", `trap 'echo got it; exit 3' USR1; : > "$1"; while :; do sleep 0.05; done`, "sh", h.Dir()+"/ready")
	waitFile(t, ctx, h, h.Dir()+"/ready")
	if err := p.Signal(ctx, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "3") {
		t.Errorf("ended with %v", err)
	}
	if out.String() != "got it\n" {
		t.Errorf("output %q", out.String())
	}
}

func testStop(t *testing.T, ctx context.Context, h host.Host) {
	var out bytes.Buffer
	p := start(t, ctx, h, &out, "sh", "-c", `trap 'echo orderly; exit 0' TERM; : > "$1"; while :; do sleep 0.05; done`, "sh", h.Dir()+"/ready")
	waitFile(t, ctx, h, h.Dir()+"/ready")
	for range 2 {
		if err := p.Stop(ctx, 30*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Wait(ctx); err != nil || out.String() != "orderly\n" {
		t.Errorf("ended with %v, output %q", err, out.String())
	}
}

// family is a program that ignores SIGTERM, as does its child; it writes both
// pids to a file.
const family = `trap '' TERM; sh -c 'trap "" TERM; while :; do sleep 1; done' & echo $$ $! > "$1.part"; mv "$1.part" "$1"; wait; while :; do sleep 1; done`

func startFamily(t *testing.T, ctx context.Context, h host.Host, script string) (host.Process, []string) {
	t.Helper()
	file := h.Dir() + "/family"
	p := start(t, ctx, h, nil, "sh", "-c", script, "sh", file)
	waitFile(t, ctx, h, file)
	pids, err := h.ReadFile(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.Fields(string(pids))
}

func testStopKills(t *testing.T, ctx context.Context, h host.Host) {
	p, pids := startFamily(t, ctx, h, family)
	if pids[0] != fmt.Sprint(p.PID()) {
		t.Errorf("pid %d, the program says %s", p.PID(), pids[0])
	}
	if err := p.Stop(ctx, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		waitGone(t, pid)
	}
}

func testGroupEnds(t *testing.T, ctx context.Context, h host.Host) {
	// The child keeps standard output open, which must not hold up the end.
	p, pids := startFamily(t, ctx, h, `sh -c 'while :; do sleep 1; done' & echo $$ $! > "$1.part"; mv "$1.part" "$1"`)
	if err := p.Wait(ctx); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		waitGone(t, pid)
	}
}

func testWaitContext(t *testing.T, ctx context.Context, h host.Host) {
	p := start(t, ctx, h, nil, "sleep", "1000")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := p.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	if err := p.Stop(ended, time.Hour); err != nil {
		t.Errorf("stop with an ended context: %v", err)
	}
	waitGone(t, fmt.Sprint(p.PID()))
	if _, err := h.Start(ended, host.Command{Args: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("start with an ended context: %v", err)
	}
}

func testRunContext(t *testing.T, ctx context.Context, h host.Host) {
	short, cancel := context.WithCancel(ctx)
	file := h.Dir() + "/pid"
	ended := make(chan error, 1)
	go func() {
		_, err := h.Run(short, "sh", "-c", `echo $$ > "$1.part"; mv "$1.part" "$1"; exec sleep 1000`, "sh", file)
		ended <- err
	}()
	waitFile(t, ctx, h, file)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	pid, err := h.ReadFile(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	waitGone(t, strings.TrimSpace(string(pid)))
}

func testUsage(t *testing.T, ctx context.Context, h host.Host) {
	p := start(t, ctx, h, nil, "sh", "-c", "while :; do :; done")
	for {
		u, err := p.Usage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if u.UserSeconds+u.SystemSeconds > 0 && u.ResidentBytes > 0 {
			break
		}
	}
	if err := p.Stop(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
}

func testFiles(t *testing.T, ctx context.Context, h host.Host) {
	dir := h.Dir() + "/a b/c'd"
	if err := h.MkdirAll(ctx, dir); err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{[]byte("one\x00two\n"), {}, bytes.Repeat([]byte("x"), 1<<20)} {
		if err := h.WriteFile(ctx, dir+"/file", data, 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := h.ReadFile(ctx, dir+"/file")
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("read %d bytes of %d, %v", len(got), len(data), err)
		}
	}
	out, err := h.Run(ctx, "stat", "-c", "%a", dir+"/file")
	if err != nil || string(out) != "640\n" {
		t.Errorf("mode %q, %v", out, err)
	}
	if _, err := h.ReadFile(ctx, dir+"/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := h.WriteFile(ctx, dir+"/no/folder", nil, 0o600); err == nil {
		t.Error("a file was written into a folder that does not exist")
	}
	for _, err := range []error{
		h.MkdirAll(ctx, "relative"), h.WriteFile(ctx, "relative", nil, 0o600),
		h.Fetch(ctx, "relative", t.TempDir()),
	} {
		if err == nil || !strings.Contains(err.Error(), "absolute") {
			t.Errorf("a relative path: %v", err)
		}
	}
}

func testFetch(t *testing.T, ctx context.Context, h host.Host) {
	local := t.TempDir()
	want := bytes.Repeat([]byte("kafkalab"), 100_000)
	tree := h.Dir() + "/tree"
	if err := h.MkdirAll(ctx, tree+"/sub"); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile(ctx, tree+"/sub/copy", want, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(ctx, "ln", "-s", "sub/copy", tree+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := h.Fetch(ctx, tree, filepath.Join(local, "deep/back")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"deep/back/sub/copy", "deep/back/link"} {
		if got, err := os.ReadFile(filepath.Join(local, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if info, err := os.Stat(filepath.Join(local, "deep/back/sub/copy")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := h.Fetch(ctx, tree+"/sub/copy", filepath.Join(local, "single")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(local, "single")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("single file: %d bytes, %v", len(got), err)
	}
	if err := h.Fetch(ctx, tree+"/nothing", filepath.Join(local, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("fetching what is not there: %v", err)
	}
	if _, err := h.Run(ctx, "ln", "-s", "/etc/passwd", tree+"/out"); err != nil {
		t.Fatal(err)
	}
	if err := h.Fetch(ctx, tree, filepath.Join(local, "out")); err == nil || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("a link that leads out: %v", err)
	}
}

func testRemoveAll(t *testing.T, ctx context.Context, h host.Host) {
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := h.Dir()
	if err := h.MkdirAll(ctx, d+"/x/y"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(ctx, "ln", "-s", outside, d+"/way"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{d, d + "/", d + "/.", d + "/x/../..", d + "/..", "/", "", "x", d + "x", outside, d + "/way/kept"} {
		if err := h.RemoveAll(ctx, p); err == nil {
			t.Errorf("RemoveAll(%q) was not refused", p)
		}
	}
	for _, p := range []string{d + "/x/y", d + "/x", d + "/x/y/z", d + "/nothing", d + "/way"} {
		if err := h.RemoveAll(ctx, p); err != nil {
			t.Error(err)
		}
	}
	if out, err := h.Run(ctx, "ls", "-A", d); err != nil || len(out) != 0 {
		t.Errorf("left in the folder: %q, %v", out, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func testSizes(t *testing.T, ctx context.Context, h host.Host) {
	if err := h.WriteFile(ctx, h.Dir()+"/f", bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := h.AllocatedBytes(ctx, h.Dir()); err != nil || n < 1<<20 || n > 2<<20 {
		t.Errorf("allocated %d, %v", n, err)
	}
	if n, err := h.FreeBytes(ctx, h.Dir()); err != nil || n <= 0 {
		t.Errorf("free %d, %v", n, err)
	}
	if _, err := h.AllocatedBytes(ctx, h.Dir()+"/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("allocated by nothing: %v", err)
	}
	if _, err := h.FreeBytes(ctx, "/nothing/there"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("free on nothing: %v", err)
	}
}

func testPorts(t *testing.T, ctx context.Context, h host.Host) {
	seen := map[int]bool{}
	for range 5 {
		port, err := h.FreePort(ctx)
		if err != nil || port < 1024 || port > 65535 || seen[port] {
			t.Fatalf("port %d, %v", port, err)
		}
		seen[port] = true
	}
}

// testMany starts more programs at once than sshd allows sessions of one
// connection (10).
func testMany(t *testing.T, ctx context.Context, h host.Host) {
	const n = 14
	errs := make(chan error, n)
	processes := make(chan host.Process, n)
	for range n {
		go func() {
			p, err := h.Start(ctx, host.Command{Args: []string{"sleep", "1000"}})
			if err == nil {
				processes <- p
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	close(processes)
	for p := range processes {
		if err := p.Stop(ctx, time.Second); err != nil {
			t.Error(err)
		}
	}
}

func testClose(t *testing.T, h host.Host) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	dir := h.Dir()
	p, pids := startFamily(t, ctx, h, family)
	ended, cancelEnded := context.WithCancel(ctx)
	cancelEnded() // Close with an ended context kills at once, and cleans up
	for range 2 {
		if err := h.Close(ended); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-p.Done():
	default:
		t.Error("a program runs after Close")
	}
	for _, pid := range pids {
		waitGone(t, pid)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s after Close: %v", filepath.Dir(dir), err)
	}
	if _, err := h.Start(ctx, host.Command{Args: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("start after Close: %v", err)
	}
}

// waitFile waits until the program under test has made a file.
func waitFile(t *testing.T, ctx context.Context, h host.Host, path string) {
	t.Helper()
	_, err := h.Run(ctx, "sh", "-c", `until [ -e "$1" ]; do sleep 0.02; done`, "sh", path)
	if err != nil {
		t.Fatalf("waiting for %s: %v", path, err)
	}
}

// waitGone waits until the process, on this machine in all tests, is no more.
func waitGone(t *testing.T, pid string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			return
		}
		// A zombie is gone for all but its parent, which is not ours to choose.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i:], []byte(") Z")) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s is still there", pid)
}
