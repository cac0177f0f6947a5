package producer

import (
	"context"
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

// errDrop tells Send to drop a message. No caller sees it.
var errDrop = errors.New("drop")

// room is how one Send waits for room: all its waits together take no longer
// than the policy has it.
type room struct {
	ctx     context.Context // the caller's
	limited context.Context // ctx and QueueTimeout, from the first wait on
	cancel  context.CancelFunc
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
		if p.cfg.QueueFull == QueueDrop {
			return errDrop // as it is: dropping costs nothing
		}
		if err := p.awaitRoom(r); err != nil {
			return fmt.Errorf("send: %d bytes wait in the buffer, and there is no room for %d: %w", len(p.fill.b), n, err)
		}
		if p.closing {
			return ErrClosed
		}
	}
	return nil
}

// awaitRoom waits for a change while the policy allows it. mu is held.
func (p *Producer) awaitRoom(r *room) error {
	switch p.cfg.QueueFull {
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
