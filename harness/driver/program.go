package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"kafkalab/harness/host"
)

// Program is a [Server] that is one program, which says on its output that it
// takes requests: the testbed cannot reach the broker host's network and must be
// told. It is a [Restarter], too: a driver that embeds it has that, if the
// command and the address of the program are the same each time.
type Program struct {
	host   host.Host
	cfg    ProgramConfig
	output *programOutput
	addr   string
	died   chan struct{}
	dying  sync.Once // closes died

	mu  sync.Mutex // guards now
	now *programRun

	stopOnce sync.Once
	stopErr  error
}

// programRun is one process of a program: from a start to its end.
type programRun struct {
	process  host.Process
	stopping chan struct{} // closed when its end is wanted
	watched  chan struct{} // closed when the goroutine that watches has ended
	want     sync.Once     // closes stopping
}

// ProgramConfig is what [StartProgram] starts.
type ProgramConfig struct {
	Command host.Command // its Out and Err are set by StartProgram
	// Ready looks at one line of the output, without its end, and returns the
	// address in it if it is the line that says that requests are taken.
	Ready    func(line string) (addr string, ok bool)
	StoreDir string
	// LogFile is the file on the host for what the program said: at first until
	// it took requests, after Stop everything.
	LogFile string
	Grace   time.Duration // from SIGTERM to SIGKILL
}

