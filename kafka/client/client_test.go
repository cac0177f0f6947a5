package client_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryCallSendsItsRequestAndReadsItsAnswer(t *testing.T) {
	set := message.Append(nil, []byte("payload"))
	states := []wire.TopicState{{Topic: "t", Partition: 1, Watermark: 2, LogEnd: 3, Segments: 1, Bytes: 3}}
	multi := append(response(0, set), response(wire.CodeWrongPartition, nil)...)
	var got []wire.Type
	addr := kafkatest.Peer(t, func(nc net.Conn) {
		for {
			typ, _, ok := readRequest(nc)
			if !ok {
				return
			}
			got = append(got, typ)
			var payload []byte
			switch typ {
			case wire.TypeProduce, wire.TypeMultiProduce:
				continue
			case wire.TypeFetch:
				payload = set
			case wire.TypeMultiFetch, wire.TypeWaitFetch:
				payload = multi
			case wire.TypeOffsets:
				payload = wire.AppendOffsetList(nil, []int64{42, 0})
			case wire.TypeAckedProduce:
				payload = wire.AppendAckedRange(nil, wire.AckedRange{Base: 16, Next: 32})
			case wire.TypeTopics:
				payload = wire.AppendTopicStates(nil, states)
			}
			if _, err := nc.Write(response(0, payload)); err != nil {
				return
			}
		}
	})
	c, ctx := dial(t, addr, client.Config{}), testContext(t)
	entries := []wire.FetchEntry{{Topic: "t", MaxBytes: 100}, {Topic: "t", Partition: 9, MaxBytes: 100}}
	results := []wire.FetchResult{{Set: set}, {Code: wire.CodeWrongPartition, Set: []byte{}}}
	calls := []struct {
		typ  wire.Type
		do   func() (any, error)
		want any
	}{
		{wire.TypeProduce, func() (any, error) { return nil, c.Produce(ctx, "t", -1, set) }, nil},
		{wire.TypeMultiProduce, func() (any, error) {
			return nil, c.MultiProduce(ctx, []wire.ProduceEntry{{Topic: "t", Set: set}})
		}, nil},
		{wire.TypeFetch, func() (any, error) { return c.Fetch(ctx, entries[0]) }, message.Set(set)},
		{wire.TypeMultiFetch, func() (any, error) { return c.MultiFetch(ctx, entries) }, results},
		{wire.TypeWaitFetch, func() (any, error) { return c.WaitFetch(ctx, entries, time.Second, 1) }, results},
		{wire.TypeOffsets, func() (any, error) { return c.Offsets(ctx, "t", 0, wire.TimeLatest, 2) }, []int64{42, 0}},
		{wire.TypeAckedProduce, func() (any, error) {
			return c.AckedProduce(ctx, "t", 0, set, wire.AcksAppended, time.Second)
		}, wire.AckedRange{Base: 16, Next: 32}},
		{wire.TypeTopics, func() (any, error) { return c.Topics(ctx, "t") }, states},
		{wire.TypeCreateTopic, func() (any, error) { return nil, c.CreateTopic(ctx, "t", 3) }, nil},
		{wire.TypeDeleteTopic, func() (any, error) { return nil, c.DeleteTopic(ctx, "t") }, nil},
	}
	var types []wire.Type
	for _, call := range calls {
		types = append(types, call.typ)
		if v, err := call.do(); err != nil || !reflect.DeepEqual(v, call.want) {
			t.Errorf("%v: %v, %v; want %v", call.typ, v, err, call.want)
		}
	}
	// The last answer has been read, so the peer has seen all requests.
	if !reflect.DeepEqual(got, types) {
		t.Errorf("peer saw %v, want %v", got, types)
	}
}

