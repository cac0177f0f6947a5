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
	return m.once(strings.Join(args, "\x00"), func() ([]byte, error) { return m.Run(ctx, args...) })
}

// once returns the answer to a question, which ask finds the first time.
func (m *machine) once(question string, ask func() ([]byte, error)) ([]byte, error) {
	m.mu.Lock()
	answer, known := m.answers[question]
	m.mu.Unlock()
	if known {
		return bytes.Clone(answer), nil
	}
	answer, err := ask()
	if err != nil {
		return answer, err
	}
	m.mu.Lock()
	m.answers[question] = bytes.Clone(answer)
	m.mu.Unlock()
	return answer, nil
}
