package torture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startLimit is how long a broker may take to come up, stopLimit to stop.
const (
	startLimit = 60 * time.Second
	stopLimit  = 60 * time.Second
)

// Build builds the kafka binary into a folder of the test and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "kafka")
	if out, err := exec.Command("go", "build", "-o", bin, "kafkalab/kafka/cmd/kafka").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// NeedStrace skips a test that watches a process's system calls where strace is
// missing. In CI it fails.
func NeedStrace(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		const how = "this test needs the package strace: run \"make setup\""
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
}

// Process is a broker in a process of its own. It is killed at the end of the
// test if it still runs.
type Process struct {
	t     testing.TB
	cmd   *exec.Cmd
	log   *processLog
	ended chan struct{} // closed when err is set
	err   error         // of the wait for it
}

// Start starts a broker and waits until it serves. The test fails, with the
// broker's log, if it does not.
func Start(t testing.TB, argv ...string) *Process {
	t.Helper()
	p := Launch(t, argv...)
	if err := p.WaitReady(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Launch starts a broker and does not wait. argv is the binary, "broker", and
// the flags; another program that runs those may stand before them.
func Launch(t testing.TB, argv ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(argv[0], argv[1:]...), log: &processLog{ready: make(chan struct{})}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start broker: %v", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.Kill)
	return p
}

// WaitReady waits until the broker serves.
func (p *Process) WaitReady() error {
	timeout := time.NewTimer(startLimit)
	defer timeout.Stop()
	select {
	case <-p.log.ready:
		return nil
	case <-p.ended:
		return fmt.Errorf("the broker has ended: %w; its log:\n%s", p.err, p.Log())
	case <-timeout.C:
		return fmt.Errorf("the broker is not up within %v; its log:\n%s", startLimit, p.Log())
	}
}

// Ready reports whether the broker has come to serve.
func (p *Process) Ready() bool {
	select {
	case <-p.log.ready:
		return true
	default:
		return false
	}
}

// Addr returns the address that a broker that is ready serves on.
func (p *Process) Addr() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.addr
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Log returns what the broker has written to its standard output and error, the
// end of it if it is long.
func (p *Process) Log() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.b.String()
}

// Kill kills the broker with signal 9 and waits for its end. It does nothing to
// one that has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only for one that has ended
	<-p.ended
}

// Stop stops the broker as its user would, and returns an error if it does not
// end well. It takes SIGKILL after a minute.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop broker: %w", err)
	}
	timeout := time.NewTimer(stopLimit)
	defer timeout.Stop()
	select {
	case <-p.ended:
	case <-timeout.C:
		p.Kill()
		return fmt.Errorf("the broker does not stop within %v; its log:\n%s", stopLimit, p.Log())
	}
	if p.err != nil {
		return fmt.Errorf("the broker stopped badly: %w; its log:\n%s", p.err, p.Log())
	}
	return nil
}

// maxLogBytes bounds what is kept of a broker's log.
const maxLogBytes = 1 << 20

// started is the line that a broker logs when it serves.
var started = regexp.MustCompile(`broker started.*?\blisten"?[=:]"?([^ ",]+:[0-9]+)`)

// processLog keeps the end of what a broker logs and finds its address in it.
type processLog struct {
	ready chan struct{} // closed when addr is set

	mu   sync.Mutex
	b    bytes.Buffer
	addr string
}

var _ io.Writer = (*processLog)(nil)

func (l *processLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(b)
	if l.addr == "" {
		if m := started.FindSubmatch(l.b.Bytes()); m != nil {
			l.addr = string(m[1])
			close(l.ready)
		}
	}
	if over := l.b.Len() - maxLogBytes; over > 0 {
		l.b.Next(over)
	}
	return len(b), nil
}

// Run runs a command of the kafka binary to its end and returns what it printed.
func Run(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return string(out), err
}
