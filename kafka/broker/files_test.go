package broker_test

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
)

// TestB05FewFiles: with hardly any descriptors left the broker refuses
// connections without spinning, touches no data, and goes on when there are
// some again. It runs in a process of its own, whose limit it can lower.
func TestB05FewFiles(t *testing.T) {
	const inner = "KAFKALAB_TEST_FEW_FILES"
	if os.Getenv(inner) == "" {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestB05FewFiles$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), inner+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}

	var log sharedBuffer
	b := kafkatest.Start(t, withMetrics, func(c *broker.Config) {
		c.Storage.DefaultPartitions = 20
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	p := dial(t, b)
	for partition := range int32(20) {
		p.send(produce("a", partition, entryP))
	}
	p.barrier()
	before := listing(t, filepath.Join(b.Config.LogDir, "a-0"))
	// The clients have their descriptors; the broker finds five for them all.
	address := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: b.Addr().(*net.TCPAddr).Port}
	var clients []int
	for range 30 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, fd)
	}
	lowerFileLimit(t, 5)
	for _, fd := range clients {
		if err := unix.Connect(fd, address); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the broker meets the limit", func() bool { return strings.Contains(log.String(), "connection not accepted") })
	p.send(produce("a", 0, entrySecond))
	p.barrier() // who is in is served
	for _, fd := range clients {
		unix.Close(fd)
	}
	dial(t, b).barrier() // who waited is served
	if n := metric(t, b, "kafka_broker_accept_errors_total"); n > 50 {
		t.Errorf("%v attempts to accept failed: it spins", n)
	}
	for partition := range int32(20) {
		want := entryP
		if partition == 0 {
			want = join(entryP, entrySecond)
		}
		if got := logOf(t, b, "a", partition); !bytes.Equal(got, want) {
			t.Errorf("partition %d is %x, want %x", partition, got, want)
		}
	}
	if after := listing(t, filepath.Join(b.Config.LogDir, "a-0")); bytes.Count(after, []byte("\n")) != bytes.Count(before, []byte("\n")) {
		t.Errorf("files of partition 0 are now\n%s, before\n%s", after, before)
	}
}

// lowerFileLimit leaves this process n more descriptors.
func lowerFileLimit(t *testing.T, n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = uint64(len(entries) - 1 + n) // one was for reading the folder
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}

// sharedBuffer is a log that one goroutine writes and another reads.
type sharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sharedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
