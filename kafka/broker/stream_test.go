package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// memoryBroker starts a broker whose log is in memory and visible at once.
func memoryBroker(t testing.TB, change ...func(*Config)) *Server {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	cfg.LogDir = "/log"
	cfg.Storage.FS = vfs.NewMem(time.Now)
	cfg.Storage.FlushMessages, cfg.Storage.FlushInterval = 0, 0
	cfg.Storage.Visible = storage.VisibleAppended
	cfg.Storage.DefaultPartitions = 2
	for _, f := range change {
		f(&cfg)
	}
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := s.Close(ctx)
		// A test that breaks its broker has looked at the error itself.
		if err != nil && !errors.Is(err, storage.ErrOutOfService) && !strings.Contains(err.Error(), "cut off") {
			t.Error(err)
		}
	})
	return s
}

// stepped is a connection whose reads the test makes one by one, so that it
// decides where the stream is cut.
type stepped struct {
	*conn
	client  *net.TCPConn
	answers chan []byte // all of them, when the connection is closed
}

func newStepped(t testing.TB, s *Server) *stepped {
	t.Helper()
	c, client := newPair(t, s)
	st := &stepped{conn: c, client: client, answers: make(chan []byte, 1)}
	go func() {
		all, _ := io.ReadAll(client)
		st.answers <- all
	}()
	return st
}

