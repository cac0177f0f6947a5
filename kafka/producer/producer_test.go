package producer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(brokerProcess); dir != "" {
		if err := runBroker(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(zktest.Runner{M: m})
}

func newProducer(t *testing.T, cfg producer.Config) *producer.Producer {
	t.Helper()
	p, err := producer.New(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.Close(ctx) // tests that care have closed it
	})
	return p
}

func mustSend(t *testing.T, p *producer.Producer, topic string, partition int32, payloads ...[]byte) {
	t.Helper()
	if err := p.Send(testContext(t), topic, partition, payloads...); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t *testing.T, p *producer.Producer) {
	t.Helper()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func numbered(n int) (payloads [][]byte, want []string) {
	for i := range n {
		want = append(want, fmt.Sprintf("message %d", i))
		payloads = append(payloads, []byte(want[i]))
	}
	return payloads, want
}

// Every kind of producer delivers each message once and in order, and a flush
// returns only when the broker has it.
func TestDelivery(t *testing.T) {
	for _, acks := range []producer.Acks{producer.AcksNone, producer.AcksReceived, producer.AcksFlushed} {
		for _, async := range []bool{false, true} {
			for _, noCoalesce := range []bool{false, true} {
				t.Run(fmt.Sprintf("acks %v async %v noCoalesce %v", acks, async, noCoalesce), func(t *testing.T) {
					s := newSink(t, nil)
					p := newProducer(t, producer.Config{
						Brokers: []string{s.addr}, Acks: acks, Async: async, NoCoalesce: noCoalesce,
						BatchMessages: 7, QueueInterval: time.Hour, MaxBufferBytes: 500, MaxInFlight: 3,
					})
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
					mustSend(t, p, "t", 0, []byte("last"))
					mustClose(t, p)
					if got := s.got("t-0"); !reflect.DeepEqual(got, append(want, "last")) {
						t.Errorf("%d messages after close", len(got))
					}
					st := p.Stats()
					if st.Sent != 1001 || st.Delivered != 1001 || st.Failed != 0 {
						t.Errorf("stats %+v", st)
					}
					if noCoalesce && st.Writes < st.Requests {
						t.Errorf("%d writes for %d requests", st.Writes, st.Requests)
					}
				})
			}
		}
	}
}

func TestSyncSendIsOneSetOfOneRequest(t *testing.T) {
	s := newSink(t, nil)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}})
	payloads, _ := numbered(50)
	mustSend(t, p, "t", -1, payloads...)
	mustSend(t, p, "t", -1)
	mustSend(t, p, "t", -1, payloads[0])
	mustClose(t, p)
	if !reflect.DeepEqual(s.sets, []int{50, 1}) {
		t.Errorf("sets of %v messages, want 50 and 1", s.sets)
	}
	if len(s.got("t--1")) != 51 {
		t.Errorf("partition -1 got %d messages", len(s.got("t--1")))
	}
}

// While a write is under way, what is sent gathers and leaves with one write.
func TestCoalescing(t *testing.T) {
	s := newSink(t, nil)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}})
	payload := make([]byte, 200)
	const n = 100_000
	for range n {
		mustSend(t, p, "t", 0, payload)
	}
	mustClose(t, p)
	st := p.Stats()
	if got := len(s.got("t-0")); got != n {
		t.Fatalf("%d messages, want %d", got, n)
	}
	if st.Requests != n || st.Writes > n/10 {
		t.Errorf("%d requests left with %d writes", st.Requests, st.Writes)
	}
}

func TestAsyncBatches(t *testing.T) {
	t.Run("close at their number, by partition", func(t *testing.T) {
		s := newSink(t, nil)
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Async: true, BatchMessages: 10, QueueInterval: time.Hour})
		payloads, want := numbered(25)
		for _, payload := range payloads {
			mustSend(t, p, "a", 0, payload)
			mustSend(t, p, "a", 1, payload)
			mustSend(t, p, "b", 0, payload)
		}
		s.await("six full batches", func() bool { return len(s.sets) == 6 })
		mustClose(t, p)
		for _, key := range []string{"a-0", "a-1", "b-0"} {
			if got := s.got(key); !reflect.DeepEqual(got, want) {
				t.Errorf("%s got %d messages", key, len(got))
			}
		}
		if !reflect.DeepEqual(s.sets, []int{10, 10, 10, 10, 10, 10, 5, 5, 5}) {
			t.Errorf("sets of %v messages", s.sets)
		}
	})
	t.Run("leave after the queue interval", func(t *testing.T) {
		s := newSink(t, nil)
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Async: true, QueueInterval: 20 * time.Millisecond})
		mustSend(t, p, "t", 0, []byte("x"))
		s.await("the first", func() bool { return len(s.sets) == 1 })
		mustSend(t, p, "t", 0, []byte("y"))
		s.await("the second", func() bool { return len(s.sets) == 2 })
	})
	t.Run("are bounded in bytes", func(t *testing.T) {
		s := newSink(t, nil)
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Async: true, BatchMessages: 1 << 30, QueueInterval: time.Hour, MaxBufferBytes: 1000})
		for i := range 3000 {
			mustSend(t, p, "t", int32(i%300), make([]byte, 91))
		}
		s.await("most of them", func() bool {
			n := 0
			for _, m := range s.sets {
				n += m
			}
			return n >= 3000-4000/100
		})
		mustClose(t, p)
	})
}

