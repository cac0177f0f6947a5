package zktest

import (
	"errors"
	"strings"
)

// Line is a way from clients to all servers of a cluster, with a proxy before
// each. What breaks on one line is not felt on another.
type Line struct {
	chroot  string
	seen    *ledger
	proxies []*Proxy
	fail    func(error) // reports what went wrong with the line itself
}

// Connect returns the connection string for clients, with the chroot if there is
// one. It stays the same over restarts of the servers.
func (l *Line) Connect() string {
	addrs := make([]string, len(l.proxies))
	for i, p := range l.proxies {
		addrs[i] = p.addr
	}
	return strings.Join(addrs, ",") + l.chroot
}

// Proxy returns the way to one server, to break that alone.
func (l *Line) Proxy(i int) *Proxy { return l.proxies[i] }

// Cut breaks all connections of the line, and what is under way on them is lost.
// New ones are refused until Mend.
func (l *Line) Cut() { l.each((*Proxy).Cut) }

// Mend ends what Cut, Freeze, FreezeAnswers and Delay did.
func (l *Line) Mend() { l.each((*Proxy).Mend) }

// Freeze lets nothing pass any more on the line; see Proxy.Freeze.
func (l *Line) Freeze() { l.each(func(p *Proxy) error { p.Freeze(); return nil }) }

// FreezeAnswers holds back what the servers send; see Proxy.FreezeAnswers.
func (l *Line) FreezeAnswers() { l.each(func(p *Proxy) error { p.FreezeAnswers(); return nil }) }

// DropConnections breaks all connections of the line once.
func (l *Line) DropConnections() { l.each(func(p *Proxy) error { p.DropConnections(); return nil }) }

func (l *Line) each(f func(*Proxy) error) {
	var errs []error
	for _, p := range l.proxies {
		errs = append(errs, f(p))
	}
	if err := errors.Join(errs...); err != nil {
		l.fail(err)
	}
}

func (l *Line) close() error {
	var errs []error
	for _, p := range l.proxies {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// Requests returns how many requests have gone to the servers on this line, pings
// and handshakes apart. One is counted before it is sent on.
func (l *Line) Requests() int64 {
	total := int64(0)
	for op, n := range l.seen.counts() {
		if op != OpPing {
			total += n
		}
	}
	return total
}

// RequestsByKind returns how many requests of each kind have gone to the servers
// on this line, pings too.
func (l *Line) RequestsByKind() map[Op]int64 { return l.seen.counts() }

// Session returns what the last handshake on this line has said of a session.
func (l *Line) Session(id int64) (s Session, ok bool) { return l.seen.session(id) }
