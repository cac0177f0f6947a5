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
	"kafkalab/kafka/wire"
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

// TestB05FilesOfAnAnswer: an answer holds no more closed segments than may be
// open; the other entries come as empty sets, and first in the answers that
// follow, so that all come to their turn. A WaitFetch does not wait then.
func TestB05FilesOfAnAnswer(t *testing.T) {
	const segments, room = 20, 3
	b := kafkatest.Start(t, func(c *broker.Config) {
		c.Storage.SegmentBytes, c.Storage.OpenSegments = 1, room
	})
	p := dial(t, b)
	var all []byte
	for i := range segments {
		p.send(produce("a", 0, entry(string(rune('a'+i)))))
		p.barrier()
		all = append(all, entry(string(rune('a'+i)))...)
	}
	const size = 10
	for _, wait := range []bool{false, true} {
		var entries []wire.FetchEntry
		for i := range segments {
			entries = append(entries, wire.FetchEntry{Topic: "a", Offset: int64(i * size), MaxBytes: size})
		}
		got := map[int64]bool{}
		for round := 1; len(entries) > 0; round++ {
			if round > segments/room+1 {
				t.Fatalf("wait %v: %d entries are left in round %d", wait, len(entries), round)
			}
			if wait {
				p.send(wire.AppendWaitFetch(nil, entries, 30_000, segments*size))
			} else {
				p.send(wire.AppendMultiFetch(nil, entries))
			}
			code, payload := p.answer()
			results, err := wire.ParseFetchResults(nil, payload, len(entries))
			if code != wire.CodeNone || err != nil {
				t.Fatal(code, err)
			}
			var left []wire.FetchEntry
			for i, r := range results {
				at := entries[i].Offset
				switch {
				case r.Code == wire.CodeNone && len(r.Set) == 0:
					left = append(left, entries[i])
				case r.Code != wire.CodeNone || !bytes.Equal(r.Set, all[at:at+size]):
					t.Fatalf("offset %d: %v %x", at, r.Code, r.Set)
				default:
					got[at] = true
				}
			}
			if len(entries)-len(left) > room+1 { // and the active one
				t.Errorf("wait %v: an answer from %d segments", wait, len(entries)-len(left))
			}
			entries = left
		}
		if len(got) != segments {
			t.Errorf("wait %v: %d segments came", wait, len(got))
		}
	}
	// Of those that ask for all each time, none is forgotten.
	var entries []wire.FetchEntry
	for i := range segments {
		entries = append(entries, wire.FetchEntry{Topic: "a", Offset: int64(i * size), MaxBytes: size})
	}
	got := map[int]bool{}
	for range segments/room + 1 {
		p.send(wire.AppendMultiFetch(nil, entries))
		_, payload := p.answer()
		results, err := wire.ParseFetchResults(nil, payload, len(entries))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			got[i] = got[i] || len(r.Set) == size
		}
	}
	for i := range segments {
		if !got[i] {
			t.Errorf("entry %d never came", i)
		}
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