func TestArguments(t *testing.T) {
	s := newSink(t, nil)
	for name, cfg := range map[string]producer.Config{
		"no broker": {},
		"acks":      {Brokers: []string{s.addr}, Acks: 9},
		"negative":  {Brokers: []string{s.addr}, MaxBufferBytes: -1},
		"too large": {Brokers: []string{s.addr}, MaxMessageBytes: 1 << 30},
		"buffer":    {Brokers: []string{s.addr}, MaxBufferBytes: 100 << 20},
		"codec":     {Brokers: []string{s.addr}, Codec: 3},
		"policy":    {Brokers: []string{s.addr}, QueueFull: 4},
		"no queue":  {Brokers: []string{s.addr}, QueueFull: producer.QueueDrop, Acks: producer.AcksAppended},
		"no limit":  {Brokers: []string{s.addr}, QueueFull: producer.QueueWaitAtMost},
		"limit":     {Brokers: []string{s.addr}, QueueTimeout: time.Second},
	} {
		if _, err := producer.New(testContext(t), cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}, MaxMessageBytes: 100})
	for name, send := range map[string]func() error{
		"topic":     func() error { return p.Send(testContext(t), "a/b", 0, []byte("x")) },
		"partition": func() error { return p.Send(testContext(t), "t", -2, []byte("x")) },
		"payload":   func() error { return p.Send(testContext(t), "t", 0, make([]byte, 100), make([]byte, 101)) },
	} {
		if err := send(); err == nil {
			t.Errorf("%s: accepted", name)
		} else if name == "payload" && (!errors.Is(err, producer.ErrTooLarge) || !strings.Contains(err.Error(), "101 bytes")) {
			t.Errorf("payload: %v", err)
		}
	}
	mustSend(t, p, "t", 0, make([]byte, 100))
	mustClose(t, p)
	if err := p.Send(testContext(t), "t", 0, []byte("x")); !errors.Is(err, producer.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
	if err := p.Flush(testContext(t)); !errors.Is(err, producer.ErrClosed) {
		t.Errorf("flush after close: %v", err)
	}
	acked := newProducer(t, producer.Config{Brokers: []string{s.addr}, Acks: producer.AcksAppended})
	if err := acked.Send(testContext(t), "t", -1, []byte("x")); err == nil {
		t.Error("acknowledged send to partition -1 accepted")
	}
	for _, a := range []producer.Acks{producer.AcksNone, producer.AcksReceived, producer.AcksAppended, producer.AcksFlushed} {
		if got, err := producer.ParseAcks(a.String()); err != nil || got != a {
			t.Errorf("acks %v: %v, %v", a, got, err)
		}
	}
	if _, err := producer.ParseAcks("all"); err == nil {
		t.Error("acks all accepted")
	}
}

// A request larger than the buffer goes alone.
func TestRequestLargerThanTheBuffer(t *testing.T) {
	s := newSink(t, nil)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}, MaxBufferBytes: 100})
	large := strings.Repeat("x", 5000)
	for range 3 {
		mustSend(t, p, "t", 0, []byte("small"))
		mustSend(t, p, "t", 0, []byte(large))
	}
	mustClose(t, p)
	if got := s.got("t-0"); !reflect.DeepEqual(got, []string{"small", large, "small", large, "small", large}) {
		t.Errorf("%d messages", len(got))
	}
}

