package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"kafkalab/harness/host"
)

// Program is a [Server] that is one program, which says on its output that it
// takes requests: the testbed cannot reach the broker host's network and must be
// told.
type Program struct {
	host     host.Host
	cfg      ProgramConfig
	process  host.Process
	output   *programOutput
	addr     string
	died     chan struct{}
	watched  chan struct{} // closed when the goroutine that watches has ended
	stopping chan struct{}

	stopOnce sync.Once
	stopErr  error
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
	out := &programOutput{look: cfg.Ready, ready: make(chan string, 1)}
	cfg.Command.Out, cfg.Command.Err = out.stream(), out.stream()
	process, err := h.Start(ctx, cfg.Command)
	if err != nil {
		return nil, err
	}
	p := &Program{host: h, cfg: cfg, process: process, output: out,
		died: make(chan struct{}), watched: make(chan struct{}), stopping: make(chan struct{})}
	select {
	case p.addr = <-out.ready:
	case <-process.Done():
		err = errors.Join(errors.New("it ended before it took requests"), process.Wait(ctx))
	case <-ctx.Done():
		err = fmt.Errorf("it takes no requests yet: %w", context.Cause(ctx))
	}
	if err == nil {
		err = p.writeLog(ctx)
	}
	if err != nil {
		err = errors.Join(err, process.Stop(ctx, cfg.Grace))
		return nil, fmt.Errorf("%s on %s: %w; its last output:\n%s", cfg.Command.Name, h.Name(), err, out.lastLines())
	}
	go p.watch()
	return p, nil
}

// watch closes died when the process ends by itself.
func (p *Program) watch() {
	defer close(p.watched)
	<-p.process.Done()
	select {
	case <-p.stopping:
	default:
		close(p.died)
	}
}

// Target returns the address that the program said.
func (p *Program) Target() Target { return Target{Addr: p.addr} }

// Processes returns the one process.
func (p *Program) Processes() []host.Process { return []host.Process{p.process} }

// Died is closed when the program ends without Stop.
func (p *Program) Died() <-chan struct{} { return p.died }

// StoreDir returns the folder of the configuration.
func (p *Program) StoreDir() string { return p.cfg.StoreDir }

// Logs returns the log file.
func (p *Program) Logs() []string { return []string{p.cfg.LogFile} }

// logWait bounds the writing of the log file, which is done even when the
// context of Stop has ended.
const logWait = 10 * time.Second

// Stop ends the program and writes its log file. It is idempotent.
func (p *Program) Stop(ctx context.Context) error {
	p.stopOnce.Do(func() {
		close(p.stopping)
		p.stopErr = p.process.Stop(ctx, p.cfg.Grace)
		if p.stopErr == nil {
			<-p.watched
		}
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
