package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

const cleanMark = ".kafka_cleanshutdown"

// stopNow closes a broker in the background.
func (s *Server) stopNow(limit time.Duration) <-chan error {
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		closed <- s.Close(ctx)
	}()
	return closed
}

// TestStopWithAcksInFlight: sets that are appended when the stop begins are
// flushed, and their answers sent, while nobody is let in any more. Then the
// folder is marked as clean.
func TestStopWithAcksInFlight(t *testing.T) {
	s, open := gatedBroker(t)
	const connections, each = 5, 20
	n := int64(len(ackedSet))
	links := make([]*link, connections)
	for i := range links {
		links[i] = connect(t, s)
		for range each {
			links[i].send(acked(fmt.Sprintf("gated%d", i), wire.AcksFlushed, patience))
		}
	}
	for i := range links {
		until(t, "the sets are appended", func() bool { return s.end(fmt.Sprintf("gated%d", i)) == each*n })
	}
	closed := s.stopNow(patience)
	<-s.stop
	until(t, "nobody is let in", func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	open(nil)
	for _, l := range links {
		for i := range int64(each) {
			l.wantRange(0, i*n, (i+1)*n)
		}
		l.wantClosed()
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if _, err := s.cfg.Storage.FS.Stat(filepath.Join(s.cfg.LogDir, cleanMark)); err != nil {
		t.Errorf("no mark of a clean stop: %v", err)
	}
}

// TestStopWhileARequestWaitsForMemory: it is not read to its end, and does not
// hold the stop up.
func TestStopWhileARequestWaitsForMemory(t *testing.T) {
	s := memoryBroker(t, func(c *Config) { c.MaxRequestMemoryBytes = largestBuffer })
	hog, _ := testHolder()
	if _, ok, err := s.memory.takeFor(hog, largestBuffer, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	l := connect(t, s)
	set := bytes.Repeat(ackedSet, 2*smallestBuffer/len(ackedSet))
	l.send(append(acked("a", wire.AcksFlushed, patience), wire.AppendProduce(nil, "a", 0, set)...))
	s.memory.untilWaiting(t, 1)
	if err := <-s.stopNow(patience); err != nil {
		t.Error(err)
	}
	l.wantRange(0, 0, int64(len(ackedSet)))
	l.wantClosed()
}

// TestStopUnderLoad: a broker that stops in the middle of everything at once, as
// with SIGTERM on a busy day, sends whole answers only, keeps every promise of
// those that it has sent, and leaves a folder that needs no recovery.
func TestStopUnderLoad(t *testing.T) {
	dir := t.TempDir()
	onDisk := func(c *Config) {
		c.Storage.FS, c.LogDir = vfs.OS(), dir
		c.Storage.Visible = storage.VisibleFlushed
		c.Storage.FlushMessages, c.Storage.FlushInterval = 1000, 10*time.Millisecond
		c.Storage.SegmentBytes = 1 << 20
	}
	s := memoryBroker(t, onDisk)
	const producers, consumers = 6, 6
	promised := make([][]wire.AckedRange, producers)
	var wg sync.WaitGroup
	for i := range producers {
		l := connect(t, s)
		wg.Go(func() { // sends until it is cut off
			for k := 0; ; k++ {
				if _, err := l.Write(wire.AppendAckedProduce(nil, topicOf(i), 0, loadSet(i, k), wire.AcksFlushed, 20_000)); err != nil {
					return
				}
			}
		})
		wg.Go(func() {
			for code, payload := range l.wholeAnswers() {
				r, err := wire.ParseAckedRange(payload)
				if code != 0 || err != nil {
					t.Errorf("producer %d: answer %v, %v", i, code, err)
					return
				}
				promised[i] = append(promised[i], r)
			}
			l.Close() // lets its sender go, too
		})
	}
	for i := range consumers {
		l := connect(t, s)
		wg.Go(func() {
			defer l.Close()
			offset := int64(0)
			request := func() []byte {
				e := wire.FetchEntry{Topic: topicOf(i % producers), Offset: offset, MaxBytes: 1 << 20}
				if i%2 == 0 {
					return wire.AppendFetch(nil, e)
				}
				return wire.AppendWaitFetch(nil, []wire.FetchEntry{e}, 20_000, 1)
			}
			if _, err := l.Write(request()); err != nil {
				return
			}
			for code, payload := range l.wholeAnswers() {
				if i%2 == 1 {
					payload = payload[wire.ResponseHeaderSize:]
				}
				valid, _, err := message.Check(payload, message.Limits{})
				if code != 0 || err != nil && !errors.Is(err, message.ErrIncomplete) {
					t.Errorf("consumer %d at offset %d: answer %v, %v", i, offset, code, err)
					return
				}
				offset += int64(valid)
				if _, err := l.Write(request()); err != nil {
					continue // what was sent before is still to come
				}
			}
		})
	}
	until(t, "everybody is at work", func() bool {
		for i := range producers {
			if l := s.logs.Lookup([]byte(topicOf(i)), 0); l == nil || l.State().Segments < 3 {
				return false
			}
		}
		return true
	})
	if err := <-s.stopNow(patience); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if _, err := os.Stat(filepath.Join(dir, cleanMark)); err != nil {
		t.Errorf("no mark of a clean stop: %v", err)
	}

	s = memoryBroker(t, onDisk)
	for i, ranges := range promised {
		if len(ranges) == 0 {
			t.Errorf("producer %d got no answer", i)
		}
		all := logBytes(t, s, topicOf(i), 0)
		for k, r := range ranges {
			if r.Base < 0 || r.Next > int64(len(all)) || !bytes.Equal(all[r.Base:r.Next], loadSet(i, k)) {
				t.Fatalf("producer %d was promised set %d at %d to %d, and it is not there", i, k, r.Base, r.Next)
			}
		}
	}
}

func topicOf(i int) string { return fmt.Sprintf("load%d", i) }

// loadSet is what producer i sends as its k-th set.
func loadSet(i, k int) []byte {
	var set []byte
	for m := range 1 + (i+k)%10 {
		set = message.Append(set, bytes.Repeat(fmt.Appendf(nil, "%d/%d/%d ", i, k, m), 100))
	}
	return set
}

// wholeAnswers yields the answers that come until the connection ends. One that
// is cut off is an error of the test.
func (l *link) wholeAnswers() func(yield func(wire.Code, []byte) bool) {
	return func(yield func(wire.Code, []byte) bool) {
		for {
			header := make([]byte, wire.ResponseHeaderSize)
			if n, err := io.ReadFull(l, header); err != nil {
				if n > 0 {
					l.t.Errorf("%d bytes of an answer, then %v", n, err)
				}
				return
			}
			code, size, err := wire.ParseResponseHeader(header, 1<<30)
			if err != nil {
				l.t.Error(err)
				return
			}
			payload := make([]byte, size)
			if n, err := io.ReadFull(l, payload); err != nil {
				l.t.Errorf("%d of %d bytes of an answer, then %v", n, size, err)
				return
			}
			if !yield(code, payload) {
				return
			}
		}
	}
}