// TestB16FullBuffer: a full buffer makes Send wait, its context ends the wait,
// and nothing is missing afterwards (fault B16).
func TestB16FullBuffer(t *testing.T) {
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprintf("async %v", async), func(t *testing.T) {
			s := newSink(t, nil)
			s.stall(true)
			p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Async: async, BatchMessages: 3, MaxBufferBytes: 10_000})
			payload := make([]byte, 1000)
			var sent int64
			for {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				err := p.Send(ctx, "t", 0, payload)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				sent++
			}
			if st := p.Stats(); st.Sent != sent+1 || st.Failed != 1 {
				t.Errorf("stats %+v, %d sends returned nil and one an error", st, sent)
			}
			waiting := make(chan error)
			go func() { waiting <- p.Send(testContext(t), "t", 0, payload) }()
			s.stall(false)
			if err := <-waiting; err != nil {
				t.Errorf("waiting send: %v", err)
			}
			mustClose(t, p)
			if got := int64(len(s.got("t-0"))); got != sent+1 {
				t.Errorf("%d messages arrived, %d were taken", got, sent+1)
			}
		})
	}
}

// TestB15Close: close delivers everything; with a broker that is stopped it ends
// in time and counts what was not sent; a second close is harmless (fault B15).
func TestB15Close(t *testing.T) {
	payloads, want := numbered(10_000)
	send := func(t *testing.T, p *producer.Producer) {
		for _, payload := range payloads {
			mustSend(t, p, "t", 0, payload)
		}
	}
	configs := map[string]producer.Config{
		"sync":        {},
		"async":       {Async: true},
		"async acked": {Async: true, Acks: producer.AcksAppended},
	}
	for name, cfg := range configs {
		t.Run(name+" delivers", func(t *testing.T) {
			s := newSink(t, nil)
			cfg.Brokers = []string{s.addr}
			p := newProducer(t, cfg)
			send(t, p)
			mustClose(t, p)
			mustClose(t, p)
			if got := s.got("t-0"); !reflect.DeepEqual(got, want) {
				t.Errorf("%d messages, want %d", len(got), len(want))
			}
		})
		t.Run(name+" to a stalled broker", func(t *testing.T) {
			s := newSink(t, nil)
			s.stall(true)
			cfg.Brokers = []string{s.addr}
			p := newProducer(t, cfg)
			send(t, p)
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			err := p.Close(ctx)
			var notSent *producer.NotSentError
			if !errors.As(err, &notSent) || notSent.Messages != 10_000 || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("error %v, want one that counts 10000 messages", err)
			}
			if notSent.Bytes != p.Stats().Bytes {
				t.Errorf("%d bytes, want %d", notSent.Bytes, p.Stats().Bytes)
			}
			if again := p.Close(context.Background()); again != err {
				t.Errorf("second close: %v", again)
			}
		})
		t.Run(name+" to a broker that is gone", func(t *testing.T) {
			s := newSink(t, nil)
			cfg.Brokers = []string{s.addr}
			p := newProducer(t, cfg)
			s.stop()
			// A send, or close, reports what was written before the end was
			// noticed; either way every message is counted once.
			var reported, taken int64
			var notSent *producer.NotSentError
			for _, payload := range payloads {
				err := p.Send(testContext(t), "t", 0, payload)
				if errors.As(err, &notSent) {
					reported += notSent.Messages
				} else if err != nil {
					t.Fatal(err)
				} else {
					taken++
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			err := p.Close(ctx)
			if !errors.As(err, &notSent) {
				t.Fatalf("error %v", err)
			}
			if reported += notSent.Messages; reported != taken {
				t.Errorf("%d messages reported, %d taken", reported, taken)
			}
		})
	}
}

// After a broken connection the producer goes on over a new one; what may be
// lost is counted, and nothing arrives twice.
func TestReconnect(t *testing.T) {
	for name, cfg := range map[string]producer.Config{
		"sync":                   {},
		"no coalesce":            {NoCoalesce: true},
		"async":                  {Async: true, BatchMessages: 2},
		"async acked":            {Async: true, BatchMessages: 2, Acks: producer.AcksAppended},
		"sync acked":             {Acks: producer.AcksAppended},
		"compressed":             {Codec: message.CodecSnappy},
		"compressed async":       {Async: true, BatchMessages: 2, Codec: message.CodecGzip},
		"compressed async acked": {Async: true, BatchMessages: 2, Acks: producer.AcksAppended, Codec: message.CodecSnappy},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t, func(s *sink) { s.hangUpAfter = 100 })
			cfg.Brokers = []string{s.addr}
			cfg.MaxBufferBytes = 300
			p := newProducer(t, cfg)
			payloads, _ := numbered(1000)
			var taken, reported int64
			var notSent *producer.NotSentError
			count := func(err error) bool {
				if errors.As(err, &notSent) {
					reported += notSent.Messages
					return true
				}
				return false
			}
			for _, payload := range payloads {
				if err := p.Send(testContext(t), "t", 0, payload); err == nil {
					taken++
				} else {
					count(err) // or a write or an acknowledgement of this very message failed
				}
			}
			if err := p.Flush(testContext(t)); err != nil && !count(err) {
				t.Fatal(err)
			}
			mustSend(t, p, "t", 0, []byte("after"))
			taken++
			mustClose(t, p)
			got := s.got("t-0")
			if got[len(got)-1] != "after" {
				t.Errorf("the last message is %q", got[len(got)-1])
			}
			seen := map[string]bool{}
			for _, m := range got {
				if seen[m] {
					t.Errorf("%q arrived twice", m)
				}
				seen[m] = true
			}
			// A message that failed may have arrived, so there can be more than
			// the certain ones, but never fewer.
			if n := int64(len(got)); n < taken-reported || s.accepted < 2 {
				t.Errorf("%d arrived, %d taken, %d reported, %d connections", n, taken, reported, s.accepted)
			}
			if st := p.Stats(); st.Sent != st.Delivered+st.Dropped+st.Failed {
				t.Errorf("stats do not add up: %+v", st)
			}
		})
	}
}

