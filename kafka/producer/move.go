package producer

import (
	"errors"
	"fmt"
	"time"
)

// Messages on their way are of two kinds, by parcel.keyed, and each kind has a
// goroutine, so that those that can go anywhere do not wait for those that cannot.
const (
	anywhere = 0
	byKey    = 1
)

func (p *parcel) kind() int {
	if p.keyed {
		return byKey
	}
	return anywhere
}

// movePause is the time between two attempts to place a message for which there is
// no place.
const movePause = 100 * time.Millisecond

// moveOn takes over what a producer had not written. mu is held, and the routes
// still lead to that producer.
func (c *Cluster) moveOn(parcels []parcel) {
	if len(parcels) == 0 {
		return
	}
	c.moves++
	messages := 0
	for _, pc := range parcels {
		kind := pc.kind()
		c.parcels[kind] = append(c.parcels[kind], pc)
		c.moveBytes += pc.bytes()
		messages += len(pc.payloads)
		if pc.keyed {
			// A message that a producer has taken is of a topic that is known.
			c.asked[pc.topic].moving.Add(1)
		}
		select {
		case c.wakeMover[kind] <- struct{}{}:
		default: // it will look anyway
		}
	}
	c.cfg.Logger.Info("messages go to other brokers", "messages", messages)
}

// move places the messages of a kind, in order.
func (c *Cluster) move(kind int) {
	for c.ctx.Err() == nil {
		pc, ok := c.nextParcel(kind)
		if !ok {
			select {
			case <-c.wakeMover[kind]:
			case <-c.ctx.Done():
			}
			continue
		}
		r := room{ctx: c.ctx, routing: routing{key: pc.key, keyed: pc.keyed, moved: true}}
		refused, err := c.send(&r, pc.topic, pc.payloads)
		c.doneWaiting(&r)
		c.placed(kind, refused, err)
		if refused > 0 && !hopeless(err) {
			select {
			case <-time.After(movePause):
			case <-c.ctx.Done():
			}
		}
	}
}

// hopeless reports whether a message that was refused with err can be placed nowhere.
func hopeless(err error) bool {
	var wrong *PartitionError
	return errors.Is(err, ErrTooLarge) || errors.As(err, &wrong)
}

func (c *Cluster) nextParcel(kind int) (parcel, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parcels[kind]) == 0 {
		return parcel{}, false
	}
	return c.parcels[kind][0], true
}

// placed takes the messages of the first parcel that have a place out of it: all
// but the last ones, which were refused.
func (c *Cluster) placed(kind, refused int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.parcels[kind]
	pc := &queue[0]
	before := pc.bytes()
	pc.payloads = pc.payloads[len(pc.payloads)-refused:]
	if refused > 0 && hopeless(err) {
		c.giveUp(pc, err)
	}
	c.moveBytes -= before - pc.bytes()
	if len(pc.payloads) == 0 {
		if pc.keyed {
			c.asked[pc.topic].moving.Add(-1)
		}
		queue[0] = parcel{} // its memory
		if c.parcels[kind] = queue[1:]; len(queue) == 1 {
			c.parcels[kind] = nil
		}
	}
	c.broadcast()
}

// giveUp counts what is left of a parcel as lost. mu is held.
func (c *Cluster) giveUp(pc *parcel, cause error) {
	n := count{int64(len(pc.payloads)), pc.bytes()}
	c.lost += n.messages
	c.report(n, false, fmt.Errorf("topic %s: a place at another broker: %w", pc.topic, cause))
	pc.payloads = nil
}
