package kafkatest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Direction says which way bytes go.
type Direction int

// The ways between a client and a broker.
const (
	ToBroker Direction = iota
	ToClient
)

// NoisyLine returns an address at which the broker at another one answers, over a
// line that damages what it carries one way: whenever mark goes by, a bit of its
// last byte arrives the other way round. No other byte of mark may be its first.
// It ends with the test.
func NoisyLine(t testing.TB, broker string, way Direction, mark string) (address string) {
	t.Helper()
	carry := func(to, from net.Conn, mark string) {
		// Either end may hang up at any time, as a connection may break.
		_, _ = io.Copy(&damager{to: to, mark: mark}, from)
		to.Close()
		from.Close()
	}
	return Peer(t, func(client net.Conn) {
		server, err := net.Dial("tcp", broker)
		if err != nil {
			t.Errorf("noisy line: %v", err)
			return
		}
		marks := [2]string{}
		marks[way] = mark
		var wg sync.WaitGroup
		wg.Go(func() { carry(server, client, marks[ToBroker]) })
		carry(client, server, marks[ToClient])
		wg.Wait()
	})
}

// damager passes bytes on and damages the last one of each mark, which may come
// in pieces.
type damager struct {
	to   io.Writer
	mark string
	seen int // bytes of mark that came last
	out  []byte
}

func (d *damager) Write(b []byte) (int, error) {
	d.out = append(d.out[:0], b...)
	for i := 0; i < len(b) && d.mark != ""; i++ {
		switch b[i] {
		case d.mark[d.seen]:
			d.seen++
		case d.mark[0]:
			d.seen = 1
		default:
			d.seen = 0
		}
		if d.seen == len(d.mark) {
			d.out[i] ^= 1
			d.seen = 0
		}
	}
	return d.to.Write(d.out)
}
