package producer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// QueuePolicy says what Send does while there is no room for its messages.
type QueuePolicy int

// The policies for a full queue. Kafka 0.7 had the first, second and last, as the
// values below, above and at 0 of queue.enqueueTimeout.ms.
const (
	QueueWait       QueuePolicy = iota // wait for room, as long as [Producer.Send] says
	QueueWaitAtMost                    // wait for QueueTimeout, then [ErrQueueFull]
	QueueDrop                          // take what there is room for; the rest is dropped and counted, without an error
	QueueError                         // [ErrQueueFull] at once
)

var queuePolicyNames = [...]string{"wait", "wait at most", "drop", "error"}

func (q QueuePolicy) String() string {
	if q < 0 || int(q) >= len(queuePolicyNames) {
		return fmt.Sprintf("policy(%d)", int(q))
	}
	return queuePolicyNames[q]
}

// What a Send within the package is told instead of waiting. No caller sees these.
var (
	errDrop    = errors.New("drop")             // drop the message
	errBusy    = errors.New("there is no room") // with routing.try
	errDown    = errors.New("broker is down")   // with routing.leave
	errRetired = errors.New("broker has gone")  // choose again
)

// room is how one Send waits for room: all its waits together take no longer
// than the policy has it.
type room struct {
	ctx     context.Context // the caller's
	limited context.Context // ctx and QueueTimeout, from the first wait on
	cancel  context.CancelFunc
	routing
}

// routing is how a cluster sends to one of its brokers.
type routing struct {
	key   []byte
	keyed bool // key chooses the partition, so that its order is kept there
	try   bool // give up instead of waiting for room
	leave bool // give up instead of waiting for a broker that is down
	moved bool // was taken, and counted, by another producer of the cluster; waits for room whatever the policy

	topic *topicRoute
	route *route // by which the partition was chosen

	change <-chan struct{} // in the cluster, once no broker had room
}

// stale reports whether a key may choose another partition by now.
func (r *routing) stale() bool { return r.keyed && r.topic.route.Load() != r.route }

// keySize bounds what [appendKey] appends for the key.
func (r *routing) keySize() int {
	if !r.keyed {
		return 0
	}
	return 2*binary.MaxVarintLen32 + len(r.key)
}

// policy is what to do when there is no room.
func (p *Producer) policy(r *room) QueuePolicy {
	if r.moved {
		return QueueWait
	}
	return p.cfg.QueueFull
}

// cannotWait tells why a Send must not go on waiting for this broker, or nil.
// mu is held.
func (p *Producer) cannotWait(r *room) error {
	switch {
	case p.retired || r.stale():
		return errRetired
	case p.closing:
		return ErrClosed
	case r.leave && p.owner.down.Load():
		return errDown
	}
	return nil
}

func (r *room) close() {
	if r.cancel != nil {
		r.cancel()
	}
}

// waitRoom waits until a request of n bytes fits the buffer, or does what else
// the policy says. mu is held.
func (p *Producer) waitRoom(r *room, n int) error {
	for !p.hasRoom(n) {
		p.signal()
		if err := p.cannotWait(r); err != nil {
			return err
		}
		switch {
		case r.try:
			return errBusy
		case p.policy(r) == QueueDrop:
			return errDrop // as it is: dropping costs nothing
		}
		if err := p.awaitRoom(r); err != nil {
			return fmt.Errorf("send: %d bytes wait in the buffer, and there is no room for %d: %w", len(p.fill.b), n, err)
		}
		if err := p.cannotWait(r); err != nil {
			return err
		}
	}
	return nil
}

// awaitRoom waits for a change while the policy allows it. mu is held.
func (p *Producer) awaitRoom(r *room) error {
	switch p.policy(r) {
	case QueueError:
		return p.queueFull()
	case QueueWaitAtMost:
		if r.limited == nil {
			r.limited, r.cancel = context.WithTimeout(r.ctx, p.cfg.QueueTimeout)
		}
		err := p.await(r.limited)
		if err != nil && r.ctx.Err() == nil {
			return p.queueFull()
		}
		return err
	}
	return p.await(r.ctx)
}

// queueFull is the error of a policy, with what keeps the queue from emptying.
func (p *Producer) queueFull() error {
	if p.dialErr != nil {
		return fmt.Errorf("%w: %w", ErrQueueFull, p.dialErr)
	}
	return ErrQueueFull
}

// drop counts messages that the policy gives up. mu is held.
func (p *Producer) drop(messages int) {
	p.stats.Sent += int64(messages)
	p.stats.Dropped += int64(messages)
}

// take counts messages as taken. mu is held.
func (p *Producer) take(r *room, c count) {
	if r.moved {
		p.movedIn += c.messages // what was sent has been counted
		return
	}
	p.stats.Sent += c.messages
	p.stats.Bytes += c.bytes
}
