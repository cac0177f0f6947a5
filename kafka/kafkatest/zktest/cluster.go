package zktest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Kind says what serves.
type Kind int

const (
	Embedded Kind = iota // kafka/zkserver in the process of the test
	Real                 // one node of ZooKeeper
	Ensemble             // three nodes of ZooKeeper
)

func (k Kind) String() string { return [...]string{"embedded", "real", "ensemble"}[k] }

// settings are what options change.
type settings struct {
	tick, minTimeout, maxTimeout time.Duration
	chroot                       string
}

func defaultSettings() settings {
	return settings{tick: 200 * time.Millisecond, minTimeout: 400 * time.Millisecond, maxTimeout: time.Minute}
}

// Option changes how servers are started.
type Option func(*settings)

// Tick sets the tick, 200 ms without it. A session ends up to one tick after its
// time-out.
func Tick(d time.Duration) Option { return func(s *settings) { s.tick = d } }

// SessionTimeouts sets the bounds of session time-outs, both inclusive; without it
// they are 400 ms and one minute.
func SessionTimeouts(least, most time.Duration) Option {
	return func(s *settings) { s.minTimeout, s.maxTimeout = least, most }
}

// Chroot makes a node, such as "/kafka/a", and connection strings end in it.
func Chroot(path string) Option { return func(s *settings) { s.chroot = path } }

// Cluster is one server or an ensemble, and a line to it. Methods that break or
// stop something end the test if that fails, so they are for the goroutine of the
// test. Stop and start are not for a shared cluster.
type Cluster struct {
	*Line
	Kind Kind

	t       testing.TB
	servers *servers
	shared  bool
}

// Start starts a cluster that is stopped at the end of the test; it serves when
// Start returns. If the test fails, the end of each server's log is in its
// output. Without a real ZooKeeper on this machine the test is skipped, in CI it
// fails.
func Start(t testing.TB, kind Kind, options ...Option) *Cluster {
	t.Helper()
	if kind != Embedded {
		NeedReal(t)
	}
	s := defaultSettings()
	for _, o := range options {
		o(&s)
	}
	v, err := startServers(kind, t.TempDir(), s)
	if err != nil {
		t.Fatalf("start ZooKeeper (%v): %v", kind, err)
	}
	t.Cleanup(func() {
		if err := v.close(); err != nil {
			t.Errorf("end of ZooKeeper (%v): %v", kind, err)
		}
		if t.Failed() {
			t.Logf("ZooKeeper (%v): %s", kind, v.logs())
		}
	})
	c := &Cluster{Kind: kind, t: t, servers: v}
	c.open(s.chroot)
	return c
}

// Each runs a test on an embedded server and on a real one, each its own.
func Each(t *testing.T, f func(t *testing.T, c *Cluster)) {
	for _, kind := range []Kind{Embedded, Real} {
		t.Run(kind.String(), func(t *testing.T) { f(t, Start(t, kind)) })
	}
}

// EachShared runs a test on the shared embedded server and on the shared real
// one; see Shared.
func EachShared(t *testing.T, f func(t *testing.T, c *Cluster)) {
	for _, kind := range []Kind{Embedded, Real} {
		t.Run(kind.String(), func(t *testing.T) { f(t, Shared(t, kind)) })
	}
}

// open makes the cluster's line, and the chroot.
func (c *Cluster) open(chroot string) {
	c.t.Helper()
	c.Line = c.newLine(chroot)
	if chroot != "" {
		if err := MakePath(c.servers.addrs(true)[0], chroot); err != nil {
			c.t.Fatalf("make the chroot: %v", err)
		}
	}
}

func (c *Cluster) newLine(chroot string) *Line {
	c.t.Helper()
	l, err := c.servers.addLine()
	if err != nil {
		c.t.Fatalf("proxies: %v", err)
	}
	l.chroot = chroot
	l.fail = func(err error) { c.t.Helper(); c.t.Fatal(err) }
	c.t.Cleanup(func() {
		if err := c.servers.removeLine(l); err != nil {
			c.t.Errorf("proxies: %v", err)
		}
	})
	return l
}

// NewLine makes another way to the same servers and the same chroot, for a client
// that is to be cut off while others are not. It ends with the test.
func (c *Cluster) NewLine() *Line {
	c.t.Helper()
	return c.newLine(c.chroot)
}

// Direct returns the connection string without the proxies, for looking at nodes.
func (c *Cluster) Direct() string { return strings.Join(c.servers.addrs(false), ",") + c.chroot }

// Root returns the chroot, or nothing if there is none. Who does not speak through
// the connection string puts it before each path.
func (c *Cluster) Root() string { return c.chroot }

// Addr returns the address of a server, without its proxy.
func (c *Cluster) Addr(i int) string { return c.servers.addrs(false)[i] }

// Size returns how many servers there are.
func (c *Cluster) Size() int { return len(c.proxies) }

// own makes sure that nobody else uses the servers.
func (c *Cluster) own() {
	c.t.Helper()
	if c.shared {
		c.t.Fatal("the servers of a shared cluster cannot be stopped: take one from Start")
	}
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends a server at once: a real one by signal 9, an embedded one by Close, as
// it lives in the process of the test. New connections to it are refused. Its
// data is kept.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	c.own()
	c.must(c.servers.end(i, node.kill))
}

// Restart starts a server that was killed, or stops one that runs and starts it
// again, and waits until it serves. In an ensemble without a majority nothing
// serves and it does not wait.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.own()
	c.must(c.servers.end(i, node.stop))
	c.must(c.servers.startOne(i))
}

// Stop stops all servers as their user would. Data is kept.
func (c *Cluster) Stop() {
	c.t.Helper()
	c.own()
	var errs []error
	for i := range c.proxies {
		errs = append(errs, c.servers.end(i, node.stop))
	}
	c.must(errors.Join(errs...))
}

// StartAgain starts all servers that do not run, and waits until they serve.
func (c *Cluster) StartAgain() {
	c.t.Helper()
	c.own()
	c.must(c.servers.startAll())
}

// Leader returns the server that leads an ensemble, 0 for a single one. It waits
// until there is one.
func (c *Cluster) Leader() int {
	c.t.Helper()
	if c.Size() == 1 {
		return 0
	}
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if i := slices.IndexFunc(c.servers.addrs(false), func(addr string) bool { return mode(addr) == "leader" }); i >= 0 {
			return i
		}
	}
	c.t.Fatalf("no leader within %v", startLimit)
	return 0
}