func TestErrorCodeLeavesTheConnectionUsable(t *testing.T) {
	addr := kafkatest.Peer(t, answering(func(typ wire.Type, _ []byte) []byte {
		if typ == wire.TypeFetch {
			return response(wire.CodeOffsetOutOfRange, nil)
		}
		return response(0, wire.AppendOffsetList(nil, []int64{7}))
	}))
	c, ctx := dial(t, addr, client.Config{}), testContext(t)
	_, err := c.Fetch(ctx, wire.FetchEntry{Topic: "clicks", Partition: 3, Offset: 99, MaxBytes: 10})
	if !errors.Is(err, wire.CodeOffsetOutOfRange) || !strings.Contains(err.Error(), "clicks-3 at offset 99") {
		t.Errorf("error %v", err)
	}
	if o, err := c.Offsets(ctx, "clicks", 3, wire.TimeLatest, 1); err != nil || len(o) != 1 || o[0] != 7 {
		t.Errorf("offsets after an error code: %v, %v", o, err)
	}
}

// TestTopicsOfWhichOneIsMissing: what is known of the others comes with the error.
func TestTopicsOfWhichOneIsMissing(t *testing.T) {
	there := []wire.TopicState{{Topic: "there", Partition: 1, LogEnd: 5}}
	addr := kafkatest.Peer(t, answering(func(wire.Type, []byte) []byte {
		return response(wire.CodeNoSuchTopic, wire.AppendTopicStates(nil, there))
	}))
	got, err := dial(t, addr, client.Config{}).Topics(testContext(t), "there", "missing")
	if !errors.Is(err, wire.CodeNoSuchTopic) || !reflect.DeepEqual(got, there) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestArgumentsAreRefusedBeforeSending(t *testing.T) {
	addr := kafkatest.Peer(t, func(nc net.Conn) {
		if typ, _, ok := readRequest(nc); ok {
			t.Errorf("a %v request was sent", typ)
		}
	})
	c, ctx := dial(t, addr, client.Config{}), testContext(t)
	many := make([]wire.FetchEntry, wire.MaxCount+1)
	huge := make([]byte, wire.MaxRequestSize)
	for name, do := range map[string]func() error{
		"topic":          func() error { return c.Produce(ctx, "a/b", 0, nil) },
		"topic of many":  func() error { return c.MultiProduce(ctx, []wire.ProduceEntry{{Topic: ""}}) },
		"request size":   func() error { return c.Produce(ctx, "t", 0, huge) },
		"acked anywhere": func() error { _, err := c.AckedProduce(ctx, "t", -1, nil, 1, 0); return err },
		"fetch size":     func() error { _, err := c.Fetch(ctx, wire.FetchEntry{Topic: "t", MaxBytes: -1}); return err },
		"count":          func() error { _, err := c.MultiFetch(ctx, many); return err },
		"fetch of more than an answer may have": func() error {
			_, err := c.Fetch(ctx, wire.FetchEntry{Topic: "t", MaxBytes: client.DefaultMaxResponseBytes + 1})
			return err
		},
		"sum of fetches": func() error {
			half := wire.FetchEntry{Topic: "t", MaxBytes: client.DefaultMaxResponseBytes / 2}
			_, err := c.MultiFetch(ctx, []wire.FetchEntry{half, half})
			return err
		},
		"offsets count": func() error { _, err := c.Offsets(ctx, "t", 0, -1, -1); return err },
		"topics":        func() error { _, err := c.Topics(ctx, ".."); return err },
		"create":        func() error { return c.CreateTopic(ctx, "", 1) },
		"delete":        func() error { return c.DeleteTopic(ctx, strings.Repeat("x", 250)) },
	} {
		if err := do(); !errors.Is(err, client.ErrArgument) {
			t.Errorf("%s: %v, want %v", name, err, client.ErrArgument)
		}
	}
	if err := c.Err(); err != nil {
		t.Errorf("connection ended: %v", err)
	}
}

func TestContextEndsACall(t *testing.T) {
	addr := kafkatest.Peer(t, func(nc net.Conn) {
		for {
			if _, _, ok := readRequest(nc); !ok {
				return
			}
		}
	})
	t.Run("deadline", func(t *testing.T) {
		c := dial(t, addr, client.Config{})
		ctx, cancel := context.WithTimeout(testContext(t), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Topics(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if c.Err() == nil {
			t.Error("connection is still usable: the late answer would be taken for another's")
		}
	})
	t.Run("cancel", func(t *testing.T) {
		c := dial(t, addr, client.Config{})
		ctx, cancel := context.WithCancel(testContext(t))
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := c.Topics(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("request time-out", func(t *testing.T) {
		c := dial(t, addr, client.Config{RequestTimeout: 10 * time.Millisecond})
		if _, err := c.Topics(testContext(t)); !errors.Is(err, client.ErrNoAnswer) || !strings.Contains(err.Error(), addr) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("close", func(t *testing.T) {
		c := dial(t, addr, client.Config{})
		time.AfterFunc(10*time.Millisecond, func() { c.Close() })
		if _, err := c.Topics(testContext(t)); !errors.Is(err, client.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
	t.Run("a stalled write", func(t *testing.T) {
		stalled := kafkatest.Peer(t, func(nc net.Conn) { <-testContext(t).Done() })
		c := dial(t, stalled, client.Config{})
		ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
		defer cancel()
		if err := c.Produce(ctx, "t", 0, make([]byte, 64<<20)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		c.Close()
	})
}

// An answer may arrive in any pieces, and a receive may be interrupted by its
// context in any of them.
func TestReceiveGoesOnAfterItsContext(t *testing.T) {
	set := bytes.Repeat([]byte("0123456789"), 1000)
	step := make(chan int)
	addr := kafkatest.Peer(t, func(nc net.Conn) {
		if _, _, ok := readRequest(nc); !ok {
			return
		}
		whole := response(0, set)
		for n := range step {
			if _, err := nc.Write(whole[:n]); err != nil {
				return
			}
			whole = whole[n:]
		}
	})
	c := dial(t, addr, client.Config{})
	frame := wire.AppendFetch(nil, wire.FetchEntry{Topic: "t", MaxBytes: 10_000})
	if _, err := c.Send(testContext(t), frame, client.Answer{MaxPayload: 10_000}); err != nil {
		t.Fatal(err)
	}
	got := []byte("kept")
	for _, n := range []int{0, 3, 3, 1, 5000} {
		if n > 0 {
			step <- n
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		_, dst, err := c.Receive(ctx, got)
		cancel()
		if got = dst; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %d more bytes: %v", n, err)
		}
	}
	step <- 4999
	close(step)
	code, got, err := c.Receive(testContext(t), got)
	if err != nil || code != 0 || string(got) != "kept"+string(set) {
		t.Errorf("code %v, %d bytes, error %v", code, len(got), err)
	}
}

// A receiver may wait before anything was asked; the clock starts with the
// question.
func TestReceiveWaitsForAQuestion(t *testing.T) {
	addr := kafkatest.Peer(t, answering(func(wire.Type, []byte) []byte { return response(0, []byte{1}) }))
	c := dial(t, addr, client.Config{RequestTimeout: 2 * time.Second})
	type result struct {
		payload []byte
		err     error
	}
	results := make(chan result)
	go func() {
		for range 2 {
			_, p, err := c.Receive(testContext(t), nil)
			results <- result{p, err}
		}
	}()
	for range 2 {
		if _, err := c.Send(testContext(t), wire.AppendTopics(nil, nil), client.Answer{MaxPayload: 1}); err != nil {
			t.Fatal(err)
		}
		if r := <-results; r.err != nil || len(r.payload) != 1 {
			t.Errorf("%v, %v", r.payload, r.err)
		}
	}
}

func TestDialReportsTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	if _, err := client.Dial(testContext(t), addr, client.Config{}); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v", err)
	}
}
