package kafka

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
)

// openHost opens this machine as a host that ends with the test.
func openHost(t *testing.T) host.Host {
	t.Helper()
	return hosttest.Local(t, build(t))
}

func startServer(t *testing.T, h host.Host, o driver.Options) driver.Server {
	t.Helper()
	s, err := New().Start(t.Context(), h, h.Dir()+"/server", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// send sends so many messages over a connection of its own and returns what
// was promised of them.
func send(t *testing.T, s driver.Server, o driver.Options, messages int) int64 {
	t.Helper()
	c, err := New().Connect(t.Context(), s.Target(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	p, err := c.Producer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	for range messages {
		if err := p.Send(t.Context(), make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if promiser, ok := p.(driver.Promiser); ok {
		return promiser.Promised()
	}
	return 0
}

func arrived(t *testing.T, s driver.Server) int64 {
	t.Helper()
	c, err := New().Connect(t.Context(), s.Target(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	n, err := c.Arrived(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A broker that is shut down or killed comes back at the same address with what
// it had.
func TestBrokerRestarts(t *testing.T) {
	h := openHost(t)
	s := startServer(t, h, nil)
	if n := send(t, s, nil, 500); n != 0 {
		t.Errorf("%d messages promised without acks", n)
	}
	restarter := s.(driver.Restarter)
	want, addr := int64(500), s.Target().Addr
	for _, end := range []func(context.Context) error{restarter.Shut, restarter.Kill} {
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := New().Connect(t.Context(), s.Target(), nil); err == nil {
			t.Error("it can be reached while it is down")
		}
		if err := restarter.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Target().Addr != addr {
			t.Errorf("it was at %s and is at %s", addr, s.Target().Addr)
		}
		if n := arrived(t, s); n != want {
			t.Errorf("%d messages after the restart, %d were there", n, want)
		}
		if n := send(t, s, driver.Options{"batch": "7", "acks": "appended"}, 100); n != 100 {
			t.Errorf("%d of 100 messages promised", n)
		}
		want += 100
	}
	select {
	case <-s.Died():
		t.Error("it is said to have died")
	default:
	}
}

// The metrics show the garbage collector's processor time.
func TestMetrics(t *testing.T) {
	s := startServer(t, openHost(t), nil)
	response, err := http.Get(s.(driver.MetricsServer).MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), "go_gc_duration_seconds") {
		t.Errorf("status %s, %d bytes, %v", response.Status, len(text), err)
	}
}

// Every file of the store is of a part.
func TestStoreParts(t *testing.T) {
	h := openHost(t)
	s := startServer(t, h, driver.Options{"segment-size": "10000"})
	for range 5 { // each flush makes a group of its own, after which the file may be full
		send(t, s, nil, 60)
	}
	out, err := h.Run(t.Context(), "find", s.StoreDir(), "-type", "f", "-printf", `%P\n`)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]int{}
	for _, file := range strings.Fields(string(out)) {
		parts[partOf(t, s.(driver.StoreSplitter), file)]++
	}
	if parts["log"] < 4 || parts["other"] > 0 {
		t.Errorf("files of parts: %v; at least 4 segments are wanted, and nothing else unknown: %q", parts, out)
	}
}

func partOf(t *testing.T, s driver.StoreSplitter, file string) string {
	t.Helper()
	for _, part := range s.StoreParts() {
		for _, glob := range part.Globs {
			if ok, err := path.Match(glob, file); err != nil {
				t.Fatal(err)
			} else if ok {
				return part.Name
			}
		}
	}
	return "other"
}

// Everybody reads the one log.
func TestFanOut(t *testing.T) {
	c := startClient(t, nil)
	queues, err := c.(driver.FanOut).FanOut(t.Context(), "q", 3)
	if err != nil || len(queues) != 3 || queues[0] != "q" || queues[2] != "q" {
		t.Errorf("%q, %v", queues, err)
	}
	if _, err := c.(driver.FanOut).FanOut(t.Context(), "q", 1); err == nil {
		t.Error("one group is no fan-out")
	}
}
