package broker

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// slow connects with a small receive buffer.
func slow(t testing.TB, s *Server) *link {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10) // else the test does not stall anybody
		})
	}}
	c, err := d.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &link{c.(*net.TCPConn), t}
}

// TestB18RetentionGoesOn: a reader that has stopped in the middle of a segment
// does not keep retention from deleting it. The reader gets whole bytes of it or
// the end of its connection, and once it is gone the file's room is, too.
func TestB18RetentionGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := memoryBroker(t, func(c *Config) {
		c.Storage.FS, c.LogDir = vfs.OS(), dir
		c.Storage.SegmentBytes = 1 << 20
		c.Storage.RetentionBytes = 1 << 20
		c.Storage.CleanupInterval = time.Hour // only when the test says so
		c.SendBufferBytes = 64 << 10
		c.WriteTimeout = time.Second
	})
	l := connect(t, s)
	set := bytes.Repeat(message.Append(nil, make([]byte, 1000)), 256)
	for i := range int64(20) {
		l.send(wire.AppendAckedProduce(nil, "a", 0, set, wire.AcksAppended, 0))
		l.wantRange(0, i*int64(len(set)), (i+1)*int64(len(set)))
	}
	stalled, late := slow(t, s), slow(t, s)
	for _, r := range []*link{stalled, late} {
		r.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: "a", MaxBytes: 1 << 20}))
		if _, err := io.ReadFull(r, make([]byte, wire.ResponseHeaderSize)); err != nil { // the answer has begun
			t.Fatal(err)
		}
	}
	log := s.logs.Lookup([]byte("a"), 0)
	if err := s.logs.Retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := log.State()
	if st.First == 0 || st.Bytes > 3<<20 {
		t.Fatalf("retention left %+v", st)
	}
	l.send(wire.AppendFetch(nil, from("a", 0)))
	l.want(wire.CodeOffsetOutOfRange, nil)
	whole, rest := bytes.Repeat(set, 5)[:1<<20], make([]byte, 1<<20)
	if n, err := io.ReadFull(late, rest); err != nil || !bytes.Equal(rest, whole) {
		t.Errorf("who reads on got %d bytes, or others, then %v", n, err)
	}
	until(t, "the stalled reader is cut off", func() bool { return testCounter(t, s, "kafka_broker_connections_timed_out_total") == 1 })
	rest, err := io.ReadAll(stalled)
	if err != nil || len(rest) == len(whole) || !bytes.HasPrefix(whole, rest) {
		t.Errorf("the stalled reader got %d bytes, or others, then %v", len(rest), err)
	}
	until(t, "no deleted segment is held open", func() bool { return len(deletedFiles(t, dir)) == 0 })
}

// deletedFiles are the files below a folder that are open and deleted.
func deletedFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		path, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err == nil && strings.HasPrefix(path, dir) && strings.HasSuffix(path, " (deleted)") {
			paths = append(paths, path)
		}
	}
	return paths
}

// loadOf counts what clients of a benchmark do.
type loadOf struct{ produced, fetched atomic.Int64 }

// run produces sets of 100 messages of 200 bytes to a topic, and consumes them
// by another connection, until stop is closed.
func (o *loadOf) run(b *testing.B, s *Server, topic string, stop <-chan struct{}, wg *sync.WaitGroup) {
	set := bytes.Repeat(message.Append(nil, make([]byte, 200)), 100)
	produce := wire.AppendAckedProduce(nil, topic, 0, set, wire.AcksAppended, 0)
	in, out := connect(b, s), connect(b, s)
	in.SetDeadline(time.Time{})
	out.SetDeadline(time.Time{})
	ended := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	fail := func(err error) bool {
		if err != nil && !ended() {
			b.Error(err)
		}
		return err != nil
	}
	wg.Go(func() {
		answer := make([]byte, wire.ResponseHeaderSize+16)
		for !ended() {
			_, err := in.Write(produce)
			if err == nil {
				_, err = io.ReadFull(in, answer)
			}
			if fail(err) {
				return
			}
			o.produced.Add(int64(len(set)))
		}
	})
	wg.Go(func() {
		header := make([]byte, 2*wire.ResponseHeaderSize)
		buf := make([]byte, 200<<10)
		for offset := int64(0); !ended(); {
			e := wire.FetchEntry{Topic: topic, Offset: offset, MaxBytes: int32(len(buf))}
			_, err := out.Write(wire.AppendWaitFetch(nil, []wire.FetchEntry{e}, 100, 1))
			if err == nil {
				_, err = io.ReadFull(out, header)
			}
			if fail(err) {
				return
			}
			_, n, err := wire.ParseResponseHeader(header[wire.ResponseHeaderSize:], len(buf))
			if err == nil {
				_, err = io.ReadFull(out, buf[:n])
			}
			if fail(err) {
				return
			}
			offset += int64(n)
			o.fetched.Add(int64(n))
		}
	})
}

