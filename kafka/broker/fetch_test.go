package broker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// fill produces about size bytes to partition 0 of a topic and returns them.
func fill(t testing.TB, b *kafkatest.Broker, rnd *rand.Rand, topic string, size int) []byte {
	t.Helper()
	p := dial(t, b)
	var all []byte
	for len(all) < size {
		var set []byte
		for range 100 {
			payload := make([]byte, rnd.IntN(2000))
			for i := 0; i+8 <= len(payload); i += 8 {
				binary.BigEndian.PutUint64(payload[i:], rnd.Uint64())
			}
			set = message.Append(set, payload)
		}
		p.send(produce(topic, 0, set))
		p.barrier() // each set is a group, so that segments end at the same places every time
		all = append(all, set...)
	}
	return all
}

func copying(c *broker.Config) { c.Sendfile = false }

// TestB11SendfileAndCopyGiveTheSameBytes: the same fetches, of all sizes and
// over several segments, on one connection of each kind.
func TestB11SendfileAndCopyGiveTheSameBytes(t *testing.T) {
	seed := random(t).Uint64()
	var sums [2]string
	for i, option := range []kafkatest.Option{func(*broker.Config) {}, copying} {
		rnd := rand.New(rand.NewPCG(seed, 0))
		b := kafkatest.Start(t, option, func(c *broker.Config) { c.Storage.SegmentBytes = 1 << 20 })
		all := fill(t, b, rnd, "a", 4<<20)
		p := dial(t, b)
		sum := sha256.New()
		for range 1000 {
			entries := make([]wire.FetchEntry, 1+rnd.IntN(4))
			for i := range entries {
				entries[i] = wire.FetchEntry{Topic: "a", Offset: rnd.Int64N(int64(len(all)) + 2), MaxBytes: int32(100 + rnd.IntN(500_000)>>rnd.IntN(13))}
			}
			if len(entries) == 1 {
				p.send(wire.AppendFetch(nil, entries[0]))
			} else {
				p.send(wire.AppendMultiFetch(nil, entries))
			}
			_, payload := p.answer()
			sum.Write(payload)
			if len(entries) == 1 {
				checkFetched(t, all, entries[0], payload)
				continue
			}
			results, err := wire.ParseFetchResults(nil, payload, len(entries))
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				checkFetched(t, all, entries[i], r.Set)
			}
		}
		sums[i] = digest(sum)
	}
	if sums[0] != sums[1] {
		t.Errorf("sendfile gave %s, the copy %s", sums[0], sums[1])
	}
}

func digest(h hash.Hash) string { return string(h.Sum(nil)) }

// checkFetched compares a fetched set with the log; it may be shorter than
// asked for, as it ends with its segment.
func checkFetched(t *testing.T, all []byte, e wire.FetchEntry, set []byte) {
	t.Helper()
	if e.Offset >= int64(len(all)) {
		if len(set) > 0 {
			t.Fatalf("fetch at %d, behind the end at %d, gave %d bytes", e.Offset, len(all), len(set))
		}
		return
	}
	want := all[e.Offset:min(e.Offset+int64(e.MaxBytes), int64(len(all)))]
	if len(set) == 0 || !bytes.HasPrefix(want, set) {
		t.Fatalf("fetch of %d bytes at %d gave %d others", e.MaxBytes, e.Offset, len(set))
	}
}

// TestFetchOfALargeLog: one fetch larger than the buffers of the sockets.
func TestFetchOfALargeLog(t *testing.T) {
	for _, option := range []kafkatest.Option{func(*broker.Config) {}, copying} {
		b := kafkatest.Start(t, option)
		all := fill(t, b, random(t), "a", 24<<20)
		p := dial(t, b)
		p.send(fetch("a", 0, 0, 1<<30))
		if _, got := p.answer(); !bytes.Equal(got, all) {
			t.Fatalf("%d bytes, want %d, or others", len(got), len(all))
		}
		p.barrier()
	}
}

