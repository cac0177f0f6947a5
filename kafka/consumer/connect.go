package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// Bounds of the time between two attempts to connect.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// maxCutOffs is how many answers in a row a broker may break off until that is an
// error: one that stops does so once, and one that cannot read its log each time.
const maxCutOffs = 5

// prepare sees to it that a request can be sent: it waits where that is due,
// connects, and follows the policy of resetting.
func (s *Stream) prepare(ctx context.Context) error {
	for {
		if s.life.Err() != nil {
			return s.errorf("%w", ErrClosed)
		}
		if err := s.awaitQuiet(ctx); err != nil {
			return err
		}
		if s.conn == nil {
			if err := s.connect(ctx); err != nil {
				return err
			}
			continue
		}
		if !s.outOfRange {
			return nil
		}
		if err := s.reset(ctx); err != nil {
			return err
		}
	}
}

// beQuiet puts the next request off.
func (s *Stream) beQuiet(d time.Duration) { s.quietUntil = time.Now().Add(d) }

func (s *Stream) awaitQuiet(ctx context.Context) error {
	d := time.Until(s.quietUntil)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return s.ended(ctx)
	case <-s.life.Done():
		return s.errorf("%w", ErrClosed)
	}
}

// ended returns the error of a context that has ended, with what kept the
// stream from reading in the meantime.
func (s *Stream) ended(ctx context.Context) error {
	if s.lastErr != nil && s.conn == nil {
		return s.errorf("%w while reconnecting: %w", ctx.Err(), s.lastErr)
	}
	return s.errorf("%w", ctx.Err())
}

// connect makes a new connection. Failing to is an error only if ctx has ended
// or the stream was closed.
func (s *Stream) connect(ctx context.Context) error {
	dialing, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	conn, err := client.Dial(dialing, s.cfg.Broker, s.cfg.client())
	if err != nil {
		s.lastErr = err
		if s.life.Err() != nil {
			return s.errorf("%w", ErrClosed)
		}
		if ctx.Err() != nil {
			return s.ended(ctx)
		}
		s.delay()
		s.cfg.Logger.Warn("cannot connect", "broker", s.cfg.Broker, "error", err, "retry_in", s.backoff)
		s.tellDisconnected(err)
		return nil
	}
	s.mu.Lock()
	s.conn = conn
	s.stats.Reconnects++
	s.mu.Unlock()
	if s.life.Err() != nil { // Close may have looked before
		s.disconnect()
		return s.errorf("%w", ErrClosed)
	}
	s.cfg.Logger.Info("connected again", "broker", s.cfg.Broker)
	if s.down && s.cfg.Hooks.Connected != nil {
		s.cfg.Hooks.Connected()
	}
	s.down = false
	return nil
}

func (s *Stream) tellDisconnected(err error) {
	s.down = true
	if s.cfg.Hooks.Disconnected != nil {
		s.cfg.Hooks.Disconnected(err)
	}
}

func (s *Stream) delay() {
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	s.beQuiet(s.backoff)
}

// lost deals with a failed request or answer. It returns nil when a new
// connection is worth trying.
func (s *Stream) lost(ctx context.Context, err error) error {
	switch {
	case s.life.Err() != nil:
		return s.errorf("%w", ErrClosed)
	case s.conn.Err() == nil && ctx.Err() != nil:
		return s.ended(ctx) // the connection goes on
	case s.conn.Err() == nil:
		s.beQuiet(quietInterval)
		return s.errorf("%w", err)
	}
	s.lastErr = err
	// A broker of Kafka 0.7 closes the connection on a request that it does not
	// know. One that has answered a WaitFetch before has other reasons.
	cutOff := len(s.asked) > 0 && errors.Is(err, client.ErrCutOff)
	unknown := len(s.asked) > 0 && s.asked[0].wait && !s.waitKnown && !cutOff && errors.Is(err, client.ErrPeerClosed)
	at := s.end()
	s.noWait = unknown
	s.disconnect()
	s.cfg.Logger.Warn("connection ended", "broker", s.cfg.Broker, "error", err, "wait fetch", !s.noWait)
	switch {
	case errors.Is(err, client.ErrNotBroker):
		s.delay()
		return s.errorf("%w", err)
	case !unknown: // else it is no loss, but how one learns what the broker knows
		s.tellDisconnected(err)
	}
	if cutOff {
		s.cutOffs++
	}
	switch {
	case ctx.Err() != nil:
		return s.ended(ctx)
	case !unknown:
		s.delay()
	}
	if s.cutOffs == maxCutOffs {
		s.cutOffs = 0
		return s.errorf("broker %s has broken off %d answers in a row to a fetch at offset %d: it cannot read its log there: %w",
			s.cfg.Broker, maxCutOffs, at, err)
	}
	return nil
}

// disconnect closes the connection and forgets what was asked over it.
func (s *Stream) disconnect() {
	if err := s.conn.Close(); err != nil {
		s.cfg.Logger.Debug("close of a connection", "broker", s.cfg.Broker, "error", err)
	}
	s.mu.Lock()
	s.conn = nil
	s.mu.Unlock()
	s.giveBack() // a connection may be long in coming
	s.asked = s.asked[:0]
	s.next = s.end()
	s.atEnd = true
	if s.receiving {
		s.buf = s.buf[:len(s.tail)] // without the part of an answer
	}
}

// boundary asks for the first or the last offset of the partition. Nothing
// else may be on its way.
func (s *Stream) boundary(ctx context.Context, which int64) (int64, error) {
	offsets, err := s.conn.Offsets(ctx, s.cfg.Topic, s.cfg.Partition, which, 1)
	if err != nil {
		return 0, err
	}
	if len(offsets) == 0 {
		return 0, fmt.Errorf("broker %s knows no offset of %s-%d: its log says whether the partition is out of service", s.cfg.Broker, s.cfg.Topic, s.cfg.Partition)
	}
	return offsets[0], nil
}

// resetInterval is the least time between two resets: each is two requests.
const resetInterval = 2 * quietInterval

// reset follows the policy after an offset was out of range.
func (s *Stream) reset(ctx context.Context) error {
	for len(s.asked) > 0 {
		if _, err := s.receive(ctx); err != nil {
			return err
		}
		if s.conn == nil {
			return nil
		}
	}
	if d := time.Until(s.lastReset.Add(resetInterval)); d > 0 {
		s.beQuiet(d)
		if err := s.awaitQuiet(ctx); err != nil {
			return err
		}
	}
	which := wire.TimeEarliest
	if s.cfg.Reset == ResetLargest {
		which = wire.TimeLatest
	}
	offset, err := s.boundary(ctx, which)
	end := offset
	if err == nil && s.cfg.Reset == ResetFail {
		end, err = s.boundary(ctx, wire.TimeLatest)
	}
	if err != nil {
		return s.lost(ctx, err)
	}
	s.lastReset = time.Now()
	s.outOfRange = false
	from := s.base
	if s.cfg.Reset == ResetFail {
		return s.fail("%w", &OutOfRangeError{Offset: from, First: offset, End: end})
	}
	skipped := max(offset-from, 0)
	s.count(func(st *Stats) {
		st.Resets++
		st.SkippedBytes += skipped
	})
	s.cfg.Logger.Warn("offset out of range, reset", "policy", s.cfg.Reset, "from", from, "to", offset, "skipped_bytes", skipped)
	s.moveTo(offset)
	s.handed = offset
	s.consumed.Store(offset)
	if s.cfg.Hooks.Reset != nil {
		s.cfg.Hooks.Reset(from, offset)
	}
	return nil
}
