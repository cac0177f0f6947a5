package producer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"kafkalab/kafka/message"
)

// maxLooks is how often a broker is looked for that is not known, 0.7's
// zk.read.num.retries, and how often a Send writes whose writing fails.
const maxLooks = 3

// NoBrokerError says that a partition was chosen whose broker is not registered,
// and was not found either by looking again.
type NoBrokerError struct {
	Broker int32 // its id
	Topic  string
}

func (e *NoBrokerError) Error() string {
	return fmt.Sprintf("broker %d has topic %s, but is not registered itself: looked %d times again: start it", e.Broker, e.Topic, maxLooks)
}

var (
	errNoBrokers = errors.New("no broker is registered: start one")
	errOvertake  = errors.New("messages with keys are on their way from a broker that has gone")
	errNoneUp    = errors.New("no broker can be reached")
)

// Send publishes payloads to one partition of a topic. A key, if it is not nil,
// chooses the partition, see [Partitioner]; without one any partition is as likely
// as any other, of those whose brokers can be reached and have room. Of a new topic
// that no broker has registered, partition 0 of every broker is assumed.
//
// The payloads become messages, are waited for, acknowledged and refused as
// [Producer.Send] has it. Where no broker is registered or can be reached, or
// messages with keys must not overtake others, Send waits as if there were no
// room, as [Config.QueueFull] says. The first Send to a topic waits until ZooKeeper
// or the brokers have told its partitions. It does not keep key and payloads.
//
// A Send that fails in a way that leaves no doubt that nothing has arrived goes on
// to another broker. After an error none of the payloads was taken, with the
// exceptions of [Producer.Send].
func (c *Cluster) Send(ctx context.Context, topic string, key []byte, payloads ...[]byte) error {
	if len(payloads) == 0 {
		return nil
	}
	r := room{ctx: ctx, routing: routing{key: key, keyed: key != nil && c.keyed}}
	refused, err := len(payloads), c.takeLoss()
	if c.closing.Load() {
		err = ErrClosed
	}
	if err == nil {
		refused, err = c.send(&r, topic, payloads)
	}
	c.doneWaiting(&r)
	if errors.Is(err, errDrop) {
		c.dropped.Add(int64(refused))
		return nil
	}
	c.refused.Add(int64(refused))
	if taken := len(payloads) - refused; taken > 0 && refused > 0 {
		return &PartialError{Taken: taken, Err: err}
	}
	return err
}

// send returns how many of the payloads, the last ones, it has refused.
func (c *Cluster) send(r *room, topic string, payloads [][]byte) (refused int, err error) {
	t, err := c.topic(r.ctx, topic)
	if err != nil {
		return len(payloads), err
	}
	for tries, looks := 0, 0; ; {
		rt, target, err := c.choose(r, t)
		if err != nil {
			return len(payloads), err
		}
		if target.span.member == nil {
			if looks++; looks > maxLooks {
				return len(payloads), &NoBrokerError{Broker: target.span.broker, Topic: topic}
			}
			if err := c.dir.lookAgain(r.ctx, t, target.span.broker, looks); err != nil {
				return len(payloads), err
			}
			continue
		}
		refused, err := c.sendTo(r, t, rt, target, payloads)
		if refused == 0 {
			return 0, err
		}
		payloads = payloads[len(payloads)-refused:]
		switch err = whole(err); {
		case errors.Is(err, errRetired):
			c.awaitRoutes()
		case errors.Is(err, errDown):
		case errors.Is(err, errBusy):
			if err := c.awaitRoom(r, t); err != nil {
				return refused, err
			}
		case errors.As(err, new(unwrittenError)) && r.ctx.Err() == nil && tries < maxLooks-1:
			tries++
		default:
			return refused, err
		}
		if err := r.ctx.Err(); err != nil {
			return refused, err
		}
	}
}

// whole takes the number of the payloads that were taken off an error: it is that of
// one of several attempts.
func whole(err error) error {
	var partial *PartialError
	if errors.As(err, &partial) {
		return partial.Err
	}
	return err
}

// topic returns what is known about a topic, and finds it out the first time.
func (c *Cluster) topic(ctx context.Context, name string) (*topicRoute, error) {
	if t := (*c.topics.Load())[name]; t != nil {
		return t, nil
	}
	if err := message.CheckTopic(name); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	c.mu.Lock()
	t := c.asked[name]
	if t == nil && !c.closed {
		t = &topicRoute{name: name, ready: make(chan struct{})}
		c.asked[name] = t
		c.dir.follow(t)
	}
	c.mu.Unlock()
	if t == nil {
		return nil, ErrClosed
	}
	ctx, cancel := c.waitAtMost(ctx)
	defer cancel()
	select {
	case <-t.ready:
		return t, nil
	case <-c.ctx.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("send to %s: its partitions are not known yet: %w", name, ctx.Err())
	}
}

// choose picks a partition, and waits until there is one that can be sent to.
func (c *Cluster) choose(r *room, t *topicRoute) (*route, target, error) {
	for {
		// The route is read before it is asked what is on its way: messages are
		// counted there before the route changes for them.
		rt := t.route.Load()
		if why := c.obstacle(r, t, rt); why != nil {
			if err := c.await(r, t, why); err != nil {
				return nil, target{}, err
			}
			continue
		}
		if !t.used.Load() {
			t.used.Store(true)
		}
		if !r.keyed {
			return rt, rt.pick(), nil
		}
		i := c.cfg.Partitioner.Partition(t.name, r.key, rt.total)
		if i < 0 || i >= rt.total {
			return nil, target{}, &PartitionError{Topic: t.name, Index: i, Partitions: rt.total}
		}
		return rt, rt.at(i), nil
	}
}

// PartitionError says that a [Partitioner] has chosen a partition that there is not.
type PartitionError struct {
	Topic      string
	Index      int
	Partitions int
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("send to %s: the partitioner chose index %d, and there are %d partitions, from 0 on", e.Topic, e.Index, e.Partitions)
}

// sendTo sends to the broker that was chosen. Messages without keys go to another
// one if it has no room.
func (c *Cluster) sendTo(r *room, t *topicRoute, rt *route, chosen target, payloads [][]byte) (refused int, err error) {
	r.topic, r.route = t, rt
	others := !r.keyed && len(rt.spans) > 1
	r.leave = others && (c.cfg.writesInSend() || rt.anyUp())
	// Without a key the wait for room is the cluster's, so that it ends also when
	// another broker comes.
	r.try = !r.keyed && !c.cfg.writesInSend()
	refused, err = c.attempt(r, t, chosen, payloads)
	if !r.try {
		return refused, err
	}
	first := rand.IntN(len(rt.spans))
	for k := range rt.spans {
		if refused == 0 || !errors.Is(err, errBusy) {
			break
		}
		if s := &rt.spans[(first+k)%len(rt.spans)]; s != chosen.span && s.up() {
			payloads = payloads[len(payloads)-refused:]
			refused, err = c.attempt(r, t, rt.at(s.first+rand.IntN(s.n)), payloads)
		}
	}
	return refused, err
}

func (c *Cluster) attempt(r *room, t *topicRoute, to target, payloads [][]byte) (refused int, err error) {
	p, err := to.span.member.producer(r.moved)
	if err != nil {
		return len(payloads), err
	}
	refused, err = p.sendRouted(r, t.name, to.partition, payloads)
	if errors.Is(err, ErrClosed) && !c.closing.Load() {
		err = errRetired
	}
	return refused, err
}
