package zktest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopLimit is how long a real node may take to stop when it is asked to.
const stopLimit = 30 * time.Second

// process is a program that ends with this one, however this one ends.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when err is set
	err   error
}

// launch starts a program whose output is appended to a file.
func launch(logPath string, argv ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the program has its own
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes when the thread ends that started the program, so that
		// thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill kills it with signal 9 and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only for one that has ended
	<-p.ended
}

// stop asks it to end, and kills one that does not.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("it has ended before: %w", err)
	}
	timeout := time.NewTimer(stopLimit)
	defer timeout.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timeout.C:
		p.kill()
		return fmt.Errorf("it did not stop within %v", stopLimit)
	}
}
