package host

import (
	"bytes"
	"context"
	"strings"
)

// Ask is h.Run for a question whose answer stays as it is while a run lasts:
// which programs there are, of which version. A host of this package remembers
// the answer until it is closed, since each question over ssh is a program here
// and several there, and the systems compared ask the same ones. A failure is
// not remembered.
func Ask(ctx context.Context, h Host, args ...string) ([]byte, error) {
	m := machineOf(h)
	if m == nil {
		return h.Run(ctx, args...)
	}
	question := strings.Join(args, "\x00")
	m.mu.Lock()
	answer, known := m.answers[question]
	m.mu.Unlock()
	if known {
		return bytes.Clone(answer), nil
	}
	answer, err := m.Run(ctx, args...)
	if err != nil {
		return answer, err
	}
	m.mu.Lock()
	m.answers[question] = bytes.Clone(answer)
	m.mu.Unlock()
	return answer, nil
}
