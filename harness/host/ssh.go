package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sshReach reaches another machine with the system's ssh, so that the user's
// settings, keys, agents and jump hosts work. The connection that runs the
// guard is the master which all others share: a program starts in
// milliseconds, and when that connection is lost, the guard sees it.
type sshReach struct {
	target  string
	options []string
	control string // path of the socket by which the connection is shared
	// near is a guard on this machine that removes the socket's folder.
	near *guard
}

// maxSocketPath is the longest path of a Unix socket, less what ssh appends
// while it makes one.
const maxSocketPath = 107 - 18

func newSSHReach(ctx context.Context, c Config) (*sshReach, error) {
	if _, err := exec.LookPath("ssh"); err != nil {
		return nil, errors.New("the program ssh is missing: install the package openssh-client")
	}
	base := filepath.Join(os.TempDir(), "kafkalab-ssh")
	if len(base)+len("/run-12345678/data/c") > maxSocketPath {
		base = "/tmp/kafkalab-ssh"
	}
	near, err := startGuard(ctx, (&localReach{}).guard(base), false)
	if err != nil {
		return nil, fmt.Errorf("host %s: making a folder for ssh: %w", c.Name, err)
	}
	s := &sshReach{target: c.SSH.Target, control: near.runDir + "/data/c", near: near}
	for _, o := range []string{
		"BatchMode=yes", // never ask: nobody may be there to answer
		"ConnectTimeout=15",
		"ServerAliveInterval=15", "ServerAliveCountMax=4",
		"ClearAllForwardings=yes", "ForwardX11=no", "ForwardAgent=no",
		"PermitLocalCommand=no", "RequestTTY=no", "ControlPersist=no",
	} {
		s.options = append(s.options, "-o", o)
	}
	if c.SSH.ConfigFile != "" {
		s.options = append(s.options, "-F", c.SSH.ConfigFile)
	}
	if c.SSH.Port != 0 {
		s.options = append(s.options, "-p", strconv.Itoa(c.SSH.Port))
	}
	if c.SSH.Identity != "" {
		s.options = append(s.options, "-i", c.SSH.Identity)
	}
	return s, nil
}

