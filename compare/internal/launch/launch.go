// Package launch starts the servers of other projects on a host, as the
// testbed needs them: in the foreground, as children that are ended by their
// handle, ready when they say so themselves. It also makes one server of several
// programs of any kind.
package launch

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"kafkalab/harness/host"
)

// tailBytes is how much of a program's output is kept for error messages.
const tailBytes = 2 << 10

// Program is a running program whose output is watched.
type Program struct {
	host.Process
	name string
	host string // its name
	port int
	out  *Watch
}

// Start starts a program. ready is a text in its output that tells that it
// takes requests; empty, for a program that does not tell. port is the one
// that it was told to listen on: messages name it, since a port that is in use
// is what most often goes wrong.
func Start(ctx context.Context, h host.Host, c host.Command, port int, ready string) (*Program, error) {
	out := NewWatch(ready)
	c.Out, c.Err = out, out
	p, err := h.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Program{Process: p, name: c.Name, host: h.Name(), port: port, out: out}, nil
}

// WaitReady returns when the program has said that it is ready, or when it or
// one of the programs that it needs has ended. It ends none of them.
func (p *Program) WaitReady(ctx context.Context, needs ...*Program) error {
	ready, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	for _, n := range append(needs, p) {
		wg.Go(func() {
			select {
			case <-n.Done():
				cancel(n.ended())
			case <-ready.Done():
			}
		})
	}
	select {
	case <-p.out.Seen():
		return nil
	case <-ready.Done():
		if ctx.Err() != nil {
			return fmt.Errorf("%s has not come up on port %d: %w: %s", p.name, p.port, ctx.Err(), p.out.Tail())
		}
		return fmt.Errorf("%s did not come up: %w", p.name, context.Cause(ready))
	}
}

// ended says how the program ended.
func (p *Program) ended() error {
	err := p.Wait(context.Background()) // returns at once
	if err == nil {
		err = fmt.Errorf("%s ended", p.name)
	}
	said := p.out.Tail()
	way := ""
	if inUse.MatchString(said) {
		way = fmt.Sprintf(" (\"ss -tlnp\" on %s says who has it; the next attempt takes another one)", p.host)
	}
	return fmt.Errorf("%w; port %d%s; %s", err, p.port, way, said)
}

// inUse is how Java, Erlang and the C library say that a port is taken.
var inUse = regexp.MustCompile(`(?i)in use|eaddrinuse`)

// Watch is a writer that looks for a text and keeps the last of what came.
type Watch struct {
	want []byte
	seen chan struct{}

	mu    sync.Mutex
	last  []byte
	found bool
}

// NewWatch returns a Watch for a text; the empty one is seen at once.
func NewWatch(text string) *Watch {
	w := &Watch{want: []byte(text), seen: make(chan struct{})}
	if text == "" {
		w.found = true
		close(w.seen)
	}
	return w
}

// Seen is closed once the text has come.
func (w *Watch) Seen() <-chan struct{} { return w.seen }

// Write takes the next piece of the output.
func (w *Watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = append(w.last, p...)
	// Looked for before anything is cut off, and in the rest that was kept: a
	// text may come in two pieces.
	if !w.found && bytes.Contains(w.last, w.want) {
		w.found = true
		close(w.seen)
	}
	if over := len(w.last) - tailBytes; over > 0 {
		w.last = append(w.last[:0], w.last[over:]...)
	}
	return len(p), nil
}

// tailLines and tailRunes bound what an error message says of a program's
// output: the whole of it is in the log.
const (
	tailLines = 3
	tailRunes = 500
)

// escapes are the colours and the like that programs write for terminals.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// Tail returns the last lines of output as one.
func (w *Watch) Tail() string {
	w.mu.Lock()
	text := escapes.ReplaceAllString(string(w.last), "")
	w.mu.Unlock()
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "it wrote nothing"
	}
	last := []rune(strings.Join(lines[max(0, len(lines)-tailLines):], " / "))
	return "its last output: " + string(last[max(0, len(last)-tailRunes):])
}
