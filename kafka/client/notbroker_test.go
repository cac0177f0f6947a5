package client_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/wire"
)

// TestB06PeerThatIsNoBroker, the client's half of fault B06: whatever a peer that
// is no broker sends, the call ends with an error that says so and names the
// peer, and the memory that the peer claims is never allotted.
func TestB06PeerThatIsNoBroker(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	noise := make([]byte, 1<<20)
	for i, rng := 0, rand.New(rand.NewPCG(seed, 0)); i < len(noise); i += 8 {
		binary.BigEndian.PutUint64(noise[i:], rng.Uint64())
	}
	size := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	minusOne, most := uint32(0xffffffff), uint32(1<<31-1)
	count := func(n uint32) []byte { return response(0, binary.BigEndian.AppendUint32(nil, n)) }
	answers := map[string][]byte{
		"size 0":            size(0, 0, 0),
		"size 1":            size(1, 0, 0),
		"size -1":           size(minusOne, 0, 0),
		"size 2^31-1":       size(most, 0, 0),
		"size, silence":     size(1000, 0, 0),
		"half a header":     {0, 0, 0},
		"HTTP":              []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"TLS alert":         {0x15, 3, 1, 0, 2, 2, 70},
		"ssh":               []byte("SSH-2.0-OpenSSH_9.6\r\n"),
		"noise":             noise,
		"count -1":          count(minusOne),
		"count 2^31-1":      count(most),
		"nothing":           {},
		"inner size 1":      response(0, size(1, 0, 0)),
		"inner 2^31-1":      response(0, size(most, 0, 0)),
		"payload too short": response(0, []byte{0, 0}),
	}
	entry := wire.FetchEntry{Topic: "t", MaxBytes: 1 << 20}
	calls := map[string]func(context.Context, *client.Conn) error{
		"MultiFetch": func(ctx context.Context, c *client.Conn) error {
			_, err := c.MultiFetch(ctx, []wire.FetchEntry{entry, entry})
			return err
		},
		"WaitFetch": func(ctx context.Context, c *client.Conn) error {
			_, err := c.WaitFetch(ctx, []wire.FetchEntry{entry}, 0, 1)
			return err
		},
		"Offsets": func(ctx context.Context, c *client.Conn) error {
			_, err := c.Offsets(ctx, "t", 0, -1, 1<<31-1)
			return err
		},
		"Topics": func(ctx context.Context, c *client.Conn) error {
			_, err := c.Topics(ctx)
			return err
		},
		"AckedProduce": func(ctx context.Context, c *client.Conn) error {
			_, err := c.AckedProduce(ctx, "t", 0, nil, wire.AcksAppended, 0)
			return err
		},
	}
	for answer, b := range answers {
		for call, do := range calls {
			for _, closes := range []bool{false, true} {
				addr := kafkatest.Peer(t, func(nc net.Conn) {
					if _, _, ok := readRequest(nc); !ok {
						return
					}
					// The client hangs up as soon as it knows; then this fails.
					_, _ = nc.Write(b)
					if !closes {
						readRequest(nc)
					}
				})
				c := dial(t, addr, client.Config{RequestTimeout: 20 * time.Millisecond})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := do(testContext(t), c)
				runtime.ReadMemStats(&after)
				if err == nil || !strings.Contains(err.Error(), "not a broker") || !strings.Contains(err.Error(), addr) {
					t.Errorf("%s to %s (peer closes: %v): error %v", answer, call, closes, err)
				}
				if c.Err() == nil {
					t.Errorf("%s to %s: connection is still usable", answer, call)
				}
				if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
					t.Errorf("%s to %s: %d bytes allotted", answer, call, grown)
				}
			}
		}
	}
}

func TestUnaskedBytesAreNotFromABroker(t *testing.T) {
	addr := kafkatest.Peer(t, func(nc net.Conn) { _, _ = nc.Write([]byte("220 mail ready")) })
	c := dial(t, addr, client.Config{})
	if _, _, err := c.Receive(testContext(t), nil); err == nil || !strings.Contains(err.Error(), "not a broker") {
		t.Errorf("error %v", err)
	}
}
