package broker_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// TestTopicsOfManyPartitions: a topic is described once, however often it is
// named, and an answer of hundreds of thousands of partitions is whole, and
// takes no memory to speak of: it is sent while it is made.
func TestTopicsOfManyPartitions(t *testing.T) {
	b := kafkatest.Start(t)
	p := dial(t, b)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		p.send(wire.AppendCreateTopic(nil, name, storage.MaxPartitions))
		p.want(wire.CodeNone, nil)
	}
	p.send(produce("b", 7, entryP))
	p.barrier()
	p.send(wire.AppendTopics(nil, slices.Repeat([]string{"a"}, 1000)))
	code, payload := p.answer()
	if states, err := wire.ParseTopicStates(payload); code != wire.CodeNone || err != nil || len(states) != storage.MaxPartitions {
		t.Errorf("code %v, %d states, %v", code, len(states), err)
	}
	for _, row := range []struct {
		names []string
		code  wire.Code
	}{
		{names, wire.CodeNone},
		{nil, wire.CodeNone},
		{[]string{"a", "missing", "c", "b"}, wire.CodeNoSuchTopic},
	} {
		p.send(wire.AppendTopics(nil, row.names))
		code, payload := p.answer()
		states, err := wire.ParseTopicStates(payload)
		if code != row.code || err != nil || len(states) != 3*storage.MaxPartitions {
			t.Fatalf("topics %q: code %v, %d states, %v", row.names, code, len(states), err)
		}
		written := 0
		for i, s := range states {
			if int(s.Partition) != i%storage.MaxPartitions {
				t.Fatalf("state %d is of partition %d", i, s.Partition)
			}
			if s.LogEnd > 0 {
				written++
				if s.Topic != "b" || s.Partition != 7 || s.LogEnd != int64(len(entryP)) {
					t.Errorf("%+v was not written to", s)
				}
			}
		}
		if written != 1 {
			t.Errorf("%d partitions have something in them, want 1", written)
		}
	}

	// What the broker allocates for it: the client here only counts bytes.
	buf := bufio.NewReaderSize(p, 4096)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.send(wire.AppendTopics(nil, nil))
	p.SetReadDeadline(time.Now().Add(patience))
	var size [4]byte
	if _, err := io.ReadFull(buf, size[:]); err != nil {
		t.Fatal(err)
	}
	rest := int(binary.BigEndian.Uint32(size[:]))
	if n, err := buf.Discard(rest); err != nil || n < 3*storage.MaxPartitions*40 {
		t.Fatalf("%d of %d bytes: %v", n, rest, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("%d bytes were allocated for an answer of %d", n, rest)
	}
	p.barrier()
}
