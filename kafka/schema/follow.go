package schema

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// follow reads the log until the store is closed or the log is not what it was.
func (s *Store) follow() {
	var told time.Time
	for s.ctx.Err() == nil {
		err := s.readLog(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrBroken) {
			s.mu.Lock()
			s.breakOn(err)
			s.mu.Unlock()
			return
		}
		if time.Since(told) > time.Minute {
			told = time.Now()
			s.cfg.Logger.Warn("the topic of schemas is not reached, trying again", "error", err)
		}
		if pause(s.ctx, retryInterval) != nil {
			return
		}
	}
}

// readLog reads the log over one connection, from where it was read to. It begins
// with the last message that was read already: that it is still there tells that it
// is the same log.
func (s *Store) readLog(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := s.connectInTime(ctx)
	if err != nil {
		return err
	}
	s.mu.RLock()
	last := s.last.offset
	s.mu.RUnlock()
	stream, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{
		Broker: c, Topic: message.SchemasTopic, Start: max(last, 0), Reset: consumer.ResetFail,
		DialTimeout: askTimeout, RequestTimeout: askTimeout,
		// The broker may be elsewhere when it is back.
		Hooks: consumer.Hooks{Disconnected: func(err error) { cancel(err) }},
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	for known := last >= 0; ; known = false {
		m, err := stream.Next(ctx)
		if err != nil {
			return readError(ctx, err)
		}
		if err := s.claim(ctx, m); err != nil {
			return err
		}
		if err := s.take(m, known); err != nil {
			return err
		}
	}
}

// claim tells the name of the log, the hash of the first record that counts: who writes it
// gives it a name by chance. The state changes by this goroutine alone.
func (s *Store) claim(ctx context.Context, m consumer.Message) error {
	if s.cfg.Claim == nil || s.state.sequence > 0 {
		return nil
	}
	if r, ok := parseRecord(m.Payload); !ok || r.Sequence != 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	if err := s.cfg.Claim(ctx, fmt.Sprintf("%x", sha256.Sum256(m.Payload))); err != nil {
		return fmt.Errorf("%s-0, offset %d: %w", message.SchemasTopic, m.Offset, err)
	}
	return nil
}

// connectInTime returns the address of the broker that has the topic.
func (s *Store) connectInTime(ctx context.Context) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	c, err := connect(ctx, s.cfg.Locate)
	if err != nil {
		return "", err
	}
	st, err := partitionState(ctx, c)
	if err == nil {
		s.mu.RLock()
		err = checkLog(st.First, st.Watermark, s.next)
		s.mu.RUnlock()
	}
	return c.Addr(), errors.Join(err, c.Close())
}

// readError tells what is wrong with the log from what passes.
func readError(ctx context.Context, err error) error {
	var damage *message.CorruptError
	switch {
	case errors.As(err, &damage), errors.Is(err, consumer.ErrTorn), errors.Is(err, consumer.ErrTooLarge),
		errors.Is(err, message.ErrTooLarge), errors.Is(err, wire.CodeOffsetOutOfRange):
		return fmt.Errorf("%w: %w", ErrBroken, err)
	case ctx.Err() != nil && context.Cause(ctx) != nil:
		return context.Cause(ctx) // the connection was lost, for this reason
	}
	return err
}

// take takes a message of the log. known says that it was read before.
func (s *Store) take(m consumer.Message, known bool) error {
	hash := sha256.Sum256(m.Payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known {
		if m.Offset != s.last.offset || hash != s.last.payload {
			return otherMessage(s.last.offset)
		}
		return nil
	}
	r, ok := parseRecord(m.Payload)
	if ok {
		counts, err := s.state.apply(&r)
		if err != nil {
			return fmt.Errorf("%w: %s-0, offset %d: %w", ErrBroken, message.SchemasTopic, m.Offset, err)
		}
		if counts && s.attempt != nil && s.attempt.writer == r.Writer {
			s.attempt.made = &r
		}
	} else {
		s.passOver(m)
	}
	if m.Offset != s.last.offset {
		s.last = lastRead{m.Offset, hash} // of those that were compressed together, the first
	}
	s.next = max(s.next, m.NextOffset) // of one that was compressed with others it may be its own
	s.broadcast()
	return nil
}

// passOver counts a message that is none of ours. The caller holds mu.
func (s *Store) passOver(m consumer.Message) {
	s.foreign++
	if time.Since(s.toldForeign) < time.Minute {
		return
	}
	s.toldForeign = time.Now()
	s.cfg.Logger.Warn("a message of the topic is no record of a registry, and is passed over",
		"partition", 0, "offset", m.Offset, "bytes", len(m.Payload), "so_many_so_far", s.foreign)
}