// logged tells when the end of a connection is logged.
type logged chan struct{}

func (l logged) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "connection ended") {
		select {
		case l <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

func TestIdleProducerNoticesTheEndOfItsConnection(t *testing.T) {
	s := newSink(t, nil)
	ended := make(logged, 1)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Logger: slog.New(slog.NewTextHandler(ended, nil))})
	mustSend(t, p, "t", 0, []byte("first"))
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	// Everything is confirmed, so a hang-up loses nothing and is no error.
	addr := s.addr
	s.stop()
	<-ended
	s.listen(addr)
	mustSend(t, p, "t", 0, []byte("second"))
	mustClose(t, p)
	if got := s.got("t-0"); !reflect.DeepEqual(got, []string{"first", "second"}) {
		t.Errorf("got %q", got)
	}
}

// What is written is confirmed soon, also when nobody flushes.
func TestConfirmationOfAnIdleProducer(t *testing.T) {
	s := newSink(t, nil)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}})
	mustSend(t, p, "t", 0, []byte("x"))
	s.await("an Offsets request", func() bool {
		return len(s.types) == 2 && s.types[1] == wire.TypeOffsets
	})
}

func TestAcknowledgements(t *testing.T) {
	refuse := func(s *sink) {
		s.answer = func(p wire.AckedProduce) wire.Code {
			if p.Acks != wire.AcksAppended || p.TimeoutMs != 1500 {
				t.Errorf("acks %d, timeout %d ms", p.Acks, p.TimeoutMs)
			}
			if p.Partition == 9 {
				return wire.CodeWrongPartition
			}
			return 0
		}
	}
	t.Run("sync", func(t *testing.T) {
		s := newSink(t, refuse)
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Acks: producer.AcksAppended, AckTimeout: 1500 * time.Millisecond})
		err := p.Send(testContext(t), "clicks", 9, []byte("x"))
		if !errors.Is(err, wire.CodeWrongPartition) || !strings.Contains(err.Error(), "clicks-9") {
			t.Errorf("error %v", err)
		}
		mustSend(t, p, "clicks", 0, []byte("x"))
		if st := p.Stats(); st.Sent != 2 || st.Delivered != 1 || st.Failed != 1 {
			t.Errorf("stats %+v", st)
		}
		mustClose(t, p)
	})
	t.Run("async", func(t *testing.T) {
		s := newSink(t, refuse)
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Acks: producer.AcksAppended, AckTimeout: 1500 * time.Millisecond, Async: true, BatchMessages: 3, QueueInterval: time.Hour})
		for range 4 {
			mustSend(t, p, "t", 0, []byte("x"))
			mustSend(t, p, "t", 9, []byte("x"))
		}
		err := p.Flush(testContext(t))
		var notSent *producer.NotSentError
		if !errors.As(err, &notSent) || notSent.Messages != 4 || notSent.Unconfirmed != 0 || !errors.Is(err, wire.CodeWrongPartition) {
			t.Errorf("flush: %v", err)
		}
		mustClose(t, p)
	})
	t.Run("ends with the context", func(t *testing.T) {
		s := newSink(t, nil)
		s.stall(true)
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Acks: producer.AcksAppended})
		ctx, cancel := context.WithTimeout(testContext(t), 30*time.Millisecond)
		defer cancel()
		if err := p.Send(ctx, "t", 0, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		s.stall(false)
		mustClose(t, p)
		if got := s.got("t-0"); len(got) != 1 {
			t.Errorf("%d messages", len(got))
		}
	})
}