// command returns the ssh that runs a shell script on the host.
func (s *sshReach) command(master bool, script string, args ...string) *exec.Cmd {
	asMaster := "ControlMaster=no"
	if master {
		asMaster = "ControlMaster=yes"
	}
	words := append([]string{"/bin/sh", "-c", script}, args...)
	for i, w := range words {
		words[i] = quote(w)
	}
	a := append([]string{"-o", asMaster, "-o", "ControlPath=" + s.control}, s.options...)
	cmd := exec.Command("ssh", append(a, s.target, "exec "+strings.Join(words, " "))...)
	// In a group of its own, so that Ctrl-C reaches the testbed alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// quote makes one word of the remote shell.
func quote(w string) string { return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'" }

func (s *sshReach) guard(base string) *exec.Cmd {
	third := strconv.FormatFloat((guardSilence / 3).Seconds(), 'f', -1, 64)
	return s.command(true, guardScript, "kafkalab-guard", base, third)
}

// startScript runs a program in a group of its own. $1 is the guard's folder,
// $2 the working folder, $3 and $4 are the cores and the control group of
// joinScript, $5 is the program. The program's pid comes on a line of
// its own before all of its output. The shell stays to end the program's group
// with it: sshd would wait for whoever keeps the output open.
const startScript = `
p=$1 cores=$3 group=$4; cd -- "$2" || exit 1; shift 4
command -v "$1" >/dev/null 2>&1 || { echo "there is no program $1" >&2; exit 127; }
command -v setsid >/dev/null 2>&1 || { echo "there is no program setsid: install the package util-linux" >&2; exit 127; }
exec 3<&0
setsid /bin/sh -c ': > "$0/$$" || exit 126; echo "kafkalab-pid $$"; ` + joinScript + `' "$p" "$cores" "$group" "$@" <&3 3<&- &
c=$!
exec 3<&- </dev/null >/dev/null
wait "$c"; s=$?
kill -s KILL -- "-$c" 2>/dev/null
rm -f -- "$p/$c"
exit $s`

func (s *sshReach) start(ctx context.Context, m *machine, c Command) (*process, error) {
	if strings.HasPrefix(c.Args[0], "-") {
		return nil, fmt.Errorf("%q is no program", c.Args[0])
	}
	dir := c.Dir
	if dir == "" {
		dir = m.Dir()
	}
	cores, group := c.confined.words()
	args := []string{c.Name, m.guard.runDir + "/processes", dir, cores, group}
	if len(c.Env) > 0 {
		args = append(append(args, "env"), c.Env...)
	}
	cmd := s.command(false, startScript, append(args, c.Args...)...)
	stderr := NewTail(tailBytes)
	first := &pidLine{out: c.Out, found: make(chan int, 1)}
	c.Out = first
	if c.Err == nil {
		c.Err = stderr
	} else {
		c.Err = io.MultiWriter(stderr, c.Err)
	}
	if err := startCommand(cmd, c); err != nil {
		return nil, err
	}
	p := &process{name: c.Name, host: m.cfg.Name, m: m, cmd: cmd, done: make(chan struct{})}
	go func() { p.finish(sshExit(cmd.Wait())) }()
	select {
	case p.pid = <-first.found:
		return p, nil
	case <-p.done:
	case <-ctx.Done():
		_ = cmd.Process.Kill() // the host's guard ends what came of it
		<-p.done
		return nil, ctx.Err()
	}
	select {
	case p.pid = <-first.found: // it was over at once
		return p, nil
	default:
	}
	if p.err == nil {
		p.err = errors.New("the shell on the host did not report a pid")
	}
	return nil, withTail(p.err, stderr)
}

// sshExit puts into words how ssh ended. A shell reports a signal as 128 and
// its number; ssh itself fails with 255.
func sshExit(err error) error {
	status := exitStatus(err)
	switch {
	case status == 255:
		return fmt.Errorf("the connection was lost, or %w", err)
	case status > 128 && unix.SignalName(syscall.Signal(status-128)) != "":
		return fmt.Errorf("signal: %v (%w)", syscall.Signal(status-128), err)
	}
	return err
}

// pidLine is a writer that finds the line with the pid, drops what came before
// it, and passes on what comes after it.
type pidLine struct {
	out   io.Writer
	found chan int
	seen  bool
	line  []byte
}

const pidMark = "kafkalab-pid "

func (w *pidLine) Write(p []byte) (int, error) {
	n := len(p)
	for !w.seen && len(p) > 0 {
		head, rest, whole := bytes.Cut(p, []byte("\n"))
		w.line = append(w.line, head...)
		if len(w.line) > 64<<10 {
			return 0, errors.New("a line without end where the pid was expected")
		}
		p = rest
		if !whole {
			break
		}
		if digits, ok := bytes.CutPrefix(w.line, []byte(pidMark)); ok {
			pid, err := strconv.Atoi(string(digits))
			if err != nil {
				return 0, fmt.Errorf("the shell on the host reported the pid %q", digits)
			}
			w.seen = true
			w.found <- pid
		}
		w.line = w.line[:0]
	}
	if w.seen && len(p) > 0 && w.out != nil {
		if _, err := w.out.Write(p); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// shell runs a script beside the host's programs: it is not registered and not
// waited for by Close.
func (s *sshReach) shell(ctx context.Context, script string, args ...string) ([]byte, error) {
	return shell(ctx, s.command(false, script, append([]string{"kafkalab"}, args...)...), sshExit)
}

// shell runs the command of a reach's shell. exit puts into words how it ended.
func shell(ctx context.Context, cmd *exec.Cmd, exit func(error) error) ([]byte, error) {
	var out bounded
	stderr := NewTail(tailBytes)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, stderr, outputWait
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, withTail(exit(err), stderr)
	}
	return out.buf, nil
}

func (s *sshReach) signal(ctx context.Context, p *process, sig syscall.Signal, group bool) error {
	name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
	if name == "" {
		return fmt.Errorf("signal %d has no name", int(sig))
	}
	target := strconv.Itoa(p.pid)
	if group {
		target = "-" + target
	}
	_, err := s.shell(ctx, `kill -s "$1" -- "$2"`, name, target)
	if err != nil && group {
		// The group may have ended meanwhile: Stop sees to it.
		select {
		case <-p.done:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

func (s *sshReach) usage(ctx context.Context, p *process) (Usage, error) {
	const border = "kafkalab-border"
	out, err := s.shell(ctx, `cd "/proc/$1" && cat stat && echo "$2" && cat status && echo "$2" && cat io`, strconv.Itoa(p.pid), border)
	if err != nil {
		return Usage{}, err
	}
	parts := bytes.Split(out, []byte(border+"\n"))
	if len(parts) != len(usageFiles) {
		return Usage{}, fmt.Errorf("unexpected output %q", out)
	}
	return parseUsage(parts[0], parts[1], parts[2])
}

// binaryScript says what the host is, then writes a program as writeScript
// does and says its sum: all with one call of ssh.
const binaryScript = `uname -sm` + writeScript + `
sha256sum < "$1"`

// binary copies the program, and compares what arrived with what was sent.
func (s *sshReach) binary(ctx context.Context, m *machine, local, name string) (string, error) {
	content, err := os.ReadFile(local)
	if err != nil {
		return "", err
	}
	remote := m.guard.runDir + "/bin/" + name
	var out bounded
	err = m.script(ctx, "binary", binaryScript, bytes.NewReader(content), &out, remote, "0755", strconv.Itoa(len(content)))
	system, sum, _ := strings.Cut(string(out.buf), "\n")
	// Said first, since it may be why the rest failed.
	if want := "Linux " + unameMachine(); system != "" && system != want {
		return "", fmt.Errorf("the host is %q and the program is built for %q: build on the host and run the testbed there", system, want)
	}
	if err != nil {
		return "", err
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(content)); !strings.HasPrefix(sum, want) {
		return "", fmt.Errorf("what arrived has the SHA-256 sum %.64s and not %s", sum, want)
	}
	return remote, nil
}

// unameMachine is what uname -m says on the machines that this program runs
// on.
func unameMachine() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}

func (s *sshReach) explain(err error) error {
	return fmt.Errorf("cannot reach %s by ssh: %w (\"ssh -o BatchMode=yes %s true\" must work without a question)", s.target, err, s.target)
}

func (s *sshReach) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	return s.near.close(ctx)
}
