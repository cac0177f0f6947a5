package kafka

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// build builds the program "kafka" into a folder of the test.
func build(t *testing.T) (binDir string) {
	t.Helper()
	binDir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(binDir, "kafka"), "kafkalab/kafka/cmd/kafka")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binDir
}

// The contract, against the real broker.
func TestContract(t *testing.T) {
	binDir := build(t)
	t.Run("Paper", func(t *testing.T) {
		drivertest.Run(t, drivertest.Config{
			Driver: New(), BinDir: binDir,
			Options: driver.Options{"flush-interval": "20ms"},
			ClientOptions: []driver.Options{
				{"batch": "50"},
				{"socket": "plain"},
				{"batch": "50", "socket": "plain"},
				{"batch": "7", "acks": "received"},
				{"batch": "7", "acks": "appended", "fetch-bytes": "1024"},
				{"batch": "1", "acks": "flushed"},
			},
			Messages: 3000,
		})
	})
	t.Run("Appended", func(t *testing.T) {
		drivertest.Run(t, drivertest.Config{
			Driver: New(), BinDir: binDir,
			Options:  driver.Options{"visible": "appended", "sendfile": "off", "flush-interval": "0", "batch": "50"},
			Messages: 3000,
		})
	})
}

// client starts a broker and connects to it.
func startClient(t *testing.T, o driver.Options) driver.Client {
	t.Helper()
	h, err := host.Open(t.Context(), host.Config{Name: "local", Kind: host.Local, Dir: t.TempDir(), BinDir: build(t)})
	if err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(func() {
		defer cancel()
		if err := h.Close(limit); err != nil {
			t.Error(err)
		}
	})
	s, err := New().Start(limit, h, h.Dir()+"/server", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(limit); err != nil {
			t.Error(err)
		}
	})
	c, err := New().Connect(limit, s.Target(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(limit) }) // some tests leave messages unsent
	return c
}

// Messages are counted by their size, so it must be one.
func TestSizes(t *testing.T) {
	c := startClient(t, driver.Options{"batch": "6000", "visible": "appended"})
	if n, err := c.Arrived(t.Context(), "q"); err != nil || n != 0 {
		t.Errorf("Arrived before the first message = %d, %v", n, err)
	}
	p, err := c.Producer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Send(t.Context(), make([]byte, 200)); err == nil || !strings.Contains(err.Error(), "lower the option batch") {
		t.Errorf("a batch larger than the buffer: %v", err)
	}
	if p, err = c.Producer(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	if err := p.Send(t.Context(), make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 99, 101} {
		if err := p.Send(t.Context(), make([]byte, n)); err == nil || !strings.Contains(err.Error(), `queue "small", whose payloads have 100`) {
			t.Errorf("%d bytes after 100: %v", n, err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Arrived(t.Context(), "small"); err != nil || n != 1 {
		t.Errorf("Arrived = %d, %v; want 1", n, err)
	}
	// NetDB'11 §5: 9 bytes of overhead a message.
	if n := c.(driver.WireBytes).StoredSize(200); n != 209 {
		t.Errorf("StoredSize(200) = %d, want 209", n)
	}
}

func TestSendAllocatesNothing(t *testing.T) {
	for _, o := range []driver.Options{{"batch": "1"}, {"batch": "50"}} {
		c := startClient(t, o)
		p, err := c.Producer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, 200)
		send := func() {
			if err := p.Send(t.Context(), payload); err != nil {
				t.Fatal(err)
			}
		}
		for range 50_000 { // buffers grow
			send()
		}
		if n := testing.AllocsPerRun(20_000, send); n != 0 {
			t.Errorf("%v: %v allocations a message", o, n)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		o    driver.Options
		want string // in the error
	}{
		{driver.Options{"batch": "0"}, `batch = "0"`},
		{driver.Options{"acks": "all"}, `acks = "all"`},
		{driver.Options{"socket": "off"}, `socket = "off"`},
		{driver.Options{"fetch-bytes": "10"}, `fetch-bytes = "10"`},
		{driver.Options{"flush-interval": "0"}, "nothing would become visible"},
	} {
		if _, err := New().Connect(t.Context(), driver.Target{Addr: "127.0.0.1:1"}, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want an error with %q", tt.o, err, tt.want)
		}
	}
}

// The table must show what an option changes.
func TestSettingsFollowOptions(t *testing.T) {
	plain, err := New().Settings(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]driver.Options{
		"batch": {"batch": "50"}, "socket": {"socket": "plain"}, "acks": {"acks": "flushed"}, "fetch-bytes": {"fetch-bytes": "2048"},
		"flush-interval": {"flush-interval": "3s"}, "flush-messages": {"flush-messages": "10000"}, "visible": {"visible": "appended"}, "sendfile": {"sendfile": "off"},
	} {
		rows, err := New().Settings(t.Context(), nil, o)
		if err != nil {
			t.Fatal(err)
		}
		changed := false
		for i := range rows {
			changed = changed || rows[i] != plain[i]
		}
		if !changed {
			t.Errorf("option %s is not in the table", name)
		}
	}
}

func TestListenAddr(t *testing.T) {
	const line = `time=2026-01-01T00:00:00Z level=INFO msg="broker started" broker_id=0 listen=10.0.0.1:4711 log_dir="a listen=x" visible=flushed`
	if addr, ok := listenAddr(line); !ok || addr != "10.0.0.1:4711" {
		t.Errorf("address %q, %v", addr, ok)
	}
	for _, other := range []string{"", `level=WARN msg="listen=1.2.3.4:5"`} {
		if addr, ok := listenAddr(other); ok {
			t.Errorf("%q: address %q", other, addr)
		}
	}
}