// TestSendAfterItsContext: a Send whose context has ended before it is refused. The
// connection, and what others await on it, is no matter of its.
func TestSendAfterItsContext(t *testing.T) {
	s := newSink(t, nil)
	s.stall(true)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Acks: producer.AcksAppended})
	other := make(chan error, 1)
	go func() { other <- p.Send(testContext(t), "t", 0, []byte("other")) }()
	for p.Stats().Writes == 0 && len(other) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := p.Send(ctx, "t", 0, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	s.stall(false)
	if err := <-other; err != nil {
		t.Errorf("another Send: %v", err)
	}
	mustClose(t, p)
	if st := p.Stats(); st.Sent != 2 || st.Delivered != 1 || st.Failed != 1 || st.Connects != 1 {
		t.Errorf("stats %+v", st)
	}
	if got := s.got("t-0"); !reflect.DeepEqual(got, []string{"other"}) {
		t.Errorf("%q arrived", got)
	}
}

// While a broker is away, what is sent waits for it; a caller without a deadline
// gives up after the dial time-out.
func TestBrokerAway(t *testing.T) {
	for name, cfg := range map[string]producer.Config{"coalesced": {}, "no coalesce": {NoCoalesce: true}, "acked": {Acks: producer.AcksAppended}} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t, nil)
			cfg.Brokers, cfg.DialTimeout = []string{s.addr}, 100*time.Millisecond
			ended := make(logged, 1)
			cfg.Logger = slog.New(slog.NewTextHandler(ended, nil))
			p := newProducer(t, cfg)
			addr := s.addr
			s.stop()
			<-ended
			err := p.Send(context.Background(), "t", 0, []byte("a"))
			if name == "coalesced" && err == nil { // it is in the buffer
				err = p.Flush(context.Background())
			}
			if err == nil || !strings.Contains(err.Error(), addr) {
				t.Errorf("without a deadline: %v", err)
			}
			sent := make(chan error)
			go func() { sent <- p.Send(testContext(t), "t", 0, []byte("b")) }()
			s.listen(addr)
			if err := <-sent; err != nil {
				t.Errorf("while the broker comes back: %v", err)
			}
			mustClose(t, p)
			want := []string{"b"}
			if name == "coalesced" {
				want = []string{"a", "b"}
			}
			if got := s.got("t-0"); !reflect.DeepEqual(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestFailover(t *testing.T) {
	s := newSink(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	for range 10 { // the order is random
		p := newProducer(t, producer.Config{Brokers: []string{dead, s.addr}})
		mustClose(t, p)
	}
	if _, err := producer.New(testContext(t), producer.Config{Brokers: []string{dead}}); err == nil || !strings.Contains(err.Error(), dead) {
		t.Errorf("error %v", err)
	}
}

// TestB06PeerThatIsNoBroker: also a producer that awaits no answers notices that
// its peer is no broker (fault B06).
func TestB06PeerThatIsNoBroker(t *testing.T) {
	addr := kafkatest.Peer(t, func(nc net.Conn) {
		buf := make([]byte, 100)
		nc.Read(buf)
		nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		nc.Read(buf)
	})
	p := newProducer(t, producer.Config{Brokers: []string{addr}})
	mustSend(t, p, "t", 0, []byte("x"))
	err := p.Flush(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "not a broker") || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v", err)
	}
}

func TestManySenders(t *testing.T) {
	for _, async := range []bool{false, true} {
		s := newSink(t, nil)
		p := newProducer(t, producer.Config{Brokers: []string{s.addr}, Async: async, BatchMessages: 10, MaxBufferBytes: 1000})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 500 {
					if err := p.Send(testContext(t), "t", int32(g), fmt.Appendf(nil, "%d", i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		mustClose(t, p)
		for g := range 8 {
			got := s.got(fmt.Sprintf("t-%d", g))
			for i, m := range got {
				if m != fmt.Sprint(i) {
					t.Fatalf("partition %d: message %d is %q", g, i, m)
				}
			}
			if len(got) != 500 {
				t.Errorf("partition %d has %d messages", g, len(got))
			}
		}
	}
}
