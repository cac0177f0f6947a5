package producer_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"kafkalab/kafka/kafkatest"
)

// startBalancer returns an address behind which connections are dealt in turn to
// the brokers that take them.
func startBalancer(t *testing.T, brokers []*kafkatest.Broker) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addrs := make([]string, len(brokers))
	for i, b := range brokers {
		addrs[i] = b.HostPort()
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either end may hang up at any time
		to.Close()
		from.Close()
	}
	wg.Go(func() {
		for next := 0; ; next++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addrs[next%len(addrs)])
			for i := 1; err != nil && i < len(addrs); i++ {
				server, err = net.Dial("tcp", addrs[(next+i)%len(addrs)])
			}
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			open[client], open[server] = true, true
			mu.Unlock()
			wg.Go(func() { carry(server, client) })
			wg.Go(func() { carry(client, server) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}
