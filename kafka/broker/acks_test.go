package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

const patience = 20 * time.Second

// link is a connection of a test.
type link struct {
	*net.TCPConn
	t testing.TB
}

func connect(t testing.TB, s *Server) *link {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &link{c.(*net.TCPConn), t}
}

func (l *link) send(b []byte) {
	l.t.Helper()
	if _, err := l.Write(b); err != nil {
		l.t.Fatalf("send: %v", err)
	}
}

func (l *link) answer() (wire.Code, []byte) {
	l.t.Helper()
	header := make([]byte, wire.ResponseHeaderSize)
	if _, err := io.ReadFull(l, header); err != nil {
		l.t.Fatalf("read an answer: %v", err)
	}
	code, n, err := wire.ParseResponseHeader(header, 1<<30)
	if err != nil {
		l.t.Fatal(err)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(l, payload); err != nil {
		l.t.Fatalf("read an answer of %d bytes: %v", n, err)
	}
	return code, payload
}

func (l *link) want(code wire.Code, payload []byte) {
	l.t.Helper()
	if c, p := l.answer(); c != code || !bytes.Equal(p, payload) {
		l.t.Fatalf("answer %d %.100x, want %d %.100x", c, p, code, payload)
	}
}

func (l *link) wantRange(code wire.Code, base, next int64) {
	l.t.Helper()
	l.want(code, wire.AppendAckedRange(nil, wire.AckedRange{Base: base, Next: next}))
}

// wantClosed wants no more than the end.
func (l *link) wantClosed() {
	l.t.Helper()
	rest, err := io.ReadAll(l)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		l.t.Fatalf("got %.100x, %v before the end, want nothing", rest, err)
	}
}

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

func (s *Server) end(topic string) int64 {
	if l := s.logs.Lookup([]byte(topic), 0); l != nil {
		return l.State().LogEnd
	}
	return -1
}

// gatedBroker is a broker in memory whose syncs of segment files of a topic
// named "gated…" wait until open is called, and then fail with failure, if any.
func gatedBroker(t testing.TB, change ...func(*Config)) (s *Server, open func(failure error)) {
	files := vfs.NewMem(time.Now)
	gate := make(chan struct{})
	var result error
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.Contains(op.Path, "/gated") && strings.HasSuffix(op.Path, ".kafka") {
			<-gate
			return result
		}
		return nil
	})
	var once sync.Once
	open = func(failure error) {
		once.Do(func() {
			result = failure
			close(gate)
		})
	}
	s = memoryBroker(t, append([]func(*Config){func(c *Config) {
		c.Storage.FS = files
		c.Storage.Visible = storage.VisibleFlushed
	}}, change...)...)
	t.Cleanup(func() { open(nil) })
	return s, open
}

var ackedSet = message.Append(nil, []byte("acked"))

func acked(topic string, acks wire.Acks, timeout time.Duration) []byte {
	return wire.AppendAckedProduce(nil, topic, 0, ackedSet, acks, int32(timeout.Milliseconds()))
}

// TestAcksFlushedPipelines: while an answer waits for its flush, later requests
// of the same connection are appended, and all answers come in order.
func TestAcksFlushedPipelines(t *testing.T) {
	s, open := gatedBroker(t)
	l, n := connect(t, s), int64(len(ackedSet))
	for _, acks := range []wire.Acks{wire.AcksFlushed, wire.AcksAppended, wire.AcksReceived, wire.AcksFlushed} {
		l.send(acked("gated", acks, patience))
		l.send(acked("other", wire.AcksFlushed, patience))
	}
	l.send(wire.AppendProduce(nil, "gated", 0, ackedSet))
	until(t, "everything is appended while nothing is flushed", func() bool { return s.end("gated") == 5*n && s.end("other") == 4*n })
	if st := s.logs.Lookup([]byte("gated"), 0).State(); st.Flushed != 0 || st.Watermark != 0 {
		t.Fatalf("state %+v before any flush", st)
	}
	open(nil)
	for i := range int64(4) {
		if i == 2 {
			l.wantRange(0, -1, -1)
		} else {
			l.wantRange(0, i*n, (i+1)*n)
		}
		l.wantRange(0, i*n, (i+1)*n)
	}
}