// StartProgram starts the program and returns when it takes requests. If it
// ends before that, or ctx does, nothing is left running and the error holds
// what the program said last.
func StartProgram(ctx context.Context, h host.Host, cfg ProgramConfig) (*Program, error) {
	p := &Program{host: h, cfg: cfg, output: &programOutput{}, died: make(chan struct{})}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// start makes a process and waits until it takes requests.
func (p *Program) start(ctx context.Context) error {
	ready := p.output.await(p.cfg.Ready)
	command := p.cfg.Command
	command.Out, command.Err = p.output.stream(), p.output.stream()
	process, err := p.host.Start(ctx, command)
	if err != nil {
		return err
	}
	addr := ""
	select {
	case addr = <-ready:
	case <-process.Done():
		err = errors.Join(errors.New("it ended before it took requests"), process.Wait(ctx))
	case <-ctx.Done():
		err = fmt.Errorf("it takes no requests yet: %w", context.Cause(ctx))
	}
	if err == nil && p.addr != "" && addr != p.addr {
		err = fmt.Errorf("it took requests at %s, and does now at %s", p.addr, addr)
	}
	if err == nil {
		p.addr = addr
		err = p.writeLog(ctx)
	}
	if err != nil {
		err = errors.Join(err, process.Stop(ctx, p.cfg.Grace))
		return fmt.Errorf("%s on %s: %w; its last output:\n%s", command.Name, p.host.Name(), err, p.output.lastLines())
	}
	r := &programRun{process: process, stopping: make(chan struct{}), watched: make(chan struct{})}
	p.mu.Lock()
	p.now = r
	p.mu.Unlock()
	go p.watch(r)
	return nil
}

// watch closes died when the process ends by itself.
func (p *Program) watch(r *programRun) {
	defer close(r.watched)
	<-r.process.Done()
	select {
	case <-r.stopping:
	default:
		p.dying.Do(func() { close(p.died) })
	}
}

// run returns the process of now, or the last one.
func (p *Program) run() *programRun {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// Target returns the address that the program said.
func (p *Program) Target() Target { return Target{Addr: p.addr} }

// Processes returns the one process, the last one while the program is down.
func (p *Program) Processes() []host.Process { return []host.Process{p.run().process} }

// Died is closed when the program ends without Stop, Shut or Kill.
func (p *Program) Died() <-chan struct{} { return p.died }

// StoreDir returns the folder of the configuration.
func (p *Program) StoreDir() string { return p.cfg.StoreDir }

// Logs returns the log file.
func (p *Program) Logs() []string { return []string{p.cfg.LogFile} }

// Shut ends the program with SIGTERM. One that takes longer than its grace is
// killed, and that is an error: it has not ended cleanly.
func (p *Program) Shut(ctx context.Context) error {
	began := time.Now()
	err := p.end(func(process host.Process) error { return process.Stop(ctx, p.cfg.Grace) })
	if took := time.Since(began); err == nil && took >= p.cfg.Grace {
		err = fmt.Errorf("it had not ended %v after SIGTERM, and was killed", p.cfg.Grace)
	}
	if err != nil {
		return fmt.Errorf("shutting %s down: %w", p.cfg.Command.Name, err)
	}
	return nil
}

// Kill ends the program with SIGKILL, and returns when it is gone.
func (p *Program) Kill(ctx context.Context) error {
	err := p.end(func(process host.Process) error {
		if err := process.Signal(ctx, syscall.SIGKILL); err != nil {
			return err
		}
		select {
		case <-process.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return fmt.Errorf("killing %s: %w", p.cfg.Command.Name, err)
	}
	return nil
}

// end has the process end, which is then no death.
func (p *Program) end(how func(host.Process) error) error {
	r := p.run()
	r.want.Do(func() { close(r.stopping) })
	if err := how(r.process); err != nil {
		return err
	}
	<-r.watched
	return nil
}

// Restart starts the same command again, once the program has ended by Shut or
// Kill. It takes requests at the same address, or that is an error.
func (p *Program) Restart(ctx context.Context) error {
	select {
	case <-p.run().watched:
	default:
		return fmt.Errorf("restarting %s: it still runs", p.cfg.Command.Name)
	}
	p.output.note("the testbed starts it again")
	return p.start(ctx)
}

// logWait bounds the writing of the log file, which is done even when the
// context of Stop has ended.
const logWait = 10 * time.Second

// Stop ends the program and writes its log file. It is idempotent.
func (p *Program) Stop(ctx context.Context) error {
	p.stopOnce.Do(func() {
		p.stopErr = p.end(func(process host.Process) error { return process.Stop(ctx, p.cfg.Grace) })
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logWait)
		defer cancel()
		p.stopErr = errors.Join(p.stopErr, p.writeLog(ctx))
	})
	return p.stopErr
}

func (p *Program) writeLog(ctx context.Context) error {
	if err := p.host.WriteFile(ctx, p.cfg.LogFile, p.output.text(), 0o644); err != nil {
		return fmt.Errorf("log of %s: %w", p.cfg.Command.Name, err)
	}
	return nil
}

// Bounds of what is kept of a program's output.
const (
	keepOutputBytes = 1 << 20 // the last of all; trimmed when it is twice as much
	keepLineBytes   = 64 << 10
	lastLines       = 12 // in an error
)

// programOutput keeps the last of a program's output, both streams together,
// and looks for the line that says it is ready.
type programOutput struct {
	mu    sync.Mutex
	kept  []byte
	look  func(line string) (string, bool) // nil once found
	ready chan string
}

// outputStream puts the lines of one stream together, so that those of the
// other do not come between.
type outputStream struct {
	to   *programOutput
	line []byte
}

// await has the next line looked for that says that the program is ready, and
// returns what is told of it.
func (o *programOutput) await(look func(line string) (string, bool)) <-chan string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look, o.ready = look, make(chan string, 1)
	return o.ready
}

// note adds a line of the testbed's own.
func (o *programOutput) note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, "--- "+text+"\n"...)
}

func (o *programOutput) stream() io.Writer { return &outputStream{to: o} }

// Write takes the next piece of the stream. It always succeeds.
func (s *outputStream) Write(b []byte) (int, error) {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			s.line = append(s.line, b...)
			if len(s.line) < keepLineBytes {
				break // the rest of the line is to come
			}
			end = len(b)
		} else {
			s.line = append(s.line, b[:end]...)
		}
		s.to.add(s.line)
		s.line, b = s.line[:0], b[end:]
	}
	return n, nil
}

// add takes one line. o.mu is held.
func (o *programOutput) add(line []byte) {
	if o.look != nil {
		if addr, ok := o.look(strings.TrimRight(string(line), "\r\n")); ok {
			o.look = nil
			o.ready <- addr
		}
	}
	o.kept = append(o.kept, line...)
	if len(o.kept) > 2*keepOutputBytes {
		o.kept = append(o.kept[:0], o.kept[len(o.kept)-keepOutputBytes:]...)
	}
}

func (o *programOutput) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.kept)
}

func (o *programOutput) lastLines() string {
	lines := strings.Split(strings.TrimSpace(string(o.text())), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}
