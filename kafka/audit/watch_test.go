package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"kafkalab/kafka/envelope"
)

// awayError is that of a registry of schemas that is down.
type awayError struct{ error }

func (awayError) Temporary() bool { return true }

// A header that cannot be read for a time only is waited for, until the watcher ends: the
// message is not counted as malformed. Any other error is that of the message.
func TestTemporaryErrorsAreWaitedOut(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	w := &Watcher{life: life}
	w.cfg.Logger = slog.New(slog.DiscardHandler)
	away := fmt.Errorf("id 7: %w", awayError{errors.New("the registry is away")})
	calls := 0
	read := func(context.Context, []byte) (m counted) {
		if calls++; calls == 1 {
			m.err = away
		}
		return m
	}
	if m, ok := w.read(read, "clicks", nil); !ok || m.err != nil || calls != 2 {
		t.Errorf("after %d calls: %v, %v", calls, m.err, ok)
	}
	unknown := func(context.Context, []byte) counted { return counted{err: envelope.ErrNotEnvelope} }
	if m, ok := w.read(unknown, "clicks", nil); !ok || !errors.Is(m.err, envelope.ErrNotEnvelope) {
		t.Errorf("%v, %v", m.err, ok)
	}
	stillAway := func(context.Context, []byte) counted {
		end() // the watcher is closed meanwhile
		return counted{err: away}
	}
	if m, ok := w.read(stillAway, "clicks", nil); ok {
		t.Errorf("a message was read with %v after the end", m.err)
	}
}
