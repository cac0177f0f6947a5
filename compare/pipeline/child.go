package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"kafkalab/compare/internal/launch"
)

// child is a process of the client half. It is of the client's process group, so
// that it ends with that however the client ends.
type child struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser // nil: it has no input
	log    *os.File
	said   *launch.Watch // what it wrote to its standard error
	wanted chan struct{} // closed when its end is wanted
	ended  chan struct{} // closed when it has ended and its log is written
	err    error         // how; set before ended is closed
	want   sync.Once
}

// childGrace is how long a child may take to end once it is asked to.
const childGrace = 30 * time.Second

// childConfig is a child to start.
type childConfig struct {
	name    string
	args    []string
	dir     string // that takes its log
	input   bool   // it reads what is written to child.in
	ready   string // a text in its standard error by which it stands ready; "": it is at once
	onDeath func(error)
}

// startChild starts a process and waits until it stands ready.
func startChild(ctx context.Context, cfg childConfig) (*child, error) {
	c := &child{name: cfg.name, said: launch.NewWatch(cfg.ready), wanted: make(chan struct{}), ended: make(chan struct{})}
	var err error
	if c.log, err = os.Create(filepath.Join(cfg.dir, cfg.name+".log")); err != nil {
		return nil, err
	}
	c.cmd = exec.Command(cfg.args[0], cfg.args[1:]...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, io.MultiWriter(c.log, c.said)
	if cfg.input {
		if c.in, err = c.cmd.StdinPipe(); err != nil {
			return nil, errors.Join(err, c.log.Close())
		}
	}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", cfg.name, err), c.log.Close())
	}
	go func() {
		defer close(c.ended)
		err := c.cmd.Wait()
		c.err = errors.Join(err, c.log.Close())
		select {
		case <-c.wanted:
		default:
			if cfg.onDeath != nil {
				cfg.onDeath(fmt.Errorf("%s has ended by itself: %w", c.name, c.how()))
			}
		}
	}()
	select {
	case <-c.said.Seen():
		return c, nil
	case <-c.ended:
		err = fmt.Errorf("%s ended before it stood ready: %w", c.name, c.how())
	case <-ctx.Done():
		err = fmt.Errorf("%s does not stand ready: %w: %s", c.name, context.Cause(ctx), c.said.Tail())
	}
	return nil, errors.Join(err, c.kill())
}

// how says how it has ended, with what it said last.
func (c *child) how() error {
	err := c.err
	if err == nil {
		err = errors.New("without an error")
	}
	return fmt.Errorf("%w; %s", err, c.said.Tail())
}

// expectEnd says that its end is wanted from now on.
func (c *child) expectEnd() { c.want.Do(func() { close(c.wanted) }) }

// kill ends it with SIGKILL, and returns when it is gone.
func (c *child) kill() error {
	c.expectEnd()
	err := c.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	c.closeInput()
	<-c.ended
	return err
}

// stop ends it with SIGTERM. One that fails, or takes longer than its grace, is an
// error.
func (c *child) stop() error {
	c.expectEnd()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(fmt.Errorf("stopping %s: %w", c.name, err), c.kill())
	}
	return c.await(childGrace)
}

// await waits for its end, which is wanted.
func (c *child) await(limit time.Duration) error {
	c.expectEnd()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
		if c.err != nil {
			return fmt.Errorf("%s: %w", c.name, c.how())
		}
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s had not ended after %v", c.name, limit), c.kill())
	}
}

func (c *child) closeInput() {
	if c.in != nil {
		_ = c.in.Close() // it may be closed, or the process gone
	}
}
