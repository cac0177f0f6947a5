package broker_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// unflushed keeps the disk out of what is measured.
func unflushed(c *broker.Config) {
	c.Storage.FlushMessages, c.Storage.Visible = 0, storage.VisibleAppended
}

// maxPause is the longest that one client may wait because of another.
const maxPause = time.Second

// goodClient produces and fetches, one round after another, while others do
// what they like, and remembers the longest time that it had to wait.
type goodClient struct {
	stop   chan struct{}
	ended  sync.WaitGroup
	rounds int
	pause  time.Duration
	err    error
}

func startGoodClient(b *kafkatest.Broker, topic string, set []byte) *goodClient {
	g := &goodClient{stop: make(chan struct{})}
	g.ended.Go(func() { g.err = g.run(b.HostPort(), topic, set) })
	return g
}

func (g *goodClient) run(address, topic string, set []byte) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	for offset := int64(0); ; offset += int64(len(set)) {
		select {
		case <-g.stop:
			return nil
		default:
		}
		began := time.Now()
		c.SetDeadline(began.Add(patience))
		request := wire.AppendAckedProduce(nil, topic, 0, set, wire.AcksAppended, 20_000)
		request = wire.AppendFetch(request, wire.FetchEntry{Topic: topic, Offset: offset, MaxBytes: int32(len(set))})
		if _, err := c.Write(request); err != nil {
			return err
		}
		want := join(acksOf(0, offset, offset+int64(len(set))), answer(0, set))
		got := make([]byte, len(want))
		if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("answer %.100x, %v; want %.100x", got[:n], err, want)
		}
		g.pause = max(g.pause, time.Since(began))
		g.rounds++
	}
}

// end stops the client and returns its longest pause.
func (g *goodClient) end(t *testing.T) time.Duration {
	t.Helper()
	close(g.stop)
	g.ended.Wait()
	if g.err != nil || g.rounds == 0 {
		t.Fatalf("good client after %d rounds: %v", g.rounds, g.err)
	}
	return g.pause
}

// withoutPause runs what hostile clients do, with two good ones beside them, and
// wants no pause of theirs above the limit. A machine that is busy with other
// things can make one; a broker at fault makes one each time.
func withoutPause(t *testing.T, b *kafkatest.Broker, hostile func()) {
	t.Helper()
	withoutPauseOf(t, b, entry("of a good client"), hostile)
}

// withoutPauseOf does it with good clients that produce this set.
func withoutPauseOf(t *testing.T, b *kafkatest.Broker, set []byte, hostile func()) {
	t.Helper()
	const tries = 3
	var pauses []time.Duration
	for i := range tries {
		first, second := startGoodClient(b, fmt.Sprintf("first%d", i), set), startGoodClient(b, fmt.Sprintf("second%d", i), set)
		hostile()
		pause := max(first.end(t), second.end(t))
		if pause <= maxPause {
			return
		}
		pauses = append(pauses, pause)
	}
	t.Errorf("others had to wait %v in each of %d tries, at most %v is right", pauses, tries, maxPause)
}

// dialSmall connects with a small receive buffer, so that a peer which does not
// read soon stands in the way of what is sent to it.
func dialSmall(t testing.TB, b *kafkatest.Broker) *peer {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
		})
		return errors.Join(err, failed)
	}}
	conn, err := d.DialContext(t.Context(), "tcp", b.HostPort())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{conn.(*net.TCPConn), t}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestB06HostileBytes: bytes that are no request, or not a whole one, end their
