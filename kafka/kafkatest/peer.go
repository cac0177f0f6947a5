package kafkatest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// Peer returns an address at which one function serves every connection, each on a
// goroutine of its own; when it returns, the connection is closed. At the end of the
// test all that are open still are closed too, and the function is waited for.
func Peer(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	life, end := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("a peer of the test: %v", err)
				}
				return
			}
			wg.Go(func() {
				defer nc.Close()
				defer context.AfterFunc(life, func() { nc.Close() })()
				serve(nc)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		end()
		wg.Wait()
	})
	return l.Addr().String()
}
