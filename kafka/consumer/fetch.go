package consumer

import (
	"context"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// fetchesAhead is how many ranges are on their way at once while there is
// enough to read: one is being received while the broker already sends the
// next.
const fetchesAhead = 2

// ask is a request on its way.
type ask struct {
	offset   int64
	maxBytes int
	wait     bool      // a WaitFetch
	at       time.Time // when it was sent
	// stale says that what it brings does not join: it was asked for before an
	// answer came short, or before the stream was moved.
	stale bool
}

// end is the offset of the first byte that the stream does not have.
func (s *Stream) end() int64 { return s.base + int64(len(s.tail)) }

// dropAhead gives up what was asked for ahead.
func (s *Stream) dropAhead() {
	for i := range s.asked {
		s.asked[i].stale = true
	}
	s.next = s.end()
}

// tooLarge is the error of a message that is more than may be fetched. Within a
// message anything may be taken for a size, and raising a limit is no way out.
func (s *Stream) tooLarge() error {
	if doubt := s.doubt(s.base); doubt != "" {
		return s.fail("%w", &misplacedError{doubt + "what stands there is more than can be fetched: start at the offset of a message"})
	}
	return s.fail("message of %d bytes at offset %d exceeds fetch size of at most %d bytes: %w", s.need, s.base, s.cfg.MaxFetchBytes, ErrTooLarge)
}

// misplacedError is an [ErrTooLarge] that is perhaps none.
type misplacedError struct{ text string }

func (e *misplacedError) Error() string { return e.text }
func (e *misplacedError) Unwrap() error { return ErrTooLarge }

// fill gets bytes until there is at least one more complete message, or damage
// for the iterator to find. It may be called again after ctx has ended.
func (s *Stream) fill(ctx context.Context) error {
	if !s.receiving {
		// The last chunk is done with: its rest is the beginning of the next.
		s.receiving = true
		s.it = message.Set(nil).Iterate(s.it.NextOffset()) // else it would keep the buffer
		s.keepRoom()
		s.giveBack()
	}
	err := s.receiveSome(ctx)
	if err != nil {
		s.giveBack() // the next call may be long in coming
	}
	return err
}

func (s *Stream) receiveSome(ctx context.Context) error {
	for {
		if s.need > s.cfg.MaxFetchBytes {
			return s.tooLarge()
		}
		if err := s.prepare(ctx); err != nil {
			return err
		}
		if err := s.admit(ctx); err != nil {
			return err
		}
		if err := s.request(ctx); err != nil {
			if err := s.lost(ctx, err); err != nil {
				return err
			}
			continue
		}
		complete, err := s.receive(ctx)
		if err != nil {
			return err
		}
		if complete {
			// What follows travels while the application works.
			if err := s.request(ctx); err != nil {
				s.cfg.Logger.Debug("request ahead failed", "error", err) // the next fill meets it
			}
			return nil
		}
	}
}

// request asks for what comes next: several ranges while the log has full ones
// to give, one at its end.
func (s *Stream) request(ctx context.Context) error {
	ahead := 0
	for _, a := range s.asked {
		if !a.stale {
			ahead++
		}
	}
	limit := fetchesAhead
	if s.atEnd {
		limit = 1
	}
	need := s.needed()
	for ; ahead < limit; ahead++ {
		a := ask{offset: s.next, maxBytes: s.fetch.now, wait: s.atEnd && !s.noWait, at: time.Now()}
		// A message that is larger than a pull comes with one that is larger.
		a.maxBytes = max(a.maxBytes, need-int(s.next-s.base))
		entries := [...]wire.FetchEntry{{Topic: s.cfg.Topic, Partition: s.cfg.Partition, Offset: a.offset, MaxBytes: int32(a.maxBytes)}}
		answer := client.Answer{MaxPayload: a.maxBytes}
		if a.wait {
			s.out = wire.AppendWaitFetch(s.out[:0], entries[:], client.Millis(s.cfg.MaxWait), 1)
			answer = client.Answer{MaxPayload: client.FetchManyMaxPayload(entries[:]), Wait: s.cfg.MaxWait}
		} else {
			s.out = wire.AppendFetch(s.out[:0], entries[0])
		}
		if _, err := s.conn.Send(ctx, s.out, answer); err != nil {
			return err
		}
		s.asked = append(s.asked, a)
		s.next += int64(a.maxBytes)
	}
	return nil
}

// receive takes one answer in, and reports whether there is a complete message.
func (s *Stream) receive(ctx context.Context) (complete bool, err error) {
	began := time.Now()
	code, buf, err := s.conn.Receive(ctx, s.buf)
	s.buf = buf
	if err != nil {
		return false, s.lost(ctx, err)
	}
	a := s.asked[0]
	s.asked = append(s.asked[:0], s.asked[1:]...)
	s.backoff, s.cutOffs = 0, 0
	s.waitKnown = s.waitKnown || a.wait
	payload := s.buf[len(s.tail):]
	s.buf = s.buf[:len(s.tail)]
	s.count(func(st *Stats) {
		st.Fetches++
		if a.stale {
			st.Discarded++
		}
	})
	if a.stale {
		return false, nil // also if it is an error: those bytes are not wanted
	}
	if a.wait && code == wire.CodeNone {
		s.result, err = wire.ParseFetchResults(s.result[:0], payload, 1)
		if err != nil {
			s.disconnect()
			return false, s.errorf("broker %s: %w: its answer does not parse: %w", s.cfg.Broker, client.ErrNotBroker, err)
		}
		code, payload = s.result[0].Code, s.result[0].Set
		clear(s.result)
	}
	switch code {
	case wire.CodeNone:
		return s.take(a, payload, began)
	case wire.CodeOffsetOutOfRange:
		s.dropAhead()
		s.outOfRange = true
		return false, nil
	}
	s.dropAhead()
	s.beQuiet(quietInterval)
	return false, s.errorf("broker %s: fetch at offset %d: %w", s.cfg.Broker, a.offset, code)
}

// take joins the payload of an answer, whose receiving began then, to the tail and
// cuts what there is behind its last complete message. The payload lies somewhere in
// buf behind the tail.
func (s *Stream) take(a ask, payload []byte, began time.Time) (complete bool, err error) {
	data := payload
	switch {
	case len(s.tail) > 0 && a.wait: // the inner header lies between
		data = append(s.buf, payload...)
	case len(s.tail) > 0:
		data = s.buf[:len(s.tail)+len(payload)]
	}
	s.atEnd = len(payload) < a.maxBytes
	s.adapt(a, len(payload), time.Since(began))
	defer func() {
		if s.atEnd {
			s.dropAhead()
		}
	}()
	if len(payload) == 0 {
		if n := len(s.tail); n > 0 {
			// A log ends, and a segment ends, where a message does. So this one is
			// damaged, or it was deleted since its beginning came: ask for that again.
			if s.tornAt == s.base {
				return false, s.fail("%snothing follows the %d bytes at offset %d: %w", s.doubt(s.base), n, s.base, ErrTorn)
			}
			again, given := s.base, s.given
			s.moveTo(again)
			s.tornAt, s.given = again, given
			return false, nil
		}
		s.keepRoom()
		if s.noWait { // else the broker holds the next request back
			s.beQuiet(quietInterval)
		}
		return false, nil
	}
	valid, messages, bad := walk(data)
	s.count(func(st *Stats) {
		st.Messages += int64(messages)
		st.Bytes += int64(len(payload))
	})
	s.need = 0
	if bad {
		valid = len(data) // the iterator will find out what it is
	} else {
		s.need, _ = message.Peek(data[valid:]) // walk has seen that it is possible
	}
	if valid == 0 {
		s.buf = append(s.buf[:0], data...)
		s.tail = s.buf
		return false, nil
	}
	s.it = s.iterate(data[:valid], s.base)
	s.base, s.tail = s.base+int64(valid), data[valid:]
	s.receiving = false
	return true, nil
}

// walk goes over the entries of b by their lengths. It returns the bytes and
// number of those that are complete, and whether the next one has an
// impossible length.
func walk(b []byte) (valid, messages int, bad bool) {
	for {
		size, err := message.Peek(b[valid:])
		if err != nil {
			return valid, messages, true
		}
		if size == 0 || size > len(b)-valid {
			return valid, messages, false
		}
		valid += size
		messages++
	}
}

// fail ends the stream until it is moved elsewhere.
func (s *Stream) fail(format string, args ...any) error {
	s.failed = s.errorf(format, args...)
	return s.failed
}
