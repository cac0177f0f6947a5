package host

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Ports are taken from below 32768, where Linux begins to hand out ports to
// outgoing connections: between FreePort and the start of a server, no client
// can take one from it.
const (
	firstPort = 20000
	lastPort  = 31999
)

// FreePort returns a port on which nothing listens and no connection lingers,
// and never the same one twice.
func (m *machine) FreePort(ctx context.Context) (int, error) {
	var out bounded
	err := m.script(ctx, "ports", `cat /proc/net/tcp; [ ! -e /proc/net/tcp6 ] || cat /proc/net/tcp6`, nil, &out)
	if err != nil {
		return 0, fmt.Errorf("finding a free port on %s: %w", m.cfg.Name, err)
	}
	used := usedPorts(out.buf)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range rand.Perm(lastPort - firstPort + 1) {
		port := firstPort + n
		if !used[port] && !m.ports[port] {
			m.ports[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no port from %d to %d is free on %s", firstPort, lastPort, m.cfg.Name)
}

// usedPorts reads the local ports from /proc/net/tcp and tcp6, whose second
// column is ADDRESS:PORT in hexadecimal digits.
func usedPorts(text []byte) map[int]bool {
	used := map[int]bool{}
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 2 {
			continue
		}
		_, hex, ok := strings.Cut(f[1], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); ok && err == nil {
			used[int(port)] = true
		}
	}
	return used
}
