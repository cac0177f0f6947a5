package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// Bounds of the pause before what has failed is tried again.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

const (
	// leasePoll is how often a lane without the lease looks whether it has it again.
	leasePoll = 50 * time.Millisecond
	// moveLimit is how long a lane whose place has changed waits for the answers from
	// the old one.
	moveLimit = 5 * time.Second
)

// run delivers until the lane ends. It never gives up.
func (l *lane) run() {
	defer close(l.done)
	key, ok := l.findKey()
	if !ok {
		return
	}
	backoff := minBackoff
	for l.awaitWork() {
		before := l.state().flushed
		at, err := l.src.m.target.place(l.tp.Topic, key.index)
		changed := l.src.m.target.changes()
		switch {
		case errors.Is(err, errNoTopic):
			err = l.makeTopic()
		case err == nil:
			err = l.deliver(at, key.index)
		}
		if l.life.Err() != nil {
			return
		}
		if l.state().flushed != before {
			backoff = minBackoff
		}
		l.failed(err, at.String(), backoff)
		if err == nil {
			continue
		}
		select {
		case <-time.After(backoff):
			backoff = min(2*backoff, maxBackoff)
		case <-changed:
			// A broker may be back; but one that comes and goes is not to be run after.
			if !pause(l.life, minBackoff) {
				return
			}
		case <-l.life.Done():
			return
		}
	}
}

// makeTopic makes the lane's topic at the target, and waits until that is told. At the
// source, too, a new topic comes to one broker after the other: that is waited for, as
// the number of partitions stays as it is made.
func (l *lane) makeTopic() error {
	ctx, cancel := context.WithTimeout(l.life, moveLimit)
	defer cancel()
	if !pause(ctx, settleTime) {
		return ctx.Err()
	}
	l.src.forget(l.tp.Topic)
	key, err := l.src.key(ctx, l.tp)
	if err != nil {
		return err
	}
	changed := l.src.m.target.changes()
	if err := l.src.m.target.create(ctx, l.tp.Topic, key.partitions); err != nil {
		return err
	}
	select {
	case <-changed:
	case <-ctx.Done():
	}
	return nil
}

// findKey finds out which partition of the target is the lane's. While the source's
// ZooKeeper does not say, it asks again.
func (l *lane) findKey() (key partitionKey, ok bool) {
	l.src.m.target.follow(l.tp.Topic)
	select {
	case <-l.src.ready:
	case <-l.life.Done():
		return key, false
	}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		key, err := l.src.key(l.life, l.tp)
		if err == nil {
			return key, true
		}
		if l.life.Err() != nil {
			return key, false
		}
		l.failed(err, place{}.String(), backoff)
		if !pause(l.life, backoff) {
			return key, false
		}
	}
}

// awaitWork waits until there is something to send. It reports false when the lane ends.
func (l *lane) awaitWork() bool {
	for {
		l.mu.Lock()
		work := len(l.queue) > 0 && !l.stopping
		l.mu.Unlock()
		if l.life.Err() != nil {
			return false
		}
		if work {
			return true
		}
		select {
		case <-l.wake:
		case <-l.life.Done():
		}
	}
}

// deliver sends over one connection until that ends, the lane does, or its place is
// another one. Only an error is a failure.
func (l *lane) deliver(at place, index int64) error {
	conn, err := client.Dial(l.life, at.addr, l.src.m.target.clientConfig())
	if err != nil {
		return err
	}
	down := make(chan struct{})
	var received error
	go func() {
		defer close(down)
		received = l.receive(conn)
	}()
	err = l.send(conn, at, index, down)
	closing := conn.Close() // ends receive, if that has not ended
	<-down
	if errors.Is(received, client.ErrClosed) {
		received = nil // by the line above
	}
	if received != nil {
		return received // an error of sending is but its consequence
	}
	return errors.Join(err, closing)
}

