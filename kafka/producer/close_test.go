package producer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// TestDueWithoutRoom: a batch that is due while all requests that may be in
// flight wait for their answers must not set the writer's clock, which would go
// off at once, again and again. The answer wakes the writer instead.
func TestDueWithoutRoom(t *testing.T) {
	p, l, _ := filled(t, AcksAppended, 1)
	p.cfg.MaxInFlight, p.cfg.BatchMessages = 1, 100
	if _, err := p.sendAsync(&room{ctx: t.Context()}, "t", 0, [][]byte{[]byte("payload")}); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * p.cfg.QueueInterval)
	if next := p.closeDue(later); !next.IsZero() {
		t.Errorf("the next batch is due at %v, %v ago", next, later.Sub(next))
	}
	if p.openBytes == 0 {
		t.Fatal("the batch became a request beyond MaxInFlight")
	}
	for _, made := range []struct {
		by   string
		make func()
	}{
		{"an answer", func() { p.acknowledge(l, wire.CodeNone, ackPayload) }},
		{"the end of the connection", p.roomMade},
	} {
		p.idle, p.dueWaits = true, true
		made.make()
		select {
		case <-p.wake:
		default:
			t.Errorf("%s does not wake the writer", made.by)
		}
	}
	if p.closeDue(later); p.openBytes != 0 || p.dueWaits {
		t.Errorf("with room, %d bytes are still open", p.openBytes)
	}
}

// TestFlushBesideClose: a Flush that has no time limit ends with the producer.
func TestFlushBesideClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l, _ := filled(t, AcksAppended, 1)
		p.link = nil
		l.inflight = nil
		p.cfg.MaxInFlight, p.cfg.BatchMessages = 1, 100
		p.fill.requests = make([]request, 1) // no room
		p.stopped = make(chan struct{})
		close(p.stopped)
		p.cancel = func() {}
		if _, err := p.sendAsync(&room{ctx: t.Context()}, "t", 0, [][]byte{[]byte("payload")}); err != nil {
			t.Fatal(err)
		}
		flushed := make(chan error, 1)
		go func() { flushed <- p.Flush(t.Context()) }()
		synctest.Wait()
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var lost *NotSentError
		if err := p.Close(limited); !errors.As(err, &lost) {
			t.Errorf("Close: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-flushed:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("Flush: %v", err)
			}
		default:
			t.Fatal("Flush goes on waiting")
		}
	})
}

// TestRequestIsWrittenWhereItWasEncodedFor: a Send that writes its request itself has
// found that there is a connection. That this has served long enough a moment later
// must not leave the request, of which the Send tells an error, to another one.
func TestRequestIsWrittenWhereItWasEncodedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(t.Context(), Config{Brokers: []string{l.Addr().String()}, NoCoalesce: true, ReconnectInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	l.Close() // no other connection can be made
	p.mu.Lock()
	size := message.EntrySize(1)
	p.encode(&room{ctx: t.Context()}, "t", 0, toSend{payloads: [][]byte{[]byte("x")}, size: size, bytes: int64(size)}, nil)
	p.link.until = time.Now().Add(-time.Second)
	refused, err := p.drain(t.Context(), false)
	if left := len(p.fill.b); refused != 0 || err != nil || left != 0 {
		t.Errorf("%d refused, %v, %d bytes are left to be written later", refused, err, left)
	}
	p.mu.Unlock()
	ended, cancel := context.WithCancel(t.Context())
	cancel() // nobody answers
	var lost *NotSentError
	if err := p.Close(ended); !errors.As(err, &lost) || lost.Unconfirmed != 1 {
		t.Errorf("Close: %v", err)
	}
}

// TestCleanCloseWarnsOfNothing: that the connection ends is how it should be.
func TestCleanCloseWarnsOfNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var logged strings.Builder
	p, err := New(t.Context(), Config{Brokers: []string{l.Addr().String()},
		Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if logged.Len() > 0 {
		t.Errorf("a clean Close logs %s", &logged)
	}
}
