package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Answers takes the lines of JSON with which a program on a host answers, as
// its [Command].Out. Write may run beside Next.
type Answers struct {
	longest int
	partial []byte
	lines   chan []byte
}

// NewAnswers takes as many lines as are wanted, each of at most so many bytes.
// More or longer ones are refused, which ends a program that writes on.
func NewAnswers(lines, longest int) *Answers {
	return &Answers{longest: longest, lines: make(chan []byte, lines)}
}

// Write takes the next piece of the output.
func (a *Answers) Write(p []byte) (int, error) {
	a.partial = append(a.partial, p...)
	for {
		line, rest, whole := bytes.Cut(a.partial, []byte("\n"))
		if !whole {
			if len(a.partial) > a.longest {
				return 0, fmt.Errorf("a line of more than %d bytes", a.longest)
			}
			return len(p), nil
		}
		select {
		case a.lines <- bytes.Clone(line):
		default:
			return 0, fmt.Errorf("more than %d lines", cap(a.lines))
		}
		a.partial = rest
	}
}

// Next waits for the next line that p writes and decodes it. Where p ends
// without one the error is p's, and [io.ErrUnexpectedEOF].
func (a *Answers) Next(ctx context.Context, p Process, into any) error {
	var line []byte
	select {
	case line = <-a.lines:
	case <-p.Done():
		select {
		case line = <-a.lines:
		default:
			return errors.Join(p.Wait(ctx), io.ErrUnexpectedEOF)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("unexpected output %q: %w", line, err)
	}
	return nil
}
