package pipeline

import (
	"context"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// The load balancer of Debian and Ubuntu: the paper's front ends had one in
// hardware (NetDB'11 §4).
const (
	balancerPackage = "haproxy"
	balancerProgram = "haproxy"
)

// balancerMark begins the line by which the balancer is known to be about to
// serve: haproxy itself says nothing when it does.
const balancerMark = "balancer at "

// startBalancer starts one before brokers at addresses. Connections are dealt in
// turn. A broker that is down is found out within half a second, and a connection
// to it goes to another one at once.
func startBalancer(ctx context.Context, h host.Host, dir string, brokers []string) (*driver.Program, error) {
	port, err := h.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.MkdirAll(ctx, dir); err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(h.Addr(), strconv.Itoa(port))
	file := path.Join(dir, "haproxy.cfg")
	if err := h.WriteFile(ctx, file, balancerConfig(addr, brokers), 0o644); err != nil {
		return nil, err
	}
	// The configuration is checked before the mark is written. From there to the
	// port it is a moment, which clients wait for as they do for a broker's.
	script := `PATH=$PATH:/usr/sbin; haproxy -c -q -f "$1" && echo "$2" && exec haproxy -db -f "$1"`
	return driver.StartProgram(ctx, h, driver.ProgramConfig{
		Command: host.Command{Name: "haproxy", Args: []string{"sh", "-c", script, "sh", file, balancerMark + addr}},
		Ready: func(line string) (string, bool) {
			return strings.CutPrefix(line, balancerMark)
		},
		StoreDir: dir,
		LogFile:  path.Join(dir, "balancer.log"),
		Grace:    time.Second,
	})
}

// balancerConfig is the file of a balancer that passes bytes on and knows nothing
// of what they mean.
func balancerConfig(addr string, brokers []string) []byte {
	b := fmt.Appendf(nil, `global
    maxconn 1000
    log stdout format raw local0
defaults
    mode tcp
    log global
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    retries 3
    option redispatch 1
    default-server check inter 200ms fall 2 rise 1
listen brokers
    bind %s
    balance roundrobin
`, addr)
	for i, broker := range brokers {
		b = fmt.Appendf(b, "    server broker%d %s\n", i, broker)
	}
	return b
}