// TestAcksThenFetch: a fetch behind an answer that waits is answered after it,
// and finds what it stands for.
func TestAcksThenFetch(t *testing.T) {
	s, open := gatedBroker(t)
	l := connect(t, s)
	l.send(acked("gated", wire.AcksFlushed, patience))
	l.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: "gated", MaxBytes: 100}))
	until(t, "the set is appended", func() bool { return s.end("gated") == int64(len(ackedSet)) })
	open(nil)
	l.wantRange(0, 0, int64(len(ackedSet)))
	l.want(0, ackedSet)
}

// TestAcksTimeOut: the answer comes at the deadline of its request and says
// where the set went, which may still become flushed.
func TestAcksTimeOut(t *testing.T) {
	s, open := gatedBroker(t)
	l, n := connect(t, s), int64(len(ackedSet))
	l.send(acked("gated", wire.AcksFlushed, time.Millisecond))
	l.wantRange(wire.CodeTimedOut, 0, n)
	l.send(acked("gated", wire.AcksFlushed, patience))
	until(t, "the second set is appended", func() bool { return s.end("gated") == 2*n })
	open(nil)
	l.wantRange(0, n, 2*n)
}

// TestAcksMany: more answers than may be pending, with nobody reading them.
func TestAcksMany(t *testing.T) {
	s, open := gatedBroker(t)
	l, n := connect(t, s), int64(len(ackedSet))
	const many = 3 * maxPendingAnswers
	go func() {
		var requests []byte
		for range many {
			requests = append(requests, acked("gated", wire.AcksFlushed, patience)...)
		}
		l.Write(requests) // a failure shows as missing answers
	}()
	until(t, "the first sets are appended", func() bool { return s.end("gated") >= maxPendingAnswers*n })
	open(nil)
	for i := range int64(many) {
		l.wantRange(0, i*n, (i+1)*n)
	}
}

// TestAcksFlushFails: a failed flush is answered as out of service, and so are
// later sets; an unacknowledged one closes its connection.
func TestAcksFlushFails(t *testing.T) {
	s, open := gatedBroker(t)
	open(syscall.EIO)
	l := connect(t, s)
	l.send(acked("gated", wire.AcksFlushed, patience))
	code, _ := l.answer()
	if code != wire.CodeOutOfService {
		t.Fatalf("answer to the set whose flush failed: %v", code)
	}
	l.send(acked("gated", wire.AcksAppended, 0))
	l.wantRange(wire.CodeOutOfService, -1, -1)
	l.send(acked("other", wire.AcksFlushed, patience))
	l.wantRange(0, 0, int64(len(ackedSet)))
	l.send(wire.AppendProduce(nil, "gated", 0, ackedSet))
	l.wantClosed()
	if err := s.Close(t.Context()); !errors.Is(err, storage.ErrOutOfService) {
		t.Errorf("close does not tell of the partition that lost messages: %v", err)
	}
}

// TestAcksPeerGone: a peer that closes does not keep its connection waiting
// beyond what it asked for, and disturbs nobody.
func TestAcksPeerGone(t *testing.T) {
	s, _ := gatedBroker(t)
	l := connect(t, s)
	l.send(acked("gated", wire.AcksFlushed, 50*time.Millisecond))
	until(t, "the set is appended", func() bool { return s.end("gated") == int64(len(ackedSet)) })
	l.Close()
	until(t, "the connection ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
}

// TestAcksStop: a broker that must stop does not wait for answers whose flush
// does not come to an end.
func TestAcksStop(t *testing.T) {
	s, open := gatedBroker(t)
	l := connect(t, s)
	go func() {
		for range 2 * maxPendingAnswers {
			if _, err := l.Write(acked("gated", wire.AcksFlushed, patience)); err != nil {
				return // cut off, as it should be
			}
		}
	}()
	until(t, "the first sets are appended", func() bool { return s.end("gated") >= maxPendingAnswers*int64(len(ackedSet)) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	until(t, "the connection is cut off", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
	open(nil)
	if err := <-closed; err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("close returned %v, want that a connection was cut off", err)
	}
}

// TestFlushByCountHoldsItsConnection: when the count of the flush rule is
// reached, a later request of the connection is answered after the flush, and
// other connections go on.
func TestFlushByCountHoldsItsConnection(t *testing.T) {
	s, open := gatedBroker(t, func(c *Config) { c.Storage.FlushMessages = 3 })
	held, free := connect(t, s), connect(t, s)
	for range 3 {
		held.send(wire.AppendProduce(nil, "gated", 0, ackedSet))
	}
	held.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: "gated", MaxBytes: 100}))
	until(t, "the sets are appended", func() bool { return s.end("gated") == 3*int64(len(ackedSet)) })
	for range 3 {
		free.send(wire.AppendProduce(nil, "other", 0, ackedSet))
	}
	free.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: "other", MaxBytes: 100}))
	free.want(0, bytes.Repeat(ackedSet, 3))
	open(nil)
	held.want(0, bytes.Repeat(ackedSet, 3))
}