// connection within the read time-out, claim no memory, are counted, and make
// nobody else wait.
func TestB06HostileBytes(t *testing.T) {
	b := kafkatest.Start(t, unflushed, withMetrics, func(c *broker.Config) { c.ReadTimeout = 300 * time.Millisecond })
	rnd := random(t)
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	noise[0] |= 0x40 // else it might be a length that is allowed
	const each = 20
	frames := [][]byte{ // refused for what they are
		unhex("00000000"), unhex("00000001"), unhex("ffffffff"), unhex("7fffffff"),
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		unhex("16030100a5010000a10303"),
		noise,
		unhex("00000100 0063 00000000"),
	}
	silent := [][]byte{ // good so far, and then silence
		unhex("06400000 0000"),
		unhex("06400000 0000 0001 61 0000"),
		unhex("0000"),
		produce("a", 0, bytes.Repeat(entryP, 1000))[:20_000],
	}
	withoutPause(t, b, func() {
		badFrames, timedOut := metric(t, b, "kafka_broker_bad_frames_total"), metric(t, b, "kafka_broker_connections_timed_out_total")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		most := 0.0
		for i, g := range append(frames[:len(frames):len(frames)], silent...) {
			var peers []*peer
			for range each {
				p := dial(t, b)
				p.SetDeadline(time.Now().Add(patience))
				p.Write(g) // the broker may have closed by the end of it
				peers = append(peers, p)
			}
			most = max(most, metric(t, b, "kafka_broker_request_memory_bytes"))
			for _, p := range peers {
				if got := p.rest(); len(got) != 0 {
					t.Errorf("answer %x to %.20x", got, g)
				}
				p.Close()
			}
			if n := metric(t, b, "kafka_broker_bad_frames_total") - badFrames; n != float64(min(i+1, len(frames))*each) {
				t.Errorf("%v bad frames are counted after %.20x, want %d", n, g, min(i+1, len(frames))*each)
			}
		}
		eventually(t, "the silent ones are counted as timed out", func() bool {
			return metric(t, b, "kafka_broker_connections_timed_out_total")-timedOut == float64(len(silent)*each)
		})
		runtime.ReadMemStats(&after)
		if grown := int64(after.Sys) - int64(before.Sys) + int64(most); grown > 16<<20 {
			t.Errorf("memory grew by %d bytes", grown)
		}
	})
}

// TestB06Dripping: a client that sends a request byte by byte keeps nobody else
// waiting, however many there are.
func TestB06Dripping(t *testing.T) {
	b := kafkatest.Start(t, unflushed)
	request := produce("dripped", 0, entryP)
	want := 0
	withoutPause(t, b, func() {
		want += 50 * len(entryP)
		var wg sync.WaitGroup
		for range 50 {
			p := dial(t, b)
			wg.Go(func() {
				for i := range request {
					if _, err := p.Write(request[i : i+1]); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
				}
				p.Close()
			})
		}
		wg.Wait()
	})
	eventually(t, "what was dripped is in the log", func() bool { return len(logOf(t, b, "dripped", 0)) == want })
}

// TestB06SlowLargeRequests: clients that are slow with large requests, but never
// stand still, are cut off when others want the memory that they hold, and make
// nobody else wait.
func TestB06SlowLargeRequests(t *testing.T) {
	const tick = 10 * time.Millisecond
	for _, row := range []struct {
		name        string
		memory      int64
		clients     int
		size, burst int // bytes of a slow request, and what is sent of it at once
		drip        int // bytes in a tick of the rest
		good        int // bytes of a good request
	}{
		{"20 KiB a second", 4 << 20, 4, 1_000_000, 70_000, 20 << 10 / 100, 300_000},
		{"a byte now and then", 4 << 20, 4, 1_000_000, 70_000, 1, 300_000},
		{"a third in two seconds", 4 << 20, 4, 1_000_000, 70_000, 1_600, 300_000},
		{"mappings", 32 << 20, 6, 20_000_000, 2_200_000, 20 << 10 / 100, 1_500_000},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := kafkatest.Start(t, unflushed, withMetrics, func(c *broker.Config) { c.MaxRequestMemoryBytes = row.memory })
			withoutPauseOf(t, b, setOf(row.good), func() {
				const evicted = "kafka_broker_request_memory_evicted_total"
				before := metric(t, b, evicted)
				request := ackedProduce("slow", 0, wire.AcksAppended, 0, setOf(row.size))
				var wg sync.WaitGroup
				defer wg.Wait()
				for range row.clients {
					p := dial(t, b)
					defer p.Close() // ends the goroutine
					wg.Go(func() {
						rest := request
						for n := row.burst; len(rest) > 0; n = row.drip {
							if _, err := p.Write(rest[:min(n, len(rest))]); err != nil {
								return
							}
							rest = rest[min(n, len(rest)):]
							time.Sleep(tick)
						}
					})
				}
				eventually(t, "slow clients are cut off", func() bool { return metric(t, b, evicted)-before >= 2 })
			})
			if n := metric(t, b, "kafka_broker_request_memory_refused_total"); n != 0 {
				t.Errorf("%v requests got no memory", n)
			}
		})
	}
}