// send sends sets as they come and fit.
func (l *lane) send(conn *client.Conn, at place, index int64, down <-chan struct{}) error {
	var moved <-chan time.Time
	for {
		changed := l.src.m.target.changes()
		now, err := l.src.m.target.place(l.tp.Topic, index)
		same := err == nil && now == at
		if same {
			moved = nil
		} else if moved == nil {
			moved = time.After(moveLimit)
		}
		s, why := l.nextToSend(same)
		if s != nil {
			if err := l.write(conn, at, s); err != nil {
				return err
			}
			continue
		}
		if why == allAnswered && !same {
			return nil
		}
		var lease <-chan time.Time
		if why == noLease {
			lease = time.After(leasePoll)
		}
		select {
		case <-l.wake:
		case <-changed:
		case <-lease:
		case <-moved:
			return fmt.Errorf("its place at the target is another one, and %v has not answered within %v", at, moveLimit)
		case <-down:
			return nil
		case <-l.life.Done():
			return nil
		}
	}
}

// reason says why nothing is to be sent.
type reason int

const (
	nothingFits reason = iota
	allAnswered        // and nothing is on its way
	noLease
)

// nextToSend returns the next set that may be sent, and counts it as on its way.
func (l *lane) nextToSend(same bool) (*set, reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := nothingFits
	if l.sent == 0 {
		idle = allAnswered
	}
	if !same || l.stopping || l.answered > 0 || l.sent == len(l.queue) {
		return nil, idle
	}
	s := l.queue[l.sent]
	switch {
	case !l.fits(s):
		if l.mustCommit() {
			l.src.commitSoon()
		}
		return nil, idle
	case l.sent > 0 && l.cautious:
		return nil, idle
	case !l.src.group.Holds(l.tp.Topic, l.tp.Partition):
		return nil, noLease
	}
	l.sent++
	return s, idle
}

// write sends one set.
func (l *lane) write(conn *client.Conn, at place, s *set) error {
	// The partition is filled in: the header stands there already, with another.
	wire.AppendAckedProduceHeader(s.frame[:0], l.tp.Topic, at.partition, s.bytes())
	answer := client.Answer{MaxPayload: client.AckedProduceMaxPayload, Wait: l.cfg.FlushTimeout}
	l.cfg.at(stepBeforeWrite)
	rest := s.frame
	if l.cfg.step != nil {
		half := len(rest) / 2
		if _, err := conn.Send(l.life, rest[:half]); err != nil {
			return err
		}
		l.cfg.at(stepMidWrite)
		rest = rest[half:]
	}
	if _, err := conn.Send(l.life, rest, answer); err != nil {
		return err
	}
	l.cfg.at(stepAfterWrite)
	return nil
}

// receive takes the answers until the connection ends.
func (l *lane) receive(conn *client.Conn) error {
	var buf []byte
	for {
		code, payload, err := conn.Receive(l.life, buf[:0])
		if err != nil {
			return err
		}
		buf = payload
		if code == wire.CodeNone {
			if _, err := wire.ParseAckedRange(payload); err != nil {
				return fmt.Errorf("%w: its answer does not parse: %w", client.ErrNotBroker, err)
			}
		}
		l.cfg.at(stepFlushed)
		if err := l.take(code); err != nil {
			return err
		}
		l.signal()
	}
}

// take takes the answer to the oldest set that has none. After a refusal it takes those
// to the sets behind it, which are refused too (see [wire.AcksOrdered]), and returns the
// refusal with the last of them.
func (l *lane) take(code wire.Code) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered >= l.sent {
		return fmt.Errorf("%w: an answer to nothing", client.ErrNotBroker)
	}
	if l.answered == 0 && code == wire.CodeNone {
		l.accepted()
		l.tellDrained()
		return nil
	}
	s := l.queue[l.answered]
	switch code {
	case wire.CodeNone, wire.CodeTimedOut, wire.CodeUnknown, wire.CodeOutOfService: // it has it, or may have it
	default:
		s.refused = true
	}
	if l.answered == 0 {
		l.failing, l.cautious = &refusal{s.offset, s.end, code}, true
	}
	l.answered++
	if l.answered < l.sent {
		return nil
	}
	return l.failing
}
