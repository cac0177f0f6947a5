package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

const (
	// settle is how long a transfer runs before it is counted, unless it is
	// counted for less than that: the sender's window opens and the shaper's
	// burst and queue fill.
	settle = 500 * time.Millisecond
	// transferWait bounds what a transfer takes beyond its duration.
	transferWait = 15 * time.Second
	// transferChunk is read or written at once.
	transferChunk = 256 << 10
)

// Transfer is what a receiver counted.
type Transfer struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Mbps is the goodput in 10^6 bits a second.
func (t Transfer) Mbps() float64 {
	if t.Seconds <= 0 {
		return 0
	}
	return float64(t.Bytes) * 8 / t.Seconds / 1e6
}

// Receive takes one TCP connection at the address listen, whose port may be 0,
// and counts for d what arrives there. The receiver's view is the honest one:
// a sender counts megabytes that are still in buffers. ready is called with
// the address once it listens.
func Receive(ctx context.Context, listen string, d time.Duration, ready func(net.Addr) error) (Transfer, error) {
	ctx, cancel := context.WithTimeout(ctx, d+settle+transferWait)
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return Transfer{}, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if err := ready(l.Addr()); err != nil {
		return Transfer{}, err
	}
	conn, err := l.Accept()
	if err != nil {
		return Transfer{}, because(ctx, fmt.Errorf("waiting for the sender on %s: %w", listen, err))
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	t, err := count(conn, d)
	if err != nil {
		return Transfer{}, because(ctx, fmt.Errorf("receiving from %s: %w", conn.RemoteAddr(), err))
	}
	return t, nil
}

// count reads until d has passed since the transfer had settled.
func count(r io.Reader, d time.Duration) (Transfer, error) {
	buf := make([]byte, transferChunk)
	started := time.Now()
	var from time.Time // of the counting; zero until settled
	var t Transfer
	for {
		n, err := r.Read(buf)
		now := time.Now()
		switch {
		case err == io.EOF:
			return t, errors.New("the sender closed the connection too early")
		case err != nil:
			return t, err
		case !from.IsZero():
			t.Bytes += int64(n)
			if now.Sub(from) >= d {
				t.Seconds = now.Sub(from).Seconds()
				return t, nil
			}
		case now.Sub(started) >= min(settle, d):
			from = now // what arrived by now is not counted
		}
	}
}

// Send connects to the address to and sends until the receiver has enough, for
// limit at most.
func Send(ctx context.Context, to string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, transferChunk)
	for {
		if _, err := conn.Write(buf); err != nil {
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
				return nil // the receiver has enough
			}
			return because(ctx, fmt.Errorf("sending to %s: %w", to, err))
		}
	}
}

// because names the context's end as the cause of an error that it caused.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	return err
}
