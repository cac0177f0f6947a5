package zktest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// portTries is how often something is started anew whose port was taken between
// the choice and the start.
const portTries = 5

// firstPort is the lowest port that is chosen.
const firstPort = 12000

// handedOut holds the ports that this process has chosen: one of a server that is
// stopped looks free and is not.
var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: make(map[int]bool)}

// freeAddr chooses a port of the loopback at which nothing listens. It lies below
// those that the system gives to outgoing connections, so that it is free again
// for a server that comes back.
func freeAddr() (string, error) {
	end := outgoingPorts()
	var err error
	for range 100 {
		port := firstPort + rand.IntN(end-firstPort)
		handedOut.Lock()
		taken := handedOut.ports[port]
		handedOut.ports[port] = true
		handedOut.Unlock()
		if taken {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("no free port from %d to %d: %w", firstPort, end, err)
}

// outgoingPorts returns the first port that the system may give to an outgoing
// connection.
func outgoingPorts() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\t")
	if n, err := strconv.Atoi(first); err == nil && n > firstPort+1000 {
		return n
	}
	return usual
}

func portOf(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // of freeAddr
	}
	return port
}
