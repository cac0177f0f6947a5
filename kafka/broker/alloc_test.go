package broker

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// exchanges are requests with the size of their answers.
func exchanges() map[string]struct {
	request []byte
	answer  int
} {
	set := []byte{}
	for i := range 50 {
		set = message.Append(set, fmt.Appendf(nil, "message number %d", i))
	}
	produce := wire.AppendProduce(nil, "topic", 0, set)
	small := []byte{}
	for range 100 {
		small = wire.AppendProduce(small, "topic", -1, ackedSet)
	}
	entry := wire.FetchEntry{Topic: "topic", MaxBytes: int32(len(set))}
	return map[string]struct {
		request []byte
		answer  int
	}{
		"Produce":            {produce, 0},
		"Produce × 100":      {small, 0},
		"MultiProduce":       {wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic", Set: set}, {Topic: "topic", Set: set}}), 0},
		"AckedProduce":       {wire.AppendAckedProduce(nil, "topic", 0, set, wire.AcksAppended, 0), 6 + 16},
		"Fetch":              {wire.AppendFetch(nil, entry), 6 + len(set)},
		"Fetch, empty":       {wire.AppendFetch(nil, wire.FetchEntry{Topic: "topic"}), 6},
		"MultiFetch":         {wire.AppendMultiFetch(nil, []wire.FetchEntry{entry, entry}), 6 + 2*(6+len(set))},
		"WaitFetch, at hand": {wire.AppendWaitFetch(nil, []wire.FetchEntry{entry}, 1000, 1), 6 + 6 + len(set)},
	}
}

// TestNoAllocations: once a connection is warm, neither a produce nor a fetch
// request allocates, whichever way the bytes go.
func TestNoAllocations(t *testing.T) {
	for _, sendfile := range []bool{true, false} {
		srv := memoryBroker(t, func(c *Config) {
			c.Storage.FS, c.LogDir = vfs.OS(), t.TempDir()
			c.Storage.DefaultPartitions = 1
			c.Sendfile = sendfile
		})
		if err := srv.logs.CreateTopic("topic", 2); err != nil {
			t.Fatal(err)
		}
		for name, x := range exchanges() {
			c, client := newPair(t, srv)
			answer := make([]byte, x.answer)
			// The log has something to fetch.
			exchange(t, c, client, exchanges()["Produce"].request, nil)
			if n := testing.AllocsPerRun(50, func() { exchange(t, c, client, x.request, answer) }); n != 0 {
				t.Errorf("%s, sendfile %v: %v allocations", name, sendfile, n)
			}
			c.close()
			c.in.release()
			client.Close()
		}
	}
}

// exchange lets the broker handle one request, and reads its answer.
func exchange(t testing.TB, c *conn, client *net.TCPConn, request, answer []byte) {
	if _, err := client.Write(request); err != nil {
		t.Fatal(err)
	}
	for left := true; left; left = c.in.r < c.in.w {
		if err := c.in.fill(); err != nil {
			t.Fatal(err)
		}
		if err := c.handleBuffered(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(client, answer); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkProduceSmall is the broker's side of a producer that sends one
// message of 200 bytes in a request, many of them in flight.
func BenchmarkProduceSmall(b *testing.B) { benchmarkProduce(b, 1) }

// BenchmarkProduceBatch has 50 of them in a request.
func BenchmarkProduceBatch(b *testing.B) { benchmarkProduce(b, 50) }

func benchmarkProduce(b *testing.B, batch int) {
	srv := memoryBroker(b, func(c *Config) { c.Storage.FS, c.LogDir = vfs.OS(), b.TempDir() })
	var set, requests []byte
	for range batch {
		set = message.Append(set, make([]byte, 200))
	}
	messages := 0
	for len(requests) < 1<<20 {
		requests = wire.AppendProduce(requests, "topic", 0, set)
		messages += batch
	}
	client, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	b.SetBytes(int64(len(requests)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Write(requests); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := client.Write(wire.AppendOffsets(nil, "topic", 0, wire.TimeLatest, 1)); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(client, make([]byte, 18)); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*messages), "ns/message")
}

// BenchmarkFetch is 200 KiB a fetch, one at a time, by sendfile and by copying.
// No fetch may take near 40 or 200 ms (fault B11), which the longest shows.
func BenchmarkFetch(b *testing.B) {
	for _, sendfile := range []bool{true, false} {
		b.Run(map[bool]string{true: "sendfile", false: "copy"}[sendfile], func(b *testing.B) {
			srv := memoryBroker(b, func(c *Config) {
				c.Storage.FS, c.LogDir, c.Sendfile = vfs.OS(), b.TempDir(), sendfile
			})
			client, err := net.Dial("tcp", srv.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			const size = 200 << 10
			set := message.Append(nil, make([]byte, size))
			if _, err := client.Write(wire.AppendProduce(nil, "topic", 0, set)); err != nil {
				b.Fatal(err)
			}
			request := wire.AppendFetch(nil, wire.FetchEntry{Topic: "topic", MaxBytes: size})
			answer := make([]byte, wire.ResponseHeaderSize+size)
			longest := time.Duration(0)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				if _, err := client.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(client, answer); err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Since(start))
			}
			b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
		})
	}
}
