package rabbitmq

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

// appendFrame appends a frame of AMQP.
func appendFrame(b []byte, kind byte, payload int) []byte {
	b = append(b, kind, 0, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(payload))
	b = append(b, bytes.Repeat([]byte{contentHeader}, payload)...)
	return append(b, 0xCE)
}

// The messages in a stream are counted however the stream is cut.
func TestGateCounts(t *testing.T) {
	var stream []byte
	for i := range 50 {
		stream = appendFrame(stream, 1, 20)
		stream = appendFrame(stream, contentHeader, i%30)
		stream = appendFrame(stream, 3, i*7)
		stream = appendFrame(stream, 8, 0) // heartbeat
	}
	seed := rand.Uint64()
	if given := os.Getenv("KAFKALAB_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
	}
	t.Logf("KAFKALAB_SEED=%d makes the same pieces again", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, most := range []int{1, 2, 7, 8, 100, len(stream)} {
		g := newGate(nil, 1)
		total := int64(0)
		for rest := stream; len(rest) > 0; {
			n := min(1+random.IntN(most), len(rest))
			total += g.count(rest[:n])
			rest = rest[n:]
		}
		if total != 50 || g.have != 0 || g.skip != 0 {
			t.Errorf("in pieces of up to %d: %d messages, %d and %d bytes left over", most, total, g.have, g.skip)
		}
	}
}

// Reading stops at the limit and goes on when messages have been handled.
func TestGateHolds(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	go func() {
		defer server.Close()
		for range 6 {
			if _, err := server.Write(appendFrame(nil, contentHeader, 4)); err != nil {
				t.Error(err)
			}
		}
	}()
	g := newGate(client, 2)
	read := make(chan struct{})
	go func() {
		defer close(read)
		if _, err := io.Copy(io.Discard, g); err != nil {
			t.Error(err)
		}
	}()
	ahead := func(want int64) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			g.mu.Lock()
			n := g.ahead
			g.mu.Unlock()
			if n == want {
				return
			}
			if time.Now().After(deadline) || n > want {
				t.Fatalf("%d messages ahead, wanted %d", n, want)
			}
		}
	}
	ahead(2)
	g.handled(1)
	ahead(2)
	g.handled(2)
	ahead(2)
	g.open()
	ahead(3) // all six, of which three are handled
	<-read
}