// TestSegmentShorterThanExpected: when a segment file has lost its end behind
// the broker's back, the connection ends; nothing is made up, and the log says
// where.
func TestSegmentShorterThanExpected(t *testing.T) {
	for _, option := range []kafkatest.Option{func(*broker.Config) {}, copying} {
		var log sharedBuffer
		b := kafkatest.Start(t, option, func(c *broker.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		all := fill(t, b, random(t), "a", 1<<20)
		if err := os.Truncate(filepath.Join(b.Config.LogDir, "a-0", strings.Repeat("0", 20)+".kafka"), 1000); err != nil {
			t.Fatal(err)
		}
		p := dial(t, b)
		p.send(fetch("a", 0, 0, 1<<30))
		if got := p.rest(); len(got) > wire.ResponseHeaderSize+1000 || len(got) > 6 && !bytes.HasPrefix(all, got[6:]) {
			t.Errorf("%d bytes came from a file of 1000", len(got))
		}
		if said := log.String(); !strings.Contains(said, `level=ERROR msg="read failed"`) || !strings.Contains(said, "topic=a partition=0") || !strings.Contains(said, "from offset 0 on") {
			t.Errorf("the log does not say what could not be read:\n%s", said)
		}
	}
}

// TestClosedSegmentCut: the broker breaks off an answer at most once because of a
// closed segment that somebody has cut. After that it gives what is left of it,
// and behind that an error; the log names the file, and a consumer ends with an
// error that says where.
func TestClosedSegmentCut(t *testing.T) {
	for _, option := range []kafkatest.Option{func(*broker.Config) {}, copying} {
		var log sharedBuffer
		b := kafkatest.Start(t, option, func(c *broker.Config) {
			c.Storage.SegmentBytes = 50_000
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		all := fill(t, b, random(t), "a", 1<<20)
		path := filepath.Join(b.Config.LogDir, "a-0", strings.Repeat("0", 20)+".kafka")
		if err := os.Truncate(path, 1000); err != nil {
			t.Fatal(err)
		}
		p := dial(t, b)
		p.send(fetch("a", 0, 0, 2000))
		if got := p.rest(); len(got) > wire.ResponseHeaderSize+1000 {
			t.Errorf("%d bytes came from a file of 1000", len(got))
		}
		p = dial(t, b)
		p.send(fetch("a", 0, 0, 2000))
		p.want(wire.CodeNone, all[:1000])
		p.send(fetch("a", 0, 1000, 2000))
		p.want(wire.CodeUnknown, nil)
		if said := log.String(); !strings.Contains(said, "segment="+path) || !strings.Contains(said, "topic=a partition=0 offset=0") {
			t.Errorf("the log does not name the file:\n%s", said)
		}
		eventually(t, "the log names it each time", func() bool { // but one line a second at most
			p.send(fetch("a", 0, 1000, 2000))
			p.want(wire.CodeUnknown, nil)
			said := log.String()
			return strings.Contains(said, "segment "+path+" does not give") && strings.Contains(said, "topic=a partition=0 offset=1000")
		})

		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: b.HostPort(), Topic: "a"})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Next(ctx)
		}
		if !errors.Is(err, wire.CodeUnknown) || !strings.Contains(err.Error(), "consume a-0: broker "+b.HostPort()+": fetch at offset 1000: ") {
			t.Errorf("the consumer ends with %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStopWithFetchInFlight: a broker that is told to stop finishes the answer
// that it has begun.
func TestStopWithFetchInFlight(t *testing.T) {
	b := kafkatest.Start(t)
	all := fill(t, b, random(t), "a", 24<<20)
	p := dial(t, b)
	p.send(fetch("a", 0, 0, 1<<30))
	got := p.read(6) // it has begun
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- b.Close(ctx)
	}()
	got = append(got, p.rest()...)
	if !bytes.Equal(got, answer(0, all)) {
		t.Errorf("%d bytes, want %d, or others", len(got), len(all)+6)
	}
	if err := <-stopped; err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestStopCutsOff: a reader that stands still does not keep a broker from
// stopping in time, which tells about it.
func TestStopCutsOff(t *testing.T) {
	b := kafkatest.Start(t)
	fill(t, b, random(t), "a", 24<<20)
	p := dial(t, b)
	p.send(fetch("a", 0, 0, 1<<30))
	p.read(6)
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	b.MayStopBadly = true
	err := b.Close(ctx)
	if err == nil || !strings.Contains(err.Error(), "1 connections were cut off") {
		t.Errorf("close returned %v, want the number of connections that were cut off", err)
	}
	if again := b.Close(context.Background()); !errors.Is(again, err) {
		t.Errorf("second close returned %v, the first %v", again, err)
	}
}

// TestStopTakesWhatHasArrived: what producers have sent before the stop, and
// the broker has not read yet, is in the log afterwards; nothing half.
func TestStopTakesWhatHasArrived(t *testing.T) {
	b := kafkatest.Start(t)
	var want []byte
	var conns []*peer
	for range 20 {
		p := dial(t, b)
		conns = append(conns, p)
		p.barrier() // the connection is served
	}
	for _, p := range conns {
		set := entry(strings.Repeat("x", 1000))
		p.send(append(produce("a", 0, set), produce("a", 0, set)[:500]...))
		want = append(want, set...)
	}
	b.Restart()
	if got := logOf(t, b, "a", 0); !bytes.Equal(got, want) {
		t.Errorf("log has %d bytes, want %d, or others", len(got), len(want))
	}
}

// TestReadTimeout and the idle timeout are two things: silence between two
// requests is allowed, in the middle of one it is not.
func TestReadTimeout(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.ReadTimeout = 50 * time.Millisecond })
	idle, half := dial(t, b), dial(t, b)
	idle.barrier()
	half.barrier()
	request := produce("a", 0, entryP)
	half.send(request[:10])
	if got := half.rest(); len(got) > 0 {
		t.Errorf("answer %x", got)
	}
	idle.barrier()
}

func TestIdleTimeout(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.IdleTimeout = 50 * time.Millisecond })
	p := dial(t, b)
	p.barrier()
	if got := p.rest(); len(got) > 0 {
		t.Errorf("answer %x", got)
	}
}

// TestMaxConnections: one connection too many is closed at once, and there is
// room again when another ends.
func TestMaxConnections(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.MaxConnections = 2 })
	first, second := dial(t, b), dial(t, b)
	first.barrier()
	second.barrier()
	if got := dial(t, b).rest(); len(got) > 0 {
		t.Errorf("answer %x", got)
	}
	first.Close()
	eventually(t, "a connection is served again", func() bool {
		p := dial(t, b)
		defer p.Close()
		p.SetDeadline(time.Now().Add(patience))
		if _, err := p.Write(fetch("none", 0, 0, 1)); err != nil {
			return false
		}
		_, err := io.ReadFull(p, make([]byte, 6))
		return err == nil
	})
	second.barrier()
}

