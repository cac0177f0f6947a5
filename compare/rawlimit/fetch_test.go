package rawlimit

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
)

func dialFetching(t *testing.T, addr string, path Path, bytes int) driver.Client {
	t.Helper()
	c, err := New().Connect(t.Context(), driver.Target{Addr: addr}, driver.Options{"path": string(path), "fetch-bytes": strconv.Itoa(bytes)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	return c
}

// What is fetched in parts, which cut messages anywhere, is what was sent; and
// a fetch at the end of the queue waits for what comes.
func TestFetches(t *testing.T) {
	for _, path := range []Path{PathFile, PathDisk} {
		addr, _ := serve(t, path)
		c := dial(t, addr, path)
		p := send(t, c, "q", 3, 0, 20_000, 200)
		waitArrived(t, c, "q", 20_000)
		for _, bytes := range []int{minFetchBytes, 200 << 10, maxFetchBytes} {
			f, err := dialFetching(t, addr, path, bytes).Consumer(t.Context(), "q")
			if err != nil {
				t.Fatal(err)
			}
			receive(t, f, 3, 20_000)
			// Nothing more is there, and a Receive that is given up spoils nothing.
			short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			if err := f.Receive(short, func([]byte) error { return nil }); err == nil {
				t.Errorf("path %s: more than was sent", path)
			}
			cancel()
			if bytes == maxFetchBytes {
				sendOne(t, p, 3, 20_000)
				n := 0
				if err := f.Receive(t.Context(), func([]byte) error { n++; return nil }); err != nil || n != 1 {
					t.Errorf("path %s: %d more messages, %v", path, n, err)
				}
			}
		}
	}
}

// Fetches that are asked for ahead and do not join, since the queue ended before
// them, cost nothing that was sent: neither a message nor a wait.
func TestFetchesAhead(t *testing.T) {
	for _, outstanding := range []int{2, fetchesAhead} {
		addr, _ := serve(t, PathFile)
		c := dial(t, addr, PathFile)
		p := send(t, c, "q", 3, 0, 20_000, 200)
		waitArrived(t, c, "q", 20_000)
		for _, bytes := range []int{minFetchBytes, 200 << 10} {
			fetching, err := New().Connect(t.Context(), driver.Target{Addr: addr},
				driver.Options{"path": "file", "fetch-bytes": strconv.Itoa(bytes), "outstanding": strconv.Itoa(outstanding)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fetching.Close(context.WithoutCancel(t.Context())) })
			f, err := fetching.Consumer(t.Context(), "q")
			if err != nil {
				t.Fatal(err)
			}
			receive(t, f, 3, 20_000)
			if bytes == minFetchBytes {
				continue
			}
			// The log grows by one message, then by more than several fetches.
			sendOne(t, p, 3, 20_000)
			waitArrived(t, c, "q", 20_001)
			n := 0
			count := func([]byte) error { n++; return nil }
			if err := f.Receive(t.Context(), count); err != nil || n != 1 {
				t.Errorf("%d more messages, %v", n, err)
			}
			for i := range 5_000 {
				if err := p.Send(t.Context(), generator(t, 3, uint64(20_001+i), 200).Next()); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			for n < 5_001 {
				if err := f.Receive(t.Context(), count); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := New().Connect(t.Context(), driver.Target{Addr: "127.0.0.1:1"}, driver.Options{"path": "file", "outstanding": "2"}); err == nil || !strings.Contains(err.Error(), "fetch-bytes") {
		t.Errorf("outstanding fetches without a size: %v", err)
	}
}

func sendOne(t *testing.T, p driver.Producer, runID, sequence uint64) {
	t.Helper()
	if err := p.Send(t.Context(), generator(t, runID, sequence, 200).Next()); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFetchRefusals(t *testing.T) {
	addr, _ := serve(t, PathFile)
	for name, c := range map[string]struct {
		place uint64
		bytes uint32
		times int
		want  string
	}{
		"too few":   {0, minFetchBytes - 1, 1, "fetch of 1023 bytes"},
		"too many":  {0, maxFetchBytes + 1, 1, "fetch of"},
		"too far":   {1 << 63, 4096, 1, "fetch of 4096 bytes at"},
		"too eager": {0, 4096, fetchesAhead + 3, "fetches are unanswered"},
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(conn, `{"op":"fetch","queue":"none"}`)
		var b [fetchRequestBytes]byte
		binary.BigEndian.PutUint64(b[:], c.place)
		binary.BigEndian.PutUint32(b[8:], c.bytes)
		for range c.times {
			if _, err := conn.Write(b[:]); err != nil {
				break // it was refused already
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(said), `{"messages":0}`) || !strings.Contains(string(said), c.want) {
			t.Errorf("%s: the server said %q", name, said)
		}
		conn.Close()
	}
	// With paths that store nothing there is nothing to fetch.
	for _, path := range []Path{PathTCP, PathPing} {
		if _, err := New().Connect(t.Context(), driver.Target{Addr: addr}, driver.Options{"path": string(path), "fetch-bytes": "4096"}); err == nil || !strings.Contains(err.Error(), "fetch-bytes") {
			t.Errorf("path %s: %v", path, err)
		}
	}
	if _, err := New().Connect(t.Context(), driver.Target{Addr: addr}, driver.Options{"path": "file", "fetch-bytes": "5"}); err == nil {
		t.Error("fetches of 5 bytes are taken")
	}
	if err := Serve(t.Context(), ServerConfig{Listen: "127.0.0.1:0", Path: PathTCP, FlushMessages: 1}, nil); err == nil {
		t.Error("path tcp is to be flushed")
	}
}

// Messages that ask for a flush are flushed, beside what is coming.
func TestFlushMessages(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{cfg: ServerConfig{Path: PathFile, FlushMessages: 10}, ctx: ctx, queues: map[string]*queue{}, due: make(chan *queue, maxQueues)}
	s.cfg.Dir = t.TempDir()
	q, err := s.queue("q")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.begin(request{PayloadBytes: 200}); err != nil {
		t.Fatal(err)
	}
	s.conns.Go(s.flushMessages)
	defer func() { cancel(); s.conns.Wait(); q.close() }()
	if err := s.forward(q, make([]byte, 9*209)); err != nil {
		t.Fatal(err)
	}
	if len(s.due) != 0 {
		t.Error("nine messages asked for a flush")
	}
	if err := s.forward(q, make([]byte, 209)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		q.mu.Lock()
		synced, due := q.synced, q.due
		q.mu.Unlock()
		if synced == 2090 && !due {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are flushed", synced)
		}
		time.Sleep(time.Millisecond)
	}
}