// TestFlushByCountFails: a flush that fails closes the connection that it was
// due on.
func TestFlushByCountFails(t *testing.T) {
	s, open := gatedBroker(t, func(c *Config) { c.Storage.FlushMessages = 1 })
	open(syscall.EIO)
	l := connect(t, s)
	l.send(wire.AppendProduce(nil, "gated", 0, ackedSet))
	l.wantClosed()
}

// TestAppendFails: when the disk is full an acknowledged set is refused and the
// connection stays; an unacknowledged one closes it. With room again both work.
func TestAppendFails(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	l := connect(t, s)
	l.send(acked("a", wire.AcksAppended, 0))
	l.wantRange(0, 0, int64(len(ackedSet)))
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			return fmt.Errorf("write: %w", syscall.ENOSPC)
		}
		return nil
	})
	l.send(acked("a", wire.AcksAppended, 0))
	l.wantRange(wire.CodeUnknown, -1, -1)
	silent := connect(t, s)
	silent.send(wire.AppendProduce(nil, "a", 0, ackedSet))
	silent.wantClosed()
	files.SetHook(nil)
	l.send(acked("a", wire.AcksAppended, 0))
	l.wantRange(0, int64(len(ackedSet)), 2*int64(len(ackedSet)))
}

// TestAcksOrderedOfADeletedTopic: what was behind messages that were deleted with their
// topic is not the beginning of the next topic of that name.
func TestAcksOrderedOfADeletedTopic(t *testing.T) {
	s := memoryBroker(t)
	l, n := connect(t, s), int64(len(ackedSet))
	l.send(acked("a", wire.AcksOrdered, patience))
	l.wantRange(0, 0, n)
	other := connect(t, s)
	other.send(wire.AppendDeleteTopic(nil, "a"))
	other.want(0, nil)
	l.send(acked("a", wire.AcksOrdered, patience))
	l.wantRange(wire.CodeNotInOrder, -1, -1)
	other.send(acked("a", wire.AcksOrdered, patience))
	other.wantRange(0, 0, n)
	l.send(acked("a", wire.AcksOrdered, patience))
	l.wantRange(wire.CodeNotInOrder, -1, -1)
}

