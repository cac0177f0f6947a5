package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// killWait is how long the end of a killed process group is waited for.
const killWait = 4 * time.Second

// outputWait is how long, after a program's end, what it wrote may take to
// arrive.
const outputWait = 5 * time.Second

// process is a program that was started on a machine of any kind.
type process struct {
	name string // of the program, for messages
	host string
	m    *machine
	pid  int
	cmd  *exec.Cmd     // the program itself, or the ssh that leads to it
	done chan struct{} // closed when all is over
	err  error         // how it ended; set before done is closed
}

// startCommand starts cmd with the command's input and output. input is fed by a
// goroutine that ends when the program does, but for a Read of c.In that does
// not return: the program's end does not wait for that.
func startCommand(cmd *exec.Cmd, c Command) error {
	cmd.Stdout, cmd.Stderr = c.Out, c.Err
	// A daemon that left the group may keep an output open for ever.
	cmd.WaitDelay = outputWait
	if c.In == nil {
		return cmd.Start()
	}
	if f, ok := c.In.(*os.File); ok {
		cmd.Stdin = f
		return cmd.Start()
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		// A program that does not read its input to the end is no fault.
		_, _ = io.Copy(in, c.In)
		in.Close()
	}()
	return nil
}

func (p *process) PID() int              { return p.pid }
func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%s on %s: waiting for its end: %w", p.name, p.host, ctx.Err())
	}
}

// finish records how the program ended.
func (p *process) finish(err error) {
	if err != nil {
		p.err = fmt.Errorf("%s on %s: %w", p.name, p.host, err)
	}
	close(p.done)
	p.m.forget(p)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) Signal(ctx context.Context, sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("%s on %s: signal %v is none that a process can be sent", p.name, p.host, sig)
	}
	if p.ended() {
		return fmt.Errorf("%s on %s: %w", p.name, p.host, os.ErrProcessDone)
	}
	if err := p.m.reach.signal(ctx, p, s, false); err != nil {
		return fmt.Errorf("%s on %s: sending it %v: %w", p.name, p.host, s, err)
	}
	return nil
}

func (p *process) Stop(ctx context.Context, grace time.Duration) error {
	if p.ended() {
		return nil
	}
	var termErr error
	if grace > 0 && ctx.Err() == nil {
		termErr = p.m.reach.signal(ctx, p, syscall.SIGTERM, false)
		if termErr == nil {
			t := time.NewTimer(grace)
			defer t.Stop()
			select {
			case <-p.done:
				return nil
			case <-t.C:
			case <-ctx.Done():
			}
		}
	}
	// From here on not bound by ctx: what is to be stopped must be stopped.
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	killErr := p.m.reach.signal(kctx, p, syscall.SIGKILL, true)
	select {
	case <-p.done:
		return nil
	case <-kctx.Done():
		// Over ssh, this ends at least the way to it.
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("%s on %s (pid %d) may still be there after SIGKILL: %w", p.name, p.host, p.pid, errors.Join(termErr, killErr, kctx.Err()))
	}
}

func (p *process) Usage(ctx context.Context) (Usage, error) {
	if p.ended() {
		return Usage{}, fmt.Errorf("usage of %s on %s: %w", p.name, p.host, os.ErrProcessDone)
	}
	u, err := p.m.reach.usage(ctx, p)
	if err != nil {
		return Usage{}, fmt.Errorf("usage of %s on %s (pid %d): %w", p.name, p.host, p.pid, err)
	}
	return u, nil
}
