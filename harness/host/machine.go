package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// reach is the difference between the kinds of host: how a shell script is
// started there, and how what it started is signalled and looked at.
// Everything else is a machine's, and alike for all.
type reach interface {
	// guard returns the command that runs guardScript.
	guard(base string) *exec.Cmd
	// start starts a program that registers with the guard. The returned
	// process's finish is called when it has ended.
	start(ctx context.Context, m *machine, c Command) (*process, error)
	// signal sends a signal to the program, or to its whole group.
	signal(ctx context.Context, p *process, sig syscall.Signal, group bool) error
	usage(ctx context.Context, p *process) (Usage, error)
	// shell runs a small script on the machine, outside of any namespace. It is
	// not registered with the guard and not waited for by Close.
	shell(ctx context.Context, script string, args ...string) ([]byte, error)
	// binary makes a file of this machine available on the host.
	binary(ctx context.Context, m *machine, local, name string) (string, error)
	// explain makes an error of opening understandable.
	explain(err error) error
	close() error
}

// machine is the one implementation of Host.
type machine struct {
	cfg   Config
	reach reach
	guard *guard

	mu      sync.Mutex
	closed  bool
	running map[*process]struct{}
	ports   map[int]bool      // handed out by FreePort
	answers map[string][]byte // of Ask

	binMu    sync.Mutex
	binaries map[string]string

	closeOnce sync.Once
	closeErr  error
}

func (m *machine) open(ctx context.Context) error {
	m.running = map[*process]struct{}{}
	m.ports = map[int]bool{}
	m.answers = map[string][]byte{}
	m.binaries = map[string]string{}
	g, err := startGuard(ctx, m.reach.guard(m.cfg.Dir), m.cfg.Kind == SSH)
	if err != nil {
		return fmt.Errorf("host %s: %w", m.cfg.Name, m.reach.explain(err))
	}
	m.guard = g
	return nil
}

func (m *machine) Name() string { return m.cfg.Name }
func (m *machine) Kind() Kind   { return m.cfg.Kind }
func (m *machine) Addr() string { return m.cfg.Addr }
func (m *machine) Dir() string  { return m.guard.runDir + "/data" }

// variable is the name of an environment variable, as far as it can be passed
// through a shell.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// Start starts a program. ctx bounds the starting only. What is left of the
// program's process group when it ends is killed.
func (m *machine) Start(ctx context.Context, c Command) (Process, error) {
	p, err := m.startProcess(ctx, c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (m *machine) startProcess(ctx context.Context, c Command) (*process, error) {
	if c.Name == "" && len(c.Args) > 0 {
		c.Name = filepath.Base(c.Args[0])
	}
	p, err := m.tryStart(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("starting %s on %s: %w", c.Name, m.cfg.Name, err)
	}
	return p, nil
}

func (m *machine) tryStart(ctx context.Context, c Command) (*process, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, errors.New("no program is named")
	}
	for _, words := range [][]string{c.Args, c.Env, {c.Dir}} {
		for _, w := range words {
			if strings.Contains(w, "\x00") {
				return nil, fmt.Errorf("%q holds a NUL byte", w)
			}
		}
	}
	for _, e := range c.Env {
		if !variable.MatchString(e) {
			return nil, fmt.Errorf("environment %q: NAME=value is wanted", e)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.isClosed() {
		return nil, errClosed
	}
	if err := m.guard.alive(); err != nil {
		return nil, err
	}
	p, err := m.reach.start(ctx, m, c)
	if err != nil {
		return nil, err
	}
	// Close sees the process among the running ones, or it is ended here.
	m.mu.Lock()
	closed := m.closed
	if !closed && !p.ended() {
		m.running[p] = struct{}{}
	}
	m.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed, p.Stop(ctx, 0))
	}
	return p, nil
}

var errClosed = errors.New("the host is closed")

func (m *machine) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

func (m *machine) forget(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, p)
}

func (m *machine) Run(ctx context.Context, args ...string) ([]byte, error) {
	var out bounded
	err := m.run(ctx, Command{Args: args, Out: &out})
	return out.buf, err
}

// run runs a program to its end or kills it when ctx ends.
func (m *machine) run(ctx context.Context, c Command) error {
	stderr := NewTail(tailBytes)
	c.Err = stderr
	p, err := m.startProcess(ctx, c)
	if err != nil {
		return err
	}
	err = p.Wait(ctx)
	if !p.ended() {
		return errors.Join(err, p.Stop(ctx, 0))
	}
	if err != nil {
		return withTail(err, stderr)
	}
	return nil
}

// Close ends what is left, at once when ctx has ended, and lets the guard
// remove the run's folder.
func (m *machine) Close(ctx context.Context) error {
	m.closeOnce.Do(func() { m.closeErr = m.close(ctx) })
	return m.closeErr
}

func (m *machine) close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	left := make([]*process, 0, len(m.running))
	for p := range m.running {
		left = append(left, p)
	}
	m.mu.Unlock()

	errs := make([]error, len(left), len(left)+1)
	var wg sync.WaitGroup
	for i, p := range left {
		wg.Go(func() { errs[i] = p.Stop(ctx, closeGrace) })
	}
	wg.Wait()
	// Also when ctx has ended, there is a little time to clean up.
	gctx, cancel := context.WithTimeout(ctx, guardWait)
	if ctx.Err() != nil {
		gctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), guardWaitInterrupted)
	}
	defer cancel()
	if err := m.guard.close(gctx); err != nil {
		errs = append(errs, fmt.Errorf("host %s: cleaning up: %w", m.cfg.Name, err))
	}
	errs = append(errs, m.reach.close())
	return errors.Join(errs...)
}

const (
	closeGrace = 3 * time.Second // for processes that are left at Close
	// Removing gigabytes takes its time, but not after Ctrl-C.
	guardWait            = 60 * time.Second
	guardWaitInterrupted = 4 * time.Second
)

// Binary finds the program beside the running one, and has it copied to the
// host if that is another machine.
func (m *machine) Binary(ctx context.Context, name string) (string, error) {
	if !namePattern.MatchString(name) {
		return "", fmt.Errorf("%q is no name of a program", name)
	}
	m.binMu.Lock()
	defer m.binMu.Unlock()
	if path := m.binaries[name]; path != "" {
		return path, nil
	}
	dir := m.cfg.BinDir
	if dir == "" {
		exe, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding the folder of the program %s: %w", name, err)
		}
		dir = filepath.Dir(exe)
	}
	local, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(local); err != nil {
		return "", fmt.Errorf("the program %s is not beside this one (%w): \"make build\" makes it", name, err)
	}
	path, err := m.reach.binary(ctx, m, local, name)
	if err != nil {
		return "", fmt.Errorf("copying the program %s to %s: %w", name, m.cfg.Name, err)
	}
	m.binaries[name] = path
	return path, nil
}