// newPair returns a connection of the broker that nobody serves, and its peer.
func newPair(t testing.TB, s *Server) (*conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.newConn(server.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	return c, client.(*net.TCPConn)
}

// feed sends a piece and lets the broker read and handle it.
func (st *stepped) feed(piece []byte) error {
	ended := make(chan error, 1)
	go func() {
		_, err := st.client.Write(piece)
		ended <- err
	}()
	for n := 0; n < len(piece); {
		before := st.in.w
		left := st.in.w - st.in.r
		if err := st.in.fill(); err != nil {
			return fmt.Errorf("after %d of %d bytes, %d in the buffer: %w", n, len(piece), before, err)
		}
		n += st.in.w - left
		if err := st.handleBuffered(); err != nil {
			return err
		}
	}
	return <-ended
}

// end closes the connection as run does and returns the answers.
func (st *stepped) end() []byte {
	st.finishAnswers()
	st.close()
	st.tasks.Wait()
	st.in.release()
	all := <-st.answers
	st.client.Close()
	return all
}

// stream is a row of requests, and what they must lead to.
type stream struct {
	requests []byte
	answers  []byte
	logs     map[string][]byte // by "topic-partition"
	rnd      *rand.Rand
	suffix   string // of topic names

	ordered   string // the log of those with AcksOrdered, as in logs
	orderEnds bool
}

const streamMaxMessage = 30_000

// set makes a random set, and says whether it holds a message that is too
// large; tail is then 0.
func (s *stream) set(large bool) (valid, sent []byte, tooLarge bool) {
	for range s.rnd.IntN(5) {
		size := s.rnd.IntN(60)
		if large && s.rnd.IntN(4) == 0 {
			size = s.rnd.IntN(streamMaxMessage)
		}
		payload := make([]byte, size)
		for i := 0; i+8 <= size; i += 8 {
			binary.BigEndian.PutUint64(payload[i:], s.rnd.Uint64())
		}
		if s.rnd.IntN(2) == 0 {
			valid = message.Append(valid, payload)
		} else {
			valid = message.Append1(valid, payload, message.CodecNone)
		}
	}
	switch {
	case len(valid) > 0 && s.rnd.IntN(5) == 0: // a tail that is cut off
		cut := message.Append(nil, make([]byte, s.rnd.IntN(40)))
		return valid, append(bytes.Clone(valid), cut[:1+s.rnd.IntN(len(cut)-1)]...), false
	case large && s.rnd.IntN(20) == 0:
		return nil, message.Append(bytes.Clone(valid), make([]byte, streamMaxMessage+1)), true
	}
	return valid, valid, false
}

func (s *stream) place() (topic string, partition int32, key string) {
	topic = string('a'+rune(s.rnd.IntN(2))) + s.suffix
	// Runs of requests for one partition are what makes groups.
	if s.rnd.IntN(4) > 0 {
		topic = "a" + s.suffix
	} else {
		partition = int32(s.rnd.IntN(2))
	}
	return topic, partition, topic + "-" + strconv.Itoa(int(partition))
}

func (s *stream) answer(code wire.Code, payload ...[]byte) {
	p := bytes.Join(payload, nil)
	s.answers = append(wire.AppendResponseHeader(s.answers, code, len(p)), p...)
}

// add appends a random request.
func (s *stream) add(large bool) {
	topic, partition, key := s.place()
	switch s.rnd.IntN(12) {
	case 0, 1, 2, 3:
		valid, sent, _ := s.set(large)
		s.requests = wire.AppendProduce(s.requests, topic, partition, sent)
		s.logs[key] = append(s.logs[key], valid...)
	case 4:
		var entries []wire.ProduceEntry
		for range s.rnd.IntN(4) {
			topic, partition, key := s.place()
			valid, sent, _ := s.set(large)
			entries = append(entries, wire.ProduceEntry{Topic: topic, Partition: partition, Set: sent})
			s.logs[key] = append(s.logs[key], valid...)
		}
		s.requests = wire.AppendMultiProduce(s.requests, entries)
	case 5, 6, 7:
		s.addAcked(topic, partition, key, large)
	case 8:
		s.addRefused(topic, partition)
	case 9:
		log := s.logs[key]
		at, most := s.rnd.IntN(len(log)+1), s.rnd.IntN(500)
		s.requests = wire.AppendFetch(s.requests, wire.FetchEntry{Topic: topic, Partition: partition, Offset: int64(at), MaxBytes: int32(most)})
		s.answer(0, log[at:min(at+most, len(log))])
	case 10:
		entry := wire.FetchEntry{Topic: topic, Partition: partition, MaxBytes: 100}
		log := s.logs[key]
		first := answerBytes(0, log[:min(100, len(log))])
		s.requests = wire.AppendWaitFetch(s.requests, []wire.FetchEntry{entry, {Topic: topic, Partition: 7}}, 30_000, 1<<30)
		s.answer(0, first, answerBytes(wire.CodeWrongPartition, nil))
	case 11:
		s.requests = wire.AppendOffsets(s.requests, topic, partition, wire.TimeLatest, 1)
		s.answer(0, wire.AppendOffsetList(nil, []int64{int64(len(s.logs[key]))}))
	}
}

func (s *stream) addAcked(topic string, partition int32, key string, large bool) {
	valid, sent, tooLarge := s.set(large)
	acks := wire.Acks(s.rnd.IntN(4))
	s.requests = wire.AppendAckedProduce(s.requests, topic, partition, sent, acks, 30_000)
	where := wire.AckedRange{Base: int64(len(s.logs[key])), Next: int64(len(s.logs[key]) + len(valid))}
	code := wire.CodeNone
	switch {
	case acks == wire.AcksOrdered && (s.orderEnds || s.ordered != "" && s.ordered != key):
		code, valid = wire.CodeNotInOrder, nil
	case tooLarge:
		code = wire.CodeMessageTooLarge
	case acks == wire.AcksOrdered:
		s.ordered = key
	}
	s.orderEnds = s.orderEnds || acks == wire.AcksOrdered && code != wire.CodeNone
	if code != wire.CodeNone || acks == wire.AcksReceived {
		where = nowhere
	}
	s.logs[key] = append(s.logs[key], valid...)
	s.answer(code, wire.AppendAckedRange(nil, where))
}

func (s *stream) addRefused(topic string, partition int32) {
	set, acks, code := message.Append(nil, []byte("refused")), wire.AcksAppended, wire.CodeNone
	switch s.rnd.IntN(4) {
	case 0:
		set[len(set)-1]++
		code = wire.CodeInvalidMessage
	case 1:
		partition, code = -1, wire.CodeBadArgument
	case 2:
		partition, code = 2, wire.CodeWrongPartition
	case 3:
		acks, code = 4, wire.CodeBadArgument
	}
	s.requests = wire.AppendAckedProduce(s.requests, topic, partition, set, acks, 30_000)
	s.answer(code, wire.AppendAckedRange(nil, nowhere))
}

func answerBytes(code wire.Code, payload []byte) []byte {
	return append(wire.AppendResponseHeader(nil, code, len(payload)), payload...)
}

func newStream(rnd *rand.Rand, suffix string, requests int, large bool) *stream {
	s := &stream{rnd: rnd, suffix: suffix, logs: map[string][]byte{}}
	for range requests {
		s.add(large)
	}
	return s
}

// check compares the logs with what they must be.
func (s *stream) check(t *testing.T, srv *Server, answers []byte, how string) {
	t.Helper()
	if !bytes.Equal(answers, s.answers) {
		i := 0
		for i < len(answers) && i < len(s.answers) && answers[i] == s.answers[i] {
			i++
		}
		t.Fatalf("%s: %d bytes of answers, want %d; they differ from byte %d on", how, len(answers), len(s.answers), i)
	}
	for key, want := range s.logs {
		name, partition := key[:len(key)-2], int32(key[len(key)-1]-'0')
		if got := logBytes(t, srv, name, partition); !bytes.Equal(got, want) {
			t.Fatalf("%s: log of %s has %d bytes, want %d, or others", how, key, len(got), len(want))
		}
	}
	for _, name := range srv.logs.Topics() {
		if err := srv.logs.DeleteTopic(name); err != nil {
			t.Fatal(err)
		}
	}
}

func logBytes(t *testing.T, srv *Server, topic string, partition int32) []byte {
	t.Helper()
	log := srv.logs.Lookup([]byte(topic), partition)
	if log == nil {
		return nil
	}
	var all []byte
	for {
		slice, err := log.Read(int64(len(all)), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if slice.Len() == 0 {
			return all
		}
		piece := make([]byte, slice.Len())
		if n, err := slice.ReadAt(piece, 0); n < len(piece) {
			t.Fatal(err)
		}
		slice.Release()
		all = append(all, piece...)
	}
}

func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KAFKALAB_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("KAFKALAB_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func smallMessages(c *Config) { c.MaxMessageBytes = streamMaxMessage }

// TestStreamCutEverywhere feeds one stream of requests cut in two at each of
// its bytes. Neither the answers nor the logs depend on the cut.
func TestStreamCutEverywhere(t *testing.T) {
	srv := memoryBroker(t, smallMessages)
	rnd := seeded(t)
	seed := rnd.Uint64()
	length := 2
	for cut := 1; cut < length; cut++ {
		s := newStream(rand.New(rand.NewPCG(seed, 0)), fmt.Sprintf("%06d", cut), 25, false)
		length = len(s.requests)
		st := newStepped(t, srv)
		for _, piece := range [][]byte{s.requests[:cut], s.requests[cut:]} {
			if err := st.feed(piece); err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		s.check(t, srv, st.end(), fmt.Sprintf("cut at %d", cut))
	}
}

// TestStreamCutAtRandom feeds long streams, with requests larger than any
// pooled buffer among them, in pieces of random length.
func TestStreamCutAtRandom(t *testing.T) {
	srv := memoryBroker(t, smallMessages)
	rnd := seeded(t)
	for round := range 20 {
		s := newStream(rnd, fmt.Sprintf("%03d", round), 300, true)
		if round%10 == 0 { // one that must be grown for
			var set []byte
			for len(set) < 3<<20 {
				set = message.Append(set, make([]byte, rnd.IntN(streamMaxMessage)))
			}
			key := "a" + s.suffix + "-0"
			s.requests = wire.AppendProduce(s.requests, "a"+s.suffix, 0, set)
			s.logs[key] = append(s.logs[key], set...)
			for range 20 {
				s.add(true)
			}
		}
		st := newStepped(t, srv)
		most := max(len(s.requests)>>rnd.IntN(11), 1) // some 1 to 2,000 pieces
		for rest := s.requests; len(rest) > 0; {
			n := min(1+rnd.IntN(most), len(rest))
			if err := st.feed(rest[:n]); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			rest = rest[n:]
		}
		s.check(t, srv, st.end(), fmt.Sprintf("round %d", round))
	}
}

// TestGroupIsOneWrite: the sets of many small requests that arrive together
// reach the file in one write.
func TestGroupIsOneWrite(t *testing.T) {
	files := vfs.NewMem(time.Now)
	srv := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	var writes atomic.Int64
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			writes.Add(1)
		}
		return nil
	})
	var requests, want []byte
	for i := range 100 {
		set := message.Append(nil, binary.BigEndian.AppendUint32(nil, uint32(i)))
		requests = wire.AppendProduce(requests, "a", 0, set)
		want = append(want, set...)
	}
	st := newStepped(t, srv)
	if err := st.feed(requests); err != nil {
		t.Fatal(err)
	}
	st.end()
	if got := logBytes(t, srv, "a", 0); !bytes.Equal(got, want) {
		t.Fatalf("the log has %d bytes, want %d, or others", len(got), len(want))
	}
	if n := writes.Load(); n != 1 {
		t.Errorf("%d writes for 100 requests in one read, want 1", n)
	}
}

// TestLargeSetsAreNotMoved: those that begin a group of their own, and small ones
// between them, are each answered with their own place, and lie there.
func TestLargeSetsAreNotMoved(t *testing.T) {
	s := memoryBroker(t)
	l := connect(t, s)
	var requests, want []byte
	var ends []int64
	for i, size := range []int{100, movedBytes, 50, 50, 2 * movedBytes, 2*movedBytes + 1, movedBytes - 1000, 10} {
		set := message.Append(nil, bytes.Repeat([]byte{byte(i)}, size))
		requests = wire.AppendAckedProduce(requests, "t", 0, set, wire.AcksAppended, 1000)
		want = append(want, set...)
		ends = append(ends, int64(len(want)))
	}
	l.send(requests)
	base := int64(0)
	for _, end := range ends {
		l.wantRange(0, base, end)
		base = end
	}
	if got := logBytes(t, s, "t", 0); !bytes.Equal(got, want) {
		t.Errorf("the log has %d bytes, not the %d that were sent in their order", len(got), len(want))
	}
}

// TestDeleteBeforeAppend: a topic that is deleted between the start of a group
// and its append is made anew.
func TestDeleteBeforeAppend(t *testing.T) {
	srv := memoryBroker(t)
	st := newStepped(t, srv)
	set := message.Append(nil, []byte("again"))
	p := wire.Produce{Topic: []byte("a"), Partition: 0, Set: set}
	if err := st.feed(wire.AppendProduce(nil, "a", 0, set)); err != nil {
		t.Fatal(err)
	}
	if _, err := st.addSet(&p, 17); err != nil { // the set lies in the buffer still
		t.Fatal(err)
	}
	if err := srv.logs.DeleteTopic("a"); err != nil {
		t.Fatal(err)
	}
	if err := st.flushGroup(); err != nil {
		t.Fatal(err)
	}
	if got := logBytes(t, srv, "a", 0); !bytes.Equal(got, set) {
		t.Errorf("log is %x, want %x", got, set)
	}
	st.end()
}