// BenchmarkB18SlowClients measures what slow, silent and hostile clients cost a
// producer and a consumer beside them, by pairs of equal times without and with
// them, in turns. What it reports is the median of the pairs, in percent of the
// rate without.
func BenchmarkB18SlowClients(b *testing.B) {
	for _, row := range []struct {
		name string
		come func(b *testing.B, s *Server) (gone func())
	}{
		{"nobody", func(*testing.B, *Server) func() { return func() {} }},
		{"stalled readers", func(b *testing.B, s *Server) func() {
			return several(20, func() *link {
				l := slow(b, s)
				l.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: "load", MaxBytes: 1 << 20}))
				return l
			})
		}},
		{"half requests", func(b *testing.B, s *Server) func() {
			request := wire.AppendProduce(nil, "half", 0, bytes.Repeat(ackedSet, 1<<20/len(ackedSet)))
			return several(20, func() *link {
				l := connect(b, s)
				l.send(request[:len(request)/2])
				return l
			})
		}},
		{"silent", func(b *testing.B, s *Server) func() {
			return several(200, func() *link { return connect(b, s) })
		}},
		{"waiting", func(b *testing.B, s *Server) func() {
			return several(200, func() *link {
				l := connect(b, s)
				l.send(waitFetch(1, from("none", 0)))
				return l
			})
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			s := memoryBroker(b, func(c *Config) {
				c.Storage.FS, c.LogDir = vfs.OS(), b.TempDir()
				c.Storage.RetentionBytes, c.Storage.CleanupInterval, c.Storage.SegmentBytes = 1<<30, time.Second, 64<<20
				c.Storage.Visible = storage.VisibleAppended
				c.SendBufferBytes = 64 << 10
			})
			var o loadOf
			stop := make(chan struct{})
			var wg sync.WaitGroup
			o.run(b, s, "load", stop, &wg)
			defer wg.Wait()
			defer close(stop)
			time.Sleep(500 * time.Millisecond) // warm, with something to fetch
			const slice = 200 * time.Millisecond
			measure := func() (produced, fetched float64) {
				p, f, began := o.produced.Load(), o.fetched.Load(), time.Now()
				time.Sleep(slice)
				s := time.Since(began).Seconds()
				return float64(o.produced.Load()-p) / s, float64(o.fetched.Load()-f) / s
			}
			var produce, consume []float64
			for i := 0; b.Loop(); i++ {
				var with, without [2]float64
				for k := range 2 {
					if (i+k)%2 == 0 {
						without[0], without[1] = measure()
						continue
					}
					gone := row.come(b, s)
					with[0], with[1] = measure()
					gone()
				}
				produce = append(produce, 100*with[0]/without[0])
				consume = append(consume, 100*with[1]/without[1])
			}
			b.ReportMetric(median(produce), "produce-%")
			b.ReportMetric(median(consume), "consume-%")
			b.ReportMetric(float64(len(produce)), "pairs")
		})
	}
}

// several makes n connections; gone closes them.
func several(n int, connect func() *link) (gone func()) {
	var links []*link
	for range n {
		links = append(links, connect())
	}
	return func() {
		for _, l := range links {
			l.Close()
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// BenchmarkManyProducers is what the memory's bound costs: sets of 1 MiB by many
// connections at once, without a bound, with the default and with a tight one.
func BenchmarkManyProducers(b *testing.B) {
	for _, bound := range []int64{0, DefaultMaxRequestMemoryBytes, 4 << 20} {
		b.Run(fmt.Sprintf("%dMiB", bound>>20), func(b *testing.B) {
			s := memoryBroker(b, func(c *Config) {
				c.Storage.FS, c.LogDir = vfs.OS(), b.TempDir()
				c.Storage.RetentionBytes, c.Storage.CleanupInterval, c.Storage.SegmentBytes = 1<<30, time.Second, 64<<20
				c.MaxRequestMemoryBytes = bound
			})
			const connections = 100
			set := bytes.Repeat(message.Append(nil, make([]byte, 1000)), 1<<20/1009)
			request := wire.AppendAckedProduce(nil, "load", 0, set, wire.AcksAppended, 0)
			work := make(chan struct{})
			var wg sync.WaitGroup
			for range connections {
				l := connect(b, s)
				l.SetDeadline(time.Time{})
				wg.Go(func() {
					answer := make([]byte, wire.ResponseHeaderSize+16)
					for range work {
						_, err := l.Write(request)
						if err == nil {
							_, err = io.ReadFull(l, answer)
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.SetBytes(int64(len(set)))
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(s.memory.state().waits)/float64(b.N), "waits/op")
		})
	}
}
