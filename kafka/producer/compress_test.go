package producer_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

var codecs = []message.Codec{message.CodecGzip, message.CodecSnappy}

// noise returns n bytes that no codec makes fewer of.
func noise(n int) []byte {
	rnd, b := rand.New(rand.NewPCG(uint64(n), 1)), make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// entries returns the entries of a set as they are stored.
func entries(t *testing.T, set []byte) (list []message.Message) {
	t.Helper()
	it := message.Set(set).IterateShallow(0)
	for it.Next() {
		list = append(list, it.Message())
	}
	if it.Err() != nil || it.ValidBytes() != len(set) {
		t.Fatalf("%d of %d bytes are entries, %v", it.ValidBytes(), len(set), it.Err())
	}
	return list
}

// With a codec everything is delivered as without, once and in order, and what
// would be a set of messages is one compressed message.
func TestCompressedDelivery(t *testing.T) {
	for _, codec := range codecs {
		for _, cfg := range []producer.Config{{}, {Async: true}, {Acks: producer.AcksAppended}, {Async: true, Acks: producer.AcksFlushed}, {NoCoalesce: true}} {
			t.Run(fmt.Sprintf("%v acks %v async %v noCoalesce %v", codec, cfg.Acks, cfg.Async, cfg.NoCoalesce), func(t *testing.T) {
				s := newSink(t, nil)
				cfg.Brokers, cfg.Codec = []string{s.addr}, codec
				cfg.BatchMessages, cfg.QueueInterval, cfg.MaxBufferBytes, cfg.MaxInFlight = 7, time.Hour, 500, 3
				p := newProducer(t, cfg)
				payloads, want := numbered(1000)
				for i := 0; i < len(payloads); i += 4 {
					mustSend(t, p, "t", 0, payloads[i:i+4]...)
				}
				if err := p.Flush(testContext(t)); err != nil {
					t.Fatal(err)
				}
				if got := s.got("t-0"); !reflect.DeepEqual(got, want) {
					t.Fatalf("%d messages after flush, want %d in order", len(got), len(want))
				}
				mustSend(t, p, "t", 0, []byte("alone"))
				mustClose(t, p)
				var stored int64
				for i, set := range s.stored {
					if list := entries(t, set); len(list) != 1 || list[0].Codec() != codec || list[0].Magic != message.Magic1 {
						t.Fatalf("set %d is of %d entries, the first %v with magic %d", i, len(list), list[0].Codec(), list[0].Magic)
					}
					stored += int64(len(set))
				}
				perSet := 4
				if cfg.Async {
					perSet = 7
				}
				if last := len(s.sets) - 1; s.sets[0] != perSet || s.sets[last] != 1 {
					t.Errorf("sets of %v messages", s.sets)
				}
				st := p.Stats()
				if st.Sent != 1001 || st.Delivered != 1001 || st.Failed != 0 || st.RequestBytes != stored {
					t.Errorf("stats %+v, %d bytes of sets arrived", st, stored)
				}
			})
		}
	}
}

// A set whose compressed message would be larger than the broker takes is split,
// and stays one request; messages that no split makes small enough go as they
// are, or are refused.
func TestCompressedSetIsSplit(t *testing.T) {
	const limit = 2000
	var payloads [][]byte
	var want []string
	for i, n := range []int{10, 700, 1500, 1900, 0, 5, limit, 900, 900, 300, 1} { // at the limit: without compression
		payloads = append(payloads, append([]byte{}, noise(n)...))
		want = append(want, string(payloads[i]))
	}
	zeros := make([]byte, 50*limit) // far above the limit, until they are compressed
	payloads, want = append(payloads, zeros), append(want, string(zeros))
	for _, codec := range codecs {
		for _, cfg := range []producer.Config{{}, {Async: true}, {Acks: producer.AcksAppended}} {
			t.Run(fmt.Sprintf("%v acks %v async %v", codec, cfg.Acks, cfg.Async), func(t *testing.T) {
				s := newSink(t, nil)
				cfg.Brokers, cfg.Codec, cfg.MaxMessageBytes = []string{s.addr}, codec, limit
				payloads, want := payloads, want
				if codec == message.CodecSnappy { // which makes no less than a 22nd of anything
					payloads, want = slices.Clone(payloads), slices.Clone(want)
					last := len(payloads) - 1
					payloads[last] = payloads[last][:15*limit]
					want[last] = string(payloads[last])
				}
				p := newProducer(t, cfg)
				mustSend(t, p, "t", 0, payloads...)
				mustClose(t, p)
				if got := s.got("t-0"); !slices.Equal(got, want) {
					t.Fatalf("%d messages, want %d", len(got), len(want))
				}
				if len(s.stored) != 1 {
					t.Fatalf("%d requests", len(s.stored))
				}
				list, plain := entries(t, s.stored[0]), 0
				for i, m := range list {
					if len(m.Payload) > limit {
						t.Errorf("entry %d has %d bytes", i, len(m.Payload))
					}
					if m.Codec() == message.CodecNone {
						plain++
					}
				}
				if len(list) < 4 || len(list) >= len(want) || plain != 1 {
					t.Errorf("%d entries, %d of them plain", len(list), plain)
				}
			})
		}
	}
}

func TestCompressedMessageTooLarge(t *testing.T) {
	s := newSink(t, nil)
	for _, async := range []bool{false, true} {
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Async: async, Codec: message.CodecGzip, MaxMessageBytes: 1000})
		err := p.Send(testContext(t), "t", 0, []byte("small"), noise(1001))
		if !errors.Is(err, producer.ErrTooLarge) || !strings.Contains(err.Error(), "t-0") || !strings.Contains(err.Error(), "1001 bytes") || !strings.Contains(err.Error(), "gzip") {
			t.Errorf("async %v: %v", async, err)
		}
		err = p.Send(testContext(t), "t", 0, make([]byte, message.DefaultMaxDecompressed))
		if !errors.Is(err, producer.ErrTooLarge) {
			t.Errorf("async %v, more than brokers decompress: %v", async, err)
		}
		mustSend(t, p, "t", 0, make([]byte, 100_000))
		mustClose(t, p)
		if st := p.Stats(); st.Sent != 4 || st.Delivered != 1 || st.Failed != 3 {
			t.Errorf("async %v: stats %+v", async, st)
		}
	}
	if got := s.got("t-0"); len(got) != 2 {
		t.Errorf("%d messages arrived", len(got))
	}
}

