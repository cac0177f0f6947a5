package broker_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Runner{M: m}) }

// patience bounds every wait of a test for something that should come at once.
const patience = 20 * time.Second

// peer is a client that speaks bytes.
type peer struct {
	*net.TCPConn
	t testing.TB
}

func dial(t testing.TB, b *kafkatest.Broker) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", b.HostPort())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{conn.(*net.TCPConn), t}
	t.Cleanup(func() { p.Close() })
	return p
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	p.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// read reads exactly n bytes.
func (p *peer) read(n int) []byte {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, n)
	if got, err := io.ReadFull(p, b); err != nil {
		p.t.Fatalf("read %d bytes: got %d (%.50x): %v", n, got, b[:got], err)
	}
	return b
}

// answer reads one answer.
func (p *peer) answer() (wire.Code, []byte) {
	p.t.Helper()
	code, n, err := wire.ParseResponseHeader(p.read(wire.ResponseHeaderSize), 1<<30)
	if err != nil {
		p.t.Fatal(err)
	}
	return code, p.read(n)
}

// want reads one answer that must be this one.
func (p *peer) want(code wire.Code, payload []byte) {
	p.t.Helper()
	gotCode, got := p.answer()
	if gotCode != code || !bytes.Equal(got, payload) {
		p.t.Fatalf("answer %d %.200x (%d bytes), want %d %.200x (%d bytes)", gotCode, got, len(got), code, payload, len(payload))
	}
}

// rest reads until the broker closes the connection.
func (p *peer) rest() []byte {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(p)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("read to the end: got %d bytes: %v", len(b), err)
	}
	return b
}

// barrier waits until everything that was sent before has been handled.
func (p *peer) barrier() {
	p.t.Helper()
	p.send(wire.AppendOffsets(nil, "barrier", 0, wire.TimeLatest, 1))
	p.want(wire.CodeNone, wire.AppendOffsetList(nil, []int64{0}))
}

// logOf returns all that is visible of a partition.
func logOf(t testing.TB, b *kafkatest.Broker, topic string, partition int32) []byte {
	t.Helper()
	p := dial(t, b)
	defer p.Close()
	var all []byte
	for {
		p.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: topic, Partition: partition, Offset: int64(len(all)), MaxBytes: 1 << 20}))
		code, set := p.answer()
		if code != wire.CodeNone {
			t.Fatalf("fetch of %s-%d at %d: %v", topic, partition, len(all), code)
		}
		if len(set) == 0 {
			return all
		}
		all = append(all, set...)
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

func entry(payload string) []byte { return message.Append(nil, []byte(payload)) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// eventually waits until what it asks for holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// random returns a source of random numbers whose seed is printed, and can be
// given as KAFKALAB_SEED.
func random(t testing.TB) *rand.Rand {
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