// TestAcksOrdered: behind a set that is refused, for whatever reason, a connection's later
// ones are refused too, so that none gets before it; those that do not ask for an order,
// and those of other connections, are taken.
func TestAcksOrdered(t *testing.T) {
	n := int64(len(ackedSet))
	damaged := bytes.Clone(ackedSet)
	damaged[len(damaged)-1]++
	ordered := func(partition int32, set []byte) []byte {
		return wire.AppendAckedProduce(nil, "a", partition, set, wire.AcksOrdered, int32(patience.Milliseconds()))
	}
	for name, row := range map[string]struct {
		refused []byte
		code    wire.Code
	}{
		"damaged":     {ordered(0, damaged), wire.CodeInvalidMessage},
		"too large":   {ordered(0, message.Append(nil, make([]byte, 1000))), wire.CodeMessageTooLarge},
		"elsewhere":   {ordered(7, ackedSet), wire.CodeNotInOrder},
		"a full disk": {ordered(0, ackedSet), wire.CodeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			files := vfs.NewMem(time.Now)
			s := memoryBroker(t, func(c *Config) { c.Storage.FS, c.MaxMessageBytes = files, 999 })
			l := connect(t, s)
			l.send(ordered(0, ackedSet))
			l.wantRange(0, 0, n)
			if row.code == wire.CodeUnknown {
				files.SetHook(func(op vfs.Op) error {
					if op.Kind == vfs.OpWrite {
						return fmt.Errorf("write: %w", syscall.ENOSPC)
					}
					return nil
				})
				l.send(row.refused)
				l.wantRange(row.code, -1, -1)
				files.SetHook(nil)
				l.send(bytes.Repeat(ordered(0, ackedSet), 2))
			} else { // all in one buffer, in which sets are gathered
				l.send(append(bytes.Clone(ordered(0, ackedSet)), append(row.refused, bytes.Repeat(ordered(0, ackedSet), 2)...)...))
				l.wantRange(0, n, 2*n)
				l.wantRange(row.code, -1, -1)
			}
			l.wantRange(wire.CodeNotInOrder, -1, -1)
			l.wantRange(wire.CodeNotInOrder, -1, -1)
			end := s.end("a")
			l.send(acked("a", wire.AcksFlushed, patience))
			l.wantRange(0, end, end+n)
			other := connect(t, s)
			other.send(ordered(0, ackedSet))
			other.wantRange(0, end+n, end+2*n)
			l.send(ordered(0, ackedSet))
			l.wantRange(wire.CodeNotInOrder, -1, -1)
		})
	}
}

// TestAppendFailsBeforeAnAckedSet: a set without an answer that could not be
// appended closes its connection also when an acknowledged one for another
// partition has come right behind it.
func TestAppendFailsBeforeAnAckedSet(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	l := connect(t, s)
	for _, topic := range []string{"full", "b"} {
		l.send(acked(topic, wire.AcksAppended, 0))
		l.wantRange(0, 0, int64(len(ackedSet)))
	}
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && strings.Contains(op.Path, "/full-") {
			return fmt.Errorf("write: %w", syscall.ENOSPC)
		}
		return nil
	})
	for name, behind := range map[string][]byte{
		"acknowledged": acked("b", wire.AcksAppended, 0),
		"silent":       wire.AppendProduce(nil, "b", 0, ackedSet),
	} {
		l := connect(t, s)
		l.send(append(wire.AppendProduce(nil, "full", 0, ackedSet), behind...))
		l.wantClosed()
		if n := s.end("b"); n != int64(len(ackedSet)) {
			t.Errorf("%s: what came behind the failure was appended: the log ends at %d", name, n)
		}
	}
}

// TestPartitionCannotBeMade: that is no fault of the peer's, and is logged as
// what it is, also for those who get an answer.
func TestPartitionCannotBeMade(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpMkdir {
			return syscall.EMFILE
		}
		return nil
	})
	l := connect(t, s)
	l.send(acked("a", wire.AcksAppended, 0))
	l.wantRange(wire.CodeUnknown, -1, -1)
	l.send(wire.AppendProduce(nil, "a", 0, ackedSet))
	l.wantClosed()
	if n := testCounter(t, s, "kafka_broker_storage_errors_total"); n != 2 {
		t.Errorf("%v storage errors are counted, want 2", n)
	}
	files.SetHook(nil)
	l = connect(t, s)
	l.send(acked("a", wire.AcksAppended, 0))
	l.wantRange(0, 0, int64(len(ackedSet)))
}

// TestDeleteTopicBeforeItsFlush: the connection that owes a flush to a topic
// that was deleted since its append goes on.
func TestDeleteTopicBeforeItsFlush(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS, c.Storage.FlushMessages = files, 1 })
	l, admin := connect(t, s), connect(t, s)
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && strings.Contains(op.Path, "/a-0/") {
			admin.send(wire.AppendDeleteTopic(nil, "a")) // its last steps wait for this write
			until(t, "the log has ended", func() bool { return s.logs.Lookup([]byte("a"), 0).Err() != nil })
		}
		return nil
	})
	l.send(append(wire.AppendProduce(nil, "a", 0, ackedSet), acked("b", wire.AcksAppended, 0)...))
	l.wantRange(0, 0, int64(len(ackedSet)))
	admin.want(0, nil)
}