// TestCompressedAtTheLimit: a payload that no codec makes smaller goes as it is up to
// MaxMessageBytes, also where its entry is larger than that. A larger one is refused by
// its own Send, whether it is the first one of a batch or joins others, and costs none
// of them anything.
func TestCompressedAtTheLimit(t *testing.T) {
	const limit = 1000
	for _, codec := range codecs {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v async %v", codec, async), func(t *testing.T) {
				s := newSink(t, nil)
				p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Async: async, Codec: codec, MaxMessageBytes: limit, QueueInterval: time.Hour})
				var want []string
				refused := int64(0)
				for n := limit - 12; n <= limit+12; n++ {
					for _, payload := range [][]byte{noise(n), []byte("small"), noise(n)} {
						err := p.Send(testContext(t), "t", 0, payload)
						switch {
						case len(payload) > limit:
							if refused++; !errors.Is(err, producer.ErrTooLarge) {
								t.Errorf("%d bytes: %v", n, err)
							}
						case err != nil:
							t.Errorf("%d bytes: %v", len(payload), err)
						default:
							want = append(want, string(payload))
						}
					}
					if n%4 == 0 { // the next one begins a batch
						if err := p.Flush(testContext(t)); err != nil {
							t.Fatalf("up to %d bytes: %v", n, err)
						}
					}
				}
				mustClose(t, p)
				if got := s.got("t-0"); !slices.Equal(got, want) {
					t.Errorf("%d messages, not the %d that were taken in their order", len(got), len(want))
				}
				for _, set := range s.stored {
					for _, m := range entries(t, set) {
						if len(m.Payload) > limit {
							t.Errorf("an entry of %d bytes", len(m.Payload))
						}
					}
				}
				if st := p.Stats(); st.Failed != refused || st.Delivered != int64(len(want)) || st.Sent != refused+int64(len(want)) {
					t.Errorf("stats %+v, %d refused, %d taken", st, refused, len(want))
				}
			})
		}
	}
}

// Against a real broker, which checks what is inside and counts it.
func TestCompressedToABroker(t *testing.T) {
	const n = 5000
	for _, codec := range codecs {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v async %v", codec, async), func(t *testing.T) {
				b := kafkatest.Start(t)
				p := newProducer(t, producer.Config{Brokers: []string{b.HostPort()}, Async: async, Codec: codec, Acks: producer.AcksFlushed})
				payloads, want := numbered(n)
				for i := 0; i < n; i += 50 {
					mustSend(t, p, "t", 0, payloads[i:i+50]...)
				}
				mustSend(t, p, "t", 0, noise(990_000), noise(990_001)) // more than a message may have
				want = append(want, string(noise(990_000)), string(noise(990_001)))
				mustClose(t, p)
				st := p.Stats()
				if end := logEnd(t, b.HostPort()); end != st.RequestBytes || st.RequestBytes >= st.Bytes {
					t.Errorf("log end %d, %d bytes sent, %d before compression", end, st.RequestBytes, st.Bytes)
				}
				c, err := client.Dial(testContext(t), b.HostPort(), client.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				set, err := c.Fetch(testContext(t), wire.FetchEntry{Topic: "t", MaxBytes: 8 << 20})
				if err != nil {
					t.Fatal(err)
				}
				it := set.Iterate(0)
				for i := 0; it.Next(); i++ {
					if i >= len(want) || !bytes.Equal(it.Message().Payload, []byte(want[i])) {
						t.Fatalf("message %d of %d is %.50q", i, len(want), it.Message().Payload)
					}
				}
				if it.Err() != nil || it.NextOffset() != st.RequestBytes {
					t.Errorf("the log is sound up to %d, %v", it.NextOffset(), it.Err())
				}
			})
		}
	}
}
