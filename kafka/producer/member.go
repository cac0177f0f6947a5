package producer

import (
	"context"
	"sync/atomic"

	"kafkalab/kafka/registry"
)

// member is a broker of a cluster.
type member struct {
	cluster *Cluster
	id      int32
	addr    string
	p       atomic.Pointer[Producer] // nil until it is sent to
	down    atomic.Bool              // the last attempt to connect has failed
	retired bool                     // guarded by the cluster's mu
}

// setDown notes whether the broker can be reached. It is called with the mu of the
// member's producer held.
func (m *member) setDown(down bool) {
	m.down.Store(down)
	select {
	case m.cluster.events <- struct{}{}:
	default: // it will look anyway
	}
}

// producer returns the member's producer and makes it if need be. If it may not, the
// error says what to do instead.
func (m *member) producer(moved bool) (*Producer, error) {
	if p := m.p.Load(); p != nil {
		return p, nil
	}
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p := m.p.Load(); {
	case p != nil:
		return p, nil
	case c.closed:
		return nil, ErrClosed
	case m.retired:
		return nil, errRetired
	case !moved && c.moveBytes >= c.maxMoving():
		return nil, errBusy
	}
	cfg := c.cfg.Config
	cfg.Brokers = []string{m.addr}
	p := newProducer(cfg, m)
	go p.run()
	m.p.Store(p)
	return p, nil
}

// maxMoving bounds what is on its way from brokers that have gone, before further
// producers may be made that could add to it.
func (c *Cluster) maxMoving() int64 { return 4 * int64(c.cfg.MaxBufferBytes) }

// dialError tells why the broker cannot be reached, or nil.
func (m *member) dialError() error {
	p := m.p.Load()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialErr
}

// brokersFound takes in which brokers live.
func (c *Cluster) brokersFound(brokers []registry.Broker) {
	addrs := make(map[int32]string, len(brokers))
	for _, b := range brokers {
		addrs[b.ID] = b.Addr()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.members {
		if addr, lives := addrs[id]; addr != m.addr {
			c.cfg.Logger.Info("broker has gone", "id", id, "broker", m.addr)
			delete(c.members, id)
			c.retire(m)
			if !lives {
				c.gone[id] = true
			}
		}
	}
	for id, addr := range addrs {
		delete(c.gone, id)
		if c.members[id] == nil {
			c.cfg.Logger.Info("broker found", "id", id, "broker", addr)
			c.members[id] = &member{cluster: c, id: id, addr: addr}
		}
	}
	for _, t := range c.asked {
		if t.known {
			t.route.Store(c.makeRoute(t))
		}
	}
	c.broadcast()
}

// partitionsFound takes in how many partitions of a topic each broker has.
func (c *Cluster) partitionsFound(t *topicRoute, counts map[int32]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.counts = counts
	old, route := t.route.Load(), c.makeRoute(t)
	t.moving.Add(1) // until those that are to be first have been counted
	t.route.Store(route)
	if old != nil {
		c.leavePartitions(t, old, route)
	}
	t.moving.Add(-1)
	if !t.known {
		t.known = true
		topics := make(map[string]*topicRoute, len(*c.topics.Load())+1)
		for name, other := range *c.topics.Load() {
			topics[name] = other
		}
		topics[t.name] = t
		c.topics.Store(&topics)
		close(t.ready)
	}
	c.broadcast()
}

// leavePartitions takes messages of a topic away from brokers that have fewer
// partitions of it than before: the registry of topics may know first that a broker
// has gone. mu is held.
func (c *Cluster) leavePartitions(t *topicRoute, old, now *route) {
	for k := range old.spans {
		s := &old.spans[k]
		if s.member == nil || now.partitionsAt(s.broker) >= s.n {
			continue
		}
		if p := s.member.p.Load(); p != nil {
			c.moveOn(p.takeUnwritten(func(topic []byte, _ bool) bool { return string(topic) == t.name }))
		}
	}
}

// retire ends the producer of a broker that has gone, in the background: what is
// written has DialTimeout to be confirmed. mu is held, and the routes still lead
// to it.
func (c *Cluster) retire(m *member) {
	m.retired = true
	p := m.p.Load()
	if p == nil {
		return
	}
	c.moveOn(p.retire())
	c.retiring[p] = true
	c.wg.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.DialTimeout)
		defer cancel()
		// Its losses are in the cluster's report already.
		if err := p.Close(ctx); err != nil {
			c.cfg.Logger.Debug("close of a producer", "broker", m.addr, "error", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end(p)
		delete(c.retiring, p)
		c.broadcast()
	})
}

// end takes over from a producer that is closed. mu is held.
func (c *Cluster) end(p *Producer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.moveOn(p.left)
	p.left = nil
	c.ended.add(p)
}

// keep sees to messages that wait for brokers that cannot be reached.
func (c *Cluster) keep() {
	for {
		select {
		case <-c.events:
			c.leaveDown()
		case <-c.ctx.Done():
			return
		}
	}
}

// leaveDown takes messages without keys away from brokers that are down, where
// another one has the topic and is up.
func (c *Cluster) leaveDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	topics := *c.topics.Load()
	for _, m := range c.members {
		p := m.p.Load()
		if p == nil || !m.down.Load() {
			continue
		}
		c.moveOn(p.takeUnwritten(func(topic []byte, keyed bool) bool {
			return !keyed && topics[string(topic)].route.Load().anyUp()
		}))
	}
	c.broadcast()
}
