package coord

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// Defaults and bounds of [Config].
const (
	DefaultSessionTimeout = 6 * time.Second // 0.7's zk.sessiontimeout.ms
	MinSessionTimeout     = 10 * time.Millisecond
	MaxSessionTimeout     = math.MaxInt32 * time.Millisecond
	DefaultPort           = 2181 // of an address without one
)

// Config describes a client. Zero fields but Servers take the defaults.
type Config struct {
	// Servers are the members of the ensemble and, after the last, the path that
	// takes the place of the root (made when it is missing, but for LeaveRoot):
	// "host:port,host:port/path". A host may be an IPv6 address in brackets.
	Servers string
	// SessionTimeout is what is asked for. The server has the last word, see
	// [Session.Timeout].
	SessionTimeout time.Duration
	// ConnectTimeout is how long Connect waits for the first session. Default:
	// SessionTimeout.
	ConnectTimeout time.Duration
	// LeaveRoot says that the path that takes the place of the root is not made: for
	// those who only look, and may have mistyped it. Where it is missing nothing is
	// found below, and Exists of "/" is false.
	LeaveRoot bool
	// RequestTimeout bounds each request, beside its context. A connection over
	// which a request has waited that long is closed. Default: SessionTimeout.
	RequestTimeout time.Duration
	Logger         *slog.Logger // sessions and connections, never requests; nil: nothing is logged
}

// Check says what is wrong with c. Nothing is looked up or connected to.
func (c Config) Check() error {
	_, _, _, err := c.parse()
	return err
}

// parse returns c with the defaults, the addresses and the path for the root
// ("" for the root itself).
func (c Config) parse() (cfg Config, addrs []string, chroot string, err error) {
	setDefault(&c.SessionTimeout, DefaultSessionTimeout)
	setDefault(&c.ConnectTimeout, c.SessionTimeout)
	setDefault(&c.RequestTimeout, c.SessionTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.SessionTimeout < MinSessionTimeout || c.SessionTimeout > MaxSessionTimeout:
		return c, nil, "", fmt.Errorf("ZooKeeper session time-out %v: give %v to %v", c.SessionTimeout, MinSessionTimeout, MaxSessionTimeout)
	case c.ConnectTimeout < 0 || c.RequestTimeout < 0:
		return c, nil, "", errors.New("time-out of ZooKeeper is negative: give 0 for the default")
	}
	addrs, chroot, err = parseServers(c.Servers)
	if err != nil {
		return c, nil, "", fmt.Errorf("ZooKeeper servers %q: %w", c.Servers, err)
	}
	return c, addrs, chroot, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// parseServers takes a connection string apart.
func parseServers(servers string) (addrs []string, chroot string, err error) {
	hosts := servers
	if scheme, _, ok := strings.Cut(servers, "://"); ok && !strings.Contains(scheme, "/") {
		return nil, "", fmt.Errorf("give host:port or host:port/path, without %s:// before it", scheme)
	}
	if i := strings.IndexByte(servers, '/'); i >= 0 {
		hosts, chroot = servers[:i], servers[i:]
	}
	if strings.TrimSpace(hosts) == "" {
		return nil, "", errors.New("no server is named: give host:port,host:port or host:port/path")
	}
	if strings.Contains(chroot, ",") {
		return nil, "", errors.New("the path comes once, after the last server")
	}
	if chroot == "/" {
		chroot = ""
	}
	if chroot != "" {
		if err := checkPath(chroot); err != nil {
			return nil, "", err
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := parseAddr(strings.TrimSpace(host))
		if err != nil {
			return nil, "", err
		}
		addrs = append(addrs, addr)
	}
	return addrs, chroot, nil
}

// parseAddr returns host:port, with the default port if addr has none.
func parseAddr(addr string) (string, error) {
	host, port := addr, strconv.Itoa(DefaultPort)
	bracketed := strings.HasPrefix(addr, "[")
	switch {
	case bracketed && strings.HasSuffix(addr, "]"):
		host = addr[1 : len(addr)-1]
	case !bracketed && strings.Count(addr, ":") > 1:
		return "", fmt.Errorf("address %q: write an IPv6 address in brackets, as in [::1]:%d", addr, DefaultPort)
	case strings.Contains(addr, ":"):
		var err error
		if host, port, err = net.SplitHostPort(addr); err != nil {
			return "", fmt.Errorf("address %q: want host:port", addr)
		}
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n") {
		return "", fmt.Errorf("address %q has no host: want host:port", addr)
	}
	if bracketed && net.ParseIP(strings.SplitN(host, "%", 2)[0]).To16() == nil {
		return "", fmt.Errorf("address %q: %s is not an IPv6 address", addr, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("address %q: port %q is not a number from 1 to 65535", addr, port)
	}
	return net.JoinHostPort(host, port), nil
}
