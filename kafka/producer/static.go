package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// How often brokers of a static list are asked again for the partitions of the
// topics that are sent to: one has no registry to tell that a topic has been made.
const (
	askNewTopicInterval = time.Second
	askTopicsInterval   = time.Minute
)

// staticDirectory is a list of brokers. Their ids are their places in it.
type staticDirectory struct {
	cluster *Cluster
	wrong   chan struct{} // a token when a broker has refused a partition
}

func newStaticDirectory(c *Cluster) *staticDirectory {
	for i, addr := range c.cfg.StaticBrokers {
		c.members[int32(i)] = &member{cluster: c, id: int32(i), addr: addr}
	}
	d := &staticDirectory{cluster: c, wrong: make(chan struct{}, 1)}
	if !c.brokersChoose {
		c.wg.Go(d.askAgain)
	}
	return d
}

// open connects to one of the brokers.
func (d *staticDirectory) open(ctx context.Context) error {
	var errs []error
	for _, i := range rand.Perm(len(d.cluster.cfg.StaticBrokers)) {
		p, err := d.cluster.members[int32(i)].producer(false)
		if err == nil {
			err = p.reach(ctx)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// reach connects, if that has not been done.
func (p *Producer) reach(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.writing {
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	p.writing = true
	_, err := p.connect(ctx)
	p.writing = false
	p.broadcast()
	return err
}

func (d *staticDirectory) follow(t *topicRoute) {
	d.cluster.wg.Go(func() {
		if d.cluster.brokersChoose {
			d.cluster.partitionsFound(t, nil)
			return
		}
		d.ask(t)
	})
}

// ask asks every broker how many partitions of a topic it has. One that does not
// know the topic, or cannot be asked, is taken to have partition 0: with the first
// message it will. Who waits for the topic goes on with the first answer.
func (d *staticDirectory) ask(t *topicRoute) {
	type answer struct {
		broker, partitions int32
		err                error
	}
	addrs := d.cluster.cfg.StaticBrokers
	answers := make(chan answer, len(addrs))
	for i, addr := range addrs {
		d.cluster.wg.Go(func() {
			n, err := d.askBroker(addr, t.name)
			answers <- answer{int32(i), n, err}
		})
	}
	counts, guessed := map[int32]int32{}, false
	for range addrs {
		a := <-answers
		if a.err != nil {
			d.cluster.cfg.Logger.Warn("partitions cannot be found out", "broker", addrs[a.broker], "topic", t.name, "error", a.err)
		}
		counts[a.broker] = max(a.partitions, 1)
		guessed = guessed || a.partitions == 0
		if a.err == nil && !isClosed(t.ready) {
			d.cluster.partitionsFound(t, maps.Clone(counts))
		}
	}
	d.cluster.partitionsFound(t, counts)
	t.guessed.Store(guessed)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// askBroker returns how many partitions of a topic a broker has, 0 if it does not
// know it.
func (d *staticDirectory) askBroker(addr, topic string) (partitions int32, err error) {
	cfg := &d.cluster.cfg
	ctx, cancel := context.WithTimeout(d.cluster.ctx, cfg.DialTimeout)
	defer cancel()
	conn, err := client.Dial(ctx, addr, client.Config{DialTimeout: cfg.DialTimeout, RequestTimeout: cfg.RequestTimeout})
	if err != nil {
		return 0, err
	}
	states, err := conn.Topics(ctx, topic)
	if errors.Is(err, wire.CodeNoSuchTopic) {
		err = nil
	}
	for _, s := range states {
		if s.Topic != topic || s.Partition < 0 {
			err = errors.Join(err, fmt.Errorf("it told of %.60s-%d instead", s.Topic, s.Partition))
			continue
		}
		partitions++
	}
	return partitions, errors.Join(err, conn.Close())
}

// lookAgain has nowhere to look: all brokers of the list are known.
func (d *staticDirectory) lookAgain(context.Context, *topicRoute, int32, int) error { return nil }

func (d *staticDirectory) lookSoon() {
	select {
	case d.wrong <- struct{}{}:
	default: // it will look anyway
	}
}

// askAgain asks from time to time for the partitions of the topics that are in use.
func (d *staticDirectory) askAgain() {
	askedAll := time.Now()
	for {
		wrong := false
		select {
		case <-time.After(askNewTopicInterval):
		case <-d.wrong:
			wrong = true
		case <-d.cluster.ctx.Done():
			return
		}
		all := wrong || time.Since(askedAll) >= askTopicsInterval
		if all {
			askedAll = time.Now()
		}
		for _, t := range *d.cluster.topics.Load() {
			if (all || t.guessed.Load()) && t.used.Swap(false) {
				d.ask(t)
			}
		}
	}
}

// close has nothing to end but what ends with the cluster.
func (d *staticDirectory) close() error {
	d.cluster.closeTopics()
	return nil
}
