package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// localReach reaches this machine, or a network namespace of it.
type localReach struct{ namespace string }

// registerScript registers with the guard and becomes the program: the pid
// stays, through "ip netns exec" too, which replaces itself. $1 is the guard's
// folder, the rest is joinScript's. The control group is joined first: in a
// namespace it is not to be seen.
const registerScript = `: > "$1/$$" || exit 126; shift
` + joinScript

func (r *localReach) guard(base string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "kafkalab-guard", base)
	cmd.Dir = "/"
	// A session of its own: no signal of the terminal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func (r *localReach) start(_ context.Context, m *machine, c Command) (*process, error) {
	// ip and sh would report a missing program only after the start.
	program, err := r.lookPath(c)
	if err != nil {
		return nil, err
	}
	registered := m.guard.runDir + "/processes"
	cores, group := c.confined.words()
	args := []string{"-c", registerScript, c.Name, registered, cores, group}
	if r.namespace != "" {
		ip, err := exec.LookPath("ip")
		if err != nil {
			return nil, errors.New("the program ip is missing: install the package iproute2")
		}
		args = append(args, ip, "netns", "exec", r.namespace)
	}
	args = append(append(args, program), c.Args[1:]...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = m.Dir()
	}
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := startCommand(cmd, c); err != nil {
		return nil, err
	}
	p := &process{name: c.Name, host: m.cfg.Name, m: m, pid: cmd.Process.Pid, cmd: cmd, done: make(chan struct{})}
	go r.reap(p, filepath.Join(registered, strconv.Itoa(p.pid)))
	return p, nil
}

func (r *localReach) lookPath(c Command) (string, error) {
	program := c.Args[0]
	if filepath.Base(program) != program && !filepath.IsAbs(program) && c.Dir != "" {
		program = filepath.Join(c.Dir, program)
	}
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// reap waits for the program's end and ends its group with it. The group is
// killed before the program is reaped, while its pid cannot be another's.
func (r *localReach) reap(p *process, registration string) {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	_ = unix.Kill(-p.pid, unix.SIGKILL) // ESRCH: nobody is left
	err := p.cmd.Wait()
	if rmErr := os.Remove(registration); rmErr != nil && !errors.Is(rmErr, os.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	p.finish(err)
}

func (r *localReach) signal(_ context.Context, p *process, sig syscall.Signal, group bool) error {
	if !group {
		return p.cmd.Process.Signal(sig) // by pidfd: never another process
	}
	err := unix.Kill(-p.pid, sig)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (r *localReach) usage(_ context.Context, p *process) (Usage, error) {
	var texts [3][]byte
	for i, name := range usageFiles {
		var err error
		if texts[i], err = os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, name)); err != nil {
			return Usage{}, err
		}
	}
	return parseUsage(texts[0], texts[1], texts[2])
}

func (r *localReach) binary(_ context.Context, _ *machine, local, _ string) (string, error) {
	return local, nil
}

// shell runs a script beside the host's programs, and outside of its
// namespace: the kernel's control groups are not to be seen in there.
func (r *localReach) shell(ctx context.Context, script string, args ...string) ([]byte, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "kafkalab"}, args...)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not to be ended by Ctrl-C half-way
	return shell(ctx, cmd, func(err error) error { return err })
}

func (r *localReach) explain(err error) error { return err }
func (r *localReach) close() error            { return nil }
