package mirror_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/registry"
)

type zkConfig = coord.Config

func mirrorPartition(broker, partition int32) registry.Partition {
	return registry.Partition{Broker: broker, Partition: partition}
}

// proxy stands before a broker. It delays, holds back and breaks what goes through.
type proxy struct {
	t       testing.TB
	l       net.Listener
	to      string
	running sync.WaitGroup

	mu      sync.Mutex
	delay   time.Duration // of each piece, both ways
	holding chan struct{} // while it is set, nothing of the broker's answers passes
	waiting int           // bytes that are held
	conns   map[net.Conn]bool
	closed  bool
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, l: l, to: to, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.release()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = l.Close()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			_, _ = c.Close(), s.Close()
		}
		p.conns[c], p.conns[s] = true, true
		p.mu.Unlock()
		p.running.Go(func() { p.pass(c, s, false) })
		p.running.Go(func() { p.pass(s, c, true) })
	}
}

// piece is what was read at once, and when it is due.
type piece struct {
	b   []byte
	due time.Time
}

// pass carries bytes one way. Delayed pieces overlap: what is delayed is not slower.
func (p *proxy) pass(from, to net.Conn, answers bool) {
	pieces := make(chan piece, 4096)
	p.running.Go(func() {
		defer func() { _, _ = from.Close(), to.Close() }()
		for x := range pieces {
			time.Sleep(time.Until(x.due))
			if answers {
				p.awaitRelease(len(x.b))
			}
			if _, err := to.Write(x.b); err != nil {
				break
			}
		}
		for range pieces { // until the reader has ended
		}
	})
	defer close(pieces)
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if n > 0 {
			p.mu.Lock()
			d := p.delay
			p.mu.Unlock()
			pieces <- piece{b[:n], time.Now().Add(d)}
		}
		if err != nil {
			if err != io.EOF {
				_ = to.Close()
			}
			return
		}
	}
}

func (p *proxy) awaitRelease(n int) {
	p.mu.Lock()
	h := p.holding
	if h != nil {
		p.waiting += n
	}
	p.mu.Unlock()
	if h != nil {
		<-h
	}
}

// hold lets no answer pass until release.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding == nil {
		p.holding = make(chan struct{})
	}
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		close(p.holding)
		p.holding, p.waiting = nil, 0
	}
}

// held returns how many bytes of answers are held back.
func (p *proxy) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

func (p *proxy) setDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// cut breaks all connections once. What is on its way is lost.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// slowTarget is a cluster of one broker that mirrors reach through a proxy.
type slowTarget struct {
	*cluster
	proxy *proxy
}

func newSlowTarget(t testing.TB, partitions int, topics ...string) *slowTarget {
	t.Helper()
	c := newCluster(t, 0, partitions)
	b := kafkatest.Start(t, func(cfg *broker.Config) { cfg.Storage.DefaultPartitions = int32(partitions) })
	c.brokers = append(c.brokers, b)
	s := &slowTarget{c, startProxy(t, b.HostPort())}
	host, port, err := net.SplitHostPort(s.proxy.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.client.Session(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	entry := registry.Broker{ID: 0, Creator: registry.NewCreator(host, time.Now()), Host: host, Port: n}
	if err := c.nodes.RegisterBroker(testContext(t), session, entry, nil); err != nil {
		t.Fatal(err)
	}
	for _, topic := range append(topics, "t") {
		if err := c.nodes.RegisterTopic(testContext(t), session, topic, 0, int32(partitions)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