// TestSlowAlone: who is slow while nobody waits for memory is served.
func TestSlowAlone(t *testing.T) {
	b := kafkatest.Start(t, unflushed, withMetrics, func(c *broker.Config) { c.MaxRequestMemoryBytes = 2 << 20 })
	p := dial(t, b)
	set := setOf(300_000)
	for rest := ackedProduce("alone", 0, wire.AcksAppended, 0, set); len(rest) > 0; rest = rest[min(2_000, len(rest)):] {
		p.send(rest[:min(2_000, len(rest))])
		time.Sleep(10 * time.Millisecond)
	}
	if got, want := p.read(22), acksOf(0, 0, int64(len(set))); !bytes.Equal(got, want) {
		t.Errorf("answer %x, want %x", got, want)
	}
	if n := metric(t, b, "kafka_broker_request_memory_evicted_total"); n != 0 {
		t.Errorf("%v connections are counted as cut off", n)
	}
}

// setOf returns a set of at least so many bytes, and little more.
func setOf(bytes int) (set []byte) {
	payload := make([]byte, 50_000-10)
	for len(set) < bytes {
		set = message.Append(set, payload)
	}
	return set
}

// TestB18StalledReaders: readers that stop in the middle of their answers keep
// nobody waiting, whichever way the bytes go, and are cut off after the write
// time-out.
func TestB18StalledReaders(t *testing.T) {
	for _, option := range []kafkatest.Option{func(*broker.Config) {}, copying} {
		b := kafkatest.Start(t, option, unflushed, withMetrics, func(c *broker.Config) {
			c.WriteTimeout = 500 * time.Millisecond
			c.SendBufferBytes = 64 << 10
		})
		all := fill(t, b, random(t), "a", 2<<20)
		cut := 0.0
		withoutPause(t, b, func() {
			var stalled []*peer
			for range 20 {
				p := dialSmall(t, b)
				p.send(fetch("a", 0, 0, 1<<20)) // and reads nothing
				stalled = append(stalled, p)
			}
			cut += float64(len(stalled))
			eventually(t, "the stalled connections are cut off", func() bool { return metric(t, b, "kafka_broker_connections_timed_out_total") == cut })
			for _, p := range stalled {
				if got := p.rest(); len(got) >= 1<<20 || len(got) < 6 || !bytes.HasPrefix(all, got[6:]) {
					t.Errorf("a stalled reader got %d bytes of its answer, or others: it did not stall", len(got))
				}
				p.Close()
			}
		})
	}
}

// TestB18StoppedAckReader: a producer that asks for acknowledgements and reads
// none keeps nobody waiting and is cut off, whatever it goes on sending.
func TestB18StoppedAckReader(t *testing.T) {
	b := kafkatest.Start(t, unflushed, withMetrics, func(c *broker.Config) {
		c.WriteTimeout = 300 * time.Millisecond
		c.SendBufferBytes = 16 << 10
	})
	cut := 0.0
	withoutPause(t, b, func() {
		p := dialSmall(t, b)
		p.SetWriteDeadline(time.Now().Add(patience))
		requests := bytes.Repeat(ackedProduce("acked", 0, wire.AcksAppended, 0, entryP), 10_000)
		for err := error(nil); err == nil; {
			_, err = p.Write(requests) // until it is cut off
		}
		cut++
		eventually(t, "it is counted", func() bool { return metric(t, b, "kafka_broker_connections_timed_out_total") == cut })
	})
}
