package kafka

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
)

// The test program is its own helper process, as the testbed program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "helper" {
		if err := New().(driver.Helper).Help(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// built is the folder with the program "kafka", which all tests share.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// build builds the program "kafka", once.
func build(t *testing.T) (binDir string) {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "kafka-driver"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", filepath.Join(built.dir, "kafka"), "kafkalab/kafka/cmd/kafka").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
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
				{"batch": "1", "acks": "appended", "answers": "each"},
				{"batch": "70", "linger": "10ms"},
				{"batch": "7", "compression": "snappy"},
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

// Messages in several partitions come back in the order in which they were sent,
// are counted together, and lie in all of them.
func TestPartitionsInTurns(t *testing.T) {
	const partitions, batch, messages = 4, 3, 1000 // the last round is not full, nor the last batch
	o := driver.Options{"partitions": "4", "batch": "3", "flush-interval": "5ms"}
	c := startClient(t, o)
	p, err := c.Producer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if err := p.Send(t.Context(), fmt.Appendf(nil, "%010d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Arrived(t.Context(), "q"); err != nil || n != messages {
		t.Errorf("Arrived = %d, %v, want %d", n, err, messages)
	}
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	consumer, err := c.Consumer(limit, "q")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < messages; {
		err := consumer.Receive(limit, func(payload []byte) error {
			if want := fmt.Sprintf("%010d", n); string(payload) != want {
				return fmt.Errorf("message %q, want %q", payload, want)
			}
			n++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := consumer.Receive(short, func([]byte) error { return nil }); err == nil {
		t.Error("more came than was sent")
	}
	ask, err := c.(*conn).askConn(t.Context()) // made anew: the last question was broken off
	if err != nil {
		t.Fatal(err)
	}
	states, err := ask.Topics(t.Context(), "q")
	if err != nil || len(states) != partitions {
		t.Fatalf("%d partitions, %v", len(states), err)
	}
	const round = partitions * batch
	for _, s := range states {
		want := int64(messages/round*batch) * 19
		if rest := int64(messages%round) - int64(s.Partition)*batch; rest > 0 {
			want += min(rest, batch) * 19
		}
		if s.LogEnd != want {
			t.Errorf("partition %d ends at %d, want %d", s.Partition, s.LogEnd, want)
		}
	}
}

// client starts a broker and connects to it.
func startClient(t *testing.T, o driver.Options) driver.Client {
	t.Helper()
	s := startServer(t, openHost(t), o)
	limit, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel)
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
	p, err := c.Producer(t.Context(), "small")
	if err != nil {
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
		{driver.Options{"cleanup-interval": "0"}, "at least 1ms"},
		{driver.Options{"linger": "1s"}, "give batch too"},
		{driver.Options{"linger": "0", "batch": "2"}, "at least 1ms"},
		{driver.Options{"answers": "each"}, "it does nothing with acks"},
		{driver.Options{"acks": "received", "batch": "2", "answers": "each"}, "it is for batch = 1"},
		{driver.Options{"compression": "gzip", "acks": "flushed"}, "goes with acks"},
		{driver.Options{"compression": "lzma"}, `compression = "lzma"`},
		{driver.Options{"partitions": "4", "acks": "received"}, "option partitions = 4"},
		{driver.Options{"pace": "4"}, "give brokers = 2 or more"},
		{driver.Options{"brokers": "5"}, `brokers = "5"`},
		{driver.Options{"brokers": "2", "session-timeout": "2m"}, "from 100ms to 1m0s"},
		{driver.Options{"brokers": "2", "quiet": "0"}, "option quiet"},
		{driver.Options{"brokers": "2", "commit-interval": "1ms"}, "option commit-interval"},
	} {
		if _, err := New().Connect(t.Context(), driver.Target{Addr: "127.0.0.1:1"}, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want an error with %q", tt.o, err, tt.want)
		}
	}
}

// The table must show what an option changes.
func TestSettingsFollowOptions(t *testing.T) {
	drivertest.SettingsFollow(t, New(), nil, [][2]driver.Options{
		{nil, {"batch": "50"}},
		{nil, {"socket": "plain"}},
		{nil, {"acks": "flushed"}},
		{{"acks": "flushed"}, {"acks": "flushed", "answers": "each"}},
		{nil, {"fetch-bytes": "2048"}},
		{nil, {"flush-interval": "3s"}},
		{nil, {"flush-messages": "10000"}},
		{nil, {"visible": "appended"}},
		{nil, {"sendfile": "off"}},
		{nil, {"segment-size": "1000000"}},
		{nil, {"retention": "0"}},
		{nil, {"retention-size": "4096"}},
		{nil, {"cleanup-interval": "1s"}},
		{nil, {"compression": "snappy"}},
		{{"batch": "50"}, {"batch": "50", "linger": "10ms"}},
		{nil, {"partitions": "3"}},
		{nil, {"brokers": "2"}},
		{{"brokers": "2"}, {"brokers": "2", "partitions": "3"}},
		{{"brokers": "2"}, {"brokers": "2", "zookeeper": "real"}},
		{{"brokers": "2"}, {"brokers": "2", "session-timeout": "1s"}},
		{{"brokers": "2"}, {"brokers": "2", "commit-interval": "1s"}},
		{{"brokers": "2"}, {"brokers": "2", "quiet": "1s"}},
		{{"brokers": "2"}, {"brokers": "2", "pace": "7"}},
	})
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