// TestStartFails: what cannot be served is refused with the reason, and leaves
// nothing open.
func TestStartFails(t *testing.T) {
	running := kafkatest.Start(t)
	for _, row := range []struct {
		name   string
		change kafkatest.Option
		says   string
		is     error
	}{
		{name: "port in use", change: func(c *broker.Config) { c.Listen = running.HostPort() }, says: "give another --listen", is: syscall.EADDRINUSE},
		{name: "metrics port in use", change: func(c *broker.Config) { c.MetricsListen = running.HostPort() }, says: "give another --metrics-listen", is: syscall.EADDRINUSE},
		{name: "directory in use", change: func(c *broker.Config) { c.LogDir = running.Config.LogDir }, says: running.Config.LogDir},
		{name: "no directory", change: func(c *broker.Config) { c.LogDir = "" }, says: "log folder"},
		{name: "id", change: func(c *broker.Config) { c.ID = -1 }, says: "-1"},
		{name: "request limit", change: func(c *broker.Config) { c.MaxRequestBytes = 1 }, says: "1 bytes"},
		{name: "connections", change: func(c *broker.Config) { c.MaxConnections = -5 }, says: "-5"},
		{name: "socket buffer", change: func(c *broker.Config) { c.SendBufferBytes = -1 }, says: "-1"},
		{name: "time limit", change: func(c *broker.Config) { c.IdleTimeout = -time.Second }, says: "-1s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := broker.DefaultConfig()
			cfg.Listen, cfg.LogDir = "127.0.0.1:0", t.TempDir()
			row.change(&cfg)
			s, err := broker.Start(t.Context(), cfg)
			if err == nil {
				s.Close(t.Context())
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), row.says) || row.is != nil && !errors.Is(err, row.is) {
				t.Errorf("error %q does not say %q, or is not %v", err, row.says, row.is)
			}
			if cfg.LogDir != "" && cfg.LogDir != running.Config.LogDir {
				cfg = broker.DefaultConfig() // the directory is free again
				cfg.Listen, cfg.LogDir = "127.0.0.1:0", t.TempDir()
				s, err := broker.Start(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
