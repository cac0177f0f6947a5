package zktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Directions of a connection through a proxy.
const (
	toServer = iota
	toClient
)

// Proxy is the way to one server on one line. Its methods may run concurrently.
type Proxy struct {
	addr   string // stable
	target string
	seen   *ledger

	mu       sync.Mutex
	listener net.Listener // nil while new connections are refused
	cut      bool
	down     bool // the server is
	closed   bool
	links    map[*link]struct{}
	gates    [2]chan struct{} // by direction; not nil while nothing passes
	delay    time.Duration
	wg       sync.WaitGroup
}

// link is one connection of a client, and the one to the server that belongs to
// it.
type link struct {
	client net.Conn
	ended  chan struct{}

	mu     sync.Mutex
	server net.Conn // nil until it is there
	over   bool
}

// newProxy listens on a free port and passes what comes on to target.
func newProxy(target string, seen *ledger) (*Proxy, error) {
	var err error
	for range portTries {
		p := &Proxy{target: target, seen: seen, links: make(map[*link]struct{})}
		p.addr, err = freeAddr()
		if err != nil {
			continue
		}
		if err = p.update(func() {}); err == nil {
			return p, nil
		}
	}
	return nil, err
}

// Addr returns the address for clients.
func (p *Proxy) Addr() string { return p.addr }

// Cut breaks all connections, and what is under way on them is lost. New ones are
// refused until Mend.
func (p *Proxy) Cut() error {
	err := p.update(func() { p.cut = true })
	p.DropConnections()
	return err
}

// DropConnections breaks all connections, and what is under way on them is lost.
// New ones come through.
func (p *Proxy) DropConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.sever()
	}
}

// Freeze lets nothing pass any more in both directions, also no end of a
// connection, and connections stay open. New ones are accepted and hang as well.
// After Mend what was held goes on its way.
func (p *Proxy) Freeze() {
	p.hold(toServer)
	p.hold(toClient)
}

// FreezeAnswers lets requests pass and holds back everything that the server
// sends. With DropConnections after it, requests are carried out and their
// answers are lost.
func (p *Proxy) FreezeAnswers() { p.hold(toClient) }

func (p *Proxy) hold(direction int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gates[direction] == nil {
		p.gates[direction] = make(chan struct{})
	}
}

// Delay makes everything pass in each direction d later than it would, and up to
// twice as much when much is under way. Order is kept.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Mend ends what Cut, Freeze, FreezeAnswers and Delay did.
func (p *Proxy) Mend() error {
	return p.update(func() {
		p.cut = false
		p.delay = 0
		for i, g := range p.gates {
			if g != nil {
				close(g)
				p.gates[i] = nil
			}
		}
	})
}

// serverDown says that the server has stopped, so that new connections are
// refused as it would, or that it serves again.
func (p *Proxy) serverDown(down bool) error { return p.update(func() { p.down = down }) }

// update changes the state and then listens, or does not, as it says.
func (p *Proxy) update(change func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	switch listen := !p.cut && !p.down && !p.closed; {
	case listen && p.listener == nil:
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			return fmt.Errorf("proxy of %s: %w", p.target, err)
		}
		p.listener = l
		p.wg.Go(func() { p.accept(l) })
	case !listen && p.listener != nil:
		err := p.listener.Close()
		p.listener = nil
		if err != nil {
			return fmt.Errorf("proxy of %s: %w", p.target, err)
		}
	}
	return nil
}

// close ends everything and waits for it.
func (p *Proxy) close() error {
	err := p.update(func() { p.closed = true })
	p.DropConnections()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept(from net.Listener) {
	for {
		client, err := from.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // no descriptors: some may come free
			continue
		}
		l := &link{client: client, ended: make(chan struct{})}
		p.mu.Lock()
		if p.listener != from { // it was in the queue when this was cut
			p.mu.Unlock()
			l.sever()
			continue
		}
		p.links[l] = struct{}{}
		p.wg.Go(func() { p.serve(l) })
		p.mu.Unlock()
	}
}

// serve passes on what comes on one connection, until both directions have ended.
func (p *Proxy) serve(l *link) {
	defer func() {
		l.end()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	if !p.wait(l, toServer) {
		return
	}
	server, err := net.DialTimeout("tcp", p.target, patience)
	if err != nil || !l.join(server) {
		l.sever()
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		frames := p.seen.ofClient()
		p.pass(l, toServer, l.client, server, func([]byte) {}, frames.feed)
	})
	frames := p.seen.ofServer()
	// A session is known from when the server has made it, even if its client
	// never hears of it.
	p.pass(l, toClient, server, l.client, frames.feed, func([]byte) {})
	both.Wait()
}

// pass copies one direction until its end, and hands that on too. came sees what
// the sender has sent, left what is about to go to the receiver.
func (p *Proxy) pass(l *link, direction int, from, to net.Conn, came, left func([]byte)) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		came(b[:n])
		if !p.wait(l, direction) {
			return
		}
		if n > 0 {
			left(b[:n])
			if _, err := to.Write(b[:n]); err != nil {
				l.sever()
				return
			}
		}
		if errors.Is(err, io.EOF) {
			if tcp, ok := to.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
				return
			}
		}
		if err != nil {
			l.sever()
			return
		}
	}
}

// wait waits until something may pass in a direction. It returns false if the
// connection ended before.
func (p *Proxy) wait(l *link, direction int) bool {
	delayed := false
	for {
		p.mu.Lock()
		gate, delay := p.gates[direction], p.delay
		p.mu.Unlock()
		var timer <-chan time.Time
		if gate == nil {
			if delay == 0 || delayed {
				break
			}
			timer = time.After(delay)
		}
		select {
		case <-l.ended:
			return false
		case <-gate:
		case <-timer:
			delayed = true
		}
	}
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// join gives the link its second half. It returns false, and has closed it, when
// the link is over.
func (l *link) join(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		server.Close()
		return false
	}
	l.server = server
	return true
}

// sever breaks both halves as a network does that loses them: with a reset.
func (l *link) sever() { l.finish(true) }

// end closes both halves.
func (l *link) end() { l.finish(false) }

func (l *link) finish(reset bool) {
	l.mu.Lock()
	over, halves := l.over, []net.Conn{l.client}
	if l.server != nil {
		halves = append(halves, l.server)
	}
	l.over = true
	l.mu.Unlock()
	if over {
		return
	}
	close(l.ended)
	for _, c := range halves {
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // fails only for one that is closed
		}
		c.Close()
	}
}
