package broker_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/wire"
)

// Vectors of requests and answers of Kafka 0.7.
var (
	entryP0     = unhex("00000015 00 4f673ce4 74657374206d65737361676520737472")    // magic 0, "test message str"
	entryP      = unhex("00000016 01 00 4f673ce4 74657374206d65737361676520737472") // the same, magic 1
	entrySecond = unhex("0000000c 01 00 b61f1169 7365636f6e64")                     // magic 1, "second"
)

func produce(topic string, partition int32, set ...[]byte) []byte {
	return wire.AppendProduce(nil, topic, partition, join(set...))
}

func fetch(topic string, partition int32, offset int64, maxBytes int32) []byte {
	return wire.AppendFetch(nil, wire.FetchEntry{Topic: topic, Partition: partition, Offset: offset, MaxBytes: maxBytes})
}

func answer(code wire.Code, payload ...[]byte) []byte {
	p := join(payload...)
	return append(wire.AppendResponseHeader(nil, code, len(p)), p...)
}

// frame makes a request of any type from its body.
func frame(kind int16, body ...[]byte) []byte {
	b := join(body...)
	f := binary.BigEndian.AppendUint32(nil, uint32(2+len(b)))
	return append(binary.BigEndian.AppendUint16(f, uint16(kind)), b...)
}

func topicField(name string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(name))), name...)
}

// goldenConfig is the broker of the table: two partitions, and limits small
// enough to exceed.
func goldenConfig(c *broker.Config) {
	c.Storage.DefaultPartitions = 2
	c.MaxMessageBytes = 100
	c.MaxRequestBytes = 4096
}

// goldenRow runs against a fresh broker in whose topic "old", partition 0, are
// entryP and entrySecond.
type goldenRow struct {
	name   string
	in     []byte
	out    []byte            // exactly what comes back
	closed bool              // the broker closes the connection afterwards
	logs   map[string][]byte // of partition 0, afterwards
	absent string            // a topic that must not exist afterwards
}

var goldenRows = []goldenRow{
	// Vectors.
	{name: "V5 produce", in: unhex("0000002c 0000 0006 746f70696331 00000000 0000001a 00000016 01 00 4f673ce4 74657374206d65737361676520737472"), logs: map[string][]byte{"topic1": entryP}},
	{name: "V7 produce magic 0", in: unhex("0000002b 0000 0006 746f70696331 00000000 00000019 00000015 00 4f673ce4 74657374206d65737361676520737472"), logs: map[string][]byte{"topic1": entryP0}},
	{name: "V8 produce empty set", in: unhex("00000012 0000 0006 746f70696331 00000000 00000000"), logs: map[string][]byte{"topic1": nil}},
	{name: "V9 and V11 fetch of an unknown topic", in: unhex("0000001a 0001 0006 746f70696331 00000000 0000000000000000 00100000"), out: unhex("00000002 0000"), absent: "topic1"},
	{name: "V10 fetch", in: fetch("old", 0, 0, 1<<20), out: unhex("0000002c 0000 00000016 01 00 4f673ce4 74657374206d65737361676520737472 0000000c 01 00 b61f1169 7365636f6e64")},
	{name: "V12 fetch out of range", in: fetch("old", 0, 43, 1<<20), out: unhex("00000002 0001")},
	{name: "V14 fetch cut in the second entry", in: fetch("old", 0, 0, 36), out: unhex("00000026 0000 0000001601004f673ce474657374206d65737361676520737472 0000000c0100b61f1169")},
	{name: "V15 fetch cut in the first entry", in: fetch("old", 0, 0, 20), out: unhex("00000016 0000 0000001601004f673ce474657374206d65737361")},
	{name: "V16 offsets of an unknown topic, latest", in: unhex("0000001a 0004 0006 746f70696331 00000000 ffffffffffffffff 00000001"), out: answer(0, wire.AppendOffsetList(nil, []int64{0})), absent: "topic1"},
	{name: "V17 offsets of an unknown topic, earliest", in: unhex("0000001a 0004 0006 746f70696331 00000000 fffffffffffffffe 00000001"), out: answer(0, wire.AppendOffsetList(nil, []int64{0})), absent: "topic1"},
	{name: "V18 and V20 offsets of an unknown topic at a time", in: unhex("0000001a 0004 0006 746f70696331 00000000 0000013187b928a0 0000000a"), out: unhex("00000006 0000 00000000"), absent: "topic1"},
	{name: "V19 offsets, latest", in: wire.AppendOffsets(nil, "old", 0, wire.TimeLatest, 10), out: unhex("00000016 0000 00000002 000000000000002a 0000000000000000")},
	{name: "V22 multi-fetch", in: wire.AppendMultiFetch(nil, []wire.FetchEntry{{Topic: "old", MaxBytes: 26}, {Topic: "old", Offset: 99, MaxBytes: 100}}),
		out: unhex("00000028 0000 0000001c 0000 00000016 01 00 4f673ce4 74657374206d65737361676520737472 00000002 0001")},
	{name: "V23 multi-produce", in: wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1", Set: entryP}, {Topic: "topic2", Set: entrySecond}}),
		logs: map[string][]byte{"topic1": entryP, "topic2": entrySecond}},

	// Frames that are no requests.
	{name: "size 0", in: unhex("00000000"), closed: true},
	{name: "size 1", in: unhex("00000001 00"), closed: true},
	{name: "size -1", in: unhex("ffffffff"), closed: true},
	{name: "size above the limit", in: unhex("00001001"), closed: true},
	{name: "size at the limit is read", in: frame(0, make([]byte, 4094)), closed: true},
	{name: "unknown type", in: frame(5), closed: true},
	{name: "unknown type above the additions", in: frame(21), closed: true},
	{name: "negative type", in: frame(-1), closed: true},
	{name: "unknown type, rest not sent", in: unhex("00000100 0007"), closed: true},
	{name: "body shorter than its fields", in: frame(1, topicField("old")), closed: true},
	{name: "set size negative", in: frame(0, topicField("topic1"), unhex("00000000 ffffffff")), closed: true, absent: "topic1"},
	{name: "set size beyond the frame", in: frame(0, topicField("topic1"), unhex("00000000 00000100"), entryP), closed: true, absent: "topic1"},
	{name: "multi-fetch count negative", in: frame(2, unhex("ffff")), closed: true},
	{name: "multi-produce count negative", in: frame(3, unhex("ffff")), closed: true},
	{name: "multi-fetch count beyond the frame", in: frame(2, unhex("7fff")), closed: true},
	{name: "bytes behind the body are ignored", in: frame(1, topicField("old"), unhex("00000000 0000000000000000 0000001a"), []byte("more")), out: answer(0, entryP)},
	{name: "closed in the middle", in: produce("topic1", 0, entryP)[:20], absent: "topic1"},

	// Produce.
	{name: "produce, bad topic name", in: produce("a/b", 0, entryP), closed: true},
	{name: "produce, empty topic name", in: produce("", 0, entryP), closed: true},
	{name: "produce, partition too high", in: produce("topic1", 2, entryP), closed: true, absent: "topic1"},
	{name: "produce, partition -2", in: produce("topic1", -2, entryP), closed: true, absent: "topic1"},
	{name: "produce, CRC wrong", in: produce("old", 0, entryP[:25], []byte("X")), closed: true, logs: map[string][]byte{"old": join(entryP, entrySecond)}},
	{name: "produce, second CRC wrong", in: produce("topic1", 0, entryP, entryP[:25], []byte("X")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, magic 2", in: produce("topic1", 0, unhex("00000006 02 00 00000000")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, codec 3", in: produce("topic1", 0, unhex("00000006 01 03 00000000")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, negative entry size", in: produce("topic1", 0, unhex("ffffffff 01 00 00000000")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, entry size below the least", in: produce("topic1", 0, unhex("00000004 00 00000000")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, first entry incomplete", in: produce("topic1", 0, entryP[:20]), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, last entry cut", in: produce("topic1", 0, entryP, entrySecond[:9]), logs: map[string][]byte{"topic1": entryP}},
	{name: "produce, stray bytes", in: produce("topic1", 0, entryP, []byte{0, 0, 0}), logs: map[string][]byte{"topic1": entryP}},
	{name: "produce, payload at the limit", in: produce("topic1", 0, entry(strings.Repeat("x", 100))), logs: map[string][]byte{"topic1": entry(strings.Repeat("x", 100))}},
	{name: "produce, payload above the limit drops its whole set and nothing else",
		in:   join(produce("topic1", 0, entryP), produce("topic1", 0, entryP, entry(strings.Repeat("x", 101)), entryP), produce("topic1", 0, entrySecond)),
		logs: map[string][]byte{"topic1": join(entryP, entrySecond)}},
	{name: "produce, what came before a bad one stays", in: join(produce("topic1", 0, entryP), produce("topic1", 0, entrySecond), produce("topic1", 9, entryP), produce("topic1", 0, entryP)),
		closed: true, logs: map[string][]byte{"topic1": join(entryP, entrySecond)}},
	{name: "multi-produce, entry 2 of 3 bad", in: wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1", Set: entryP}, {Topic: "topic2", Set: entryP[:20]}, {Topic: "topic3", Set: entryP}}),
		closed: true, logs: map[string][]byte{"topic1": entryP, "topic2": nil}, absent: "topic3"},
	{name: "multi-produce, entry 2 of 3 oversized", in: wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1", Set: entryP}, {Topic: "topic1", Set: entry(strings.Repeat("x", 101))}, {Topic: "topic1", Set: entrySecond}}),
		logs: map[string][]byte{"topic1": join(entryP, entrySecond)}},

	// Fetch.
	{name: "fetch at the end", in: fetch("old", 0, 42, 1<<20), out: answer(0)},
	{name: "fetch off a boundary", in: fetch("old", 0, 30, 1<<20), out: answer(0, entrySecond[4:])},
	{name: "fetch, negative offset", in: fetch("old", 0, -1, 1<<20), out: answer(wire.CodeOffsetOutOfRange)},
	{name: "fetch of a log that is not there, whatever the offset", in: fetch("old", 1, 999, 1<<20), out: answer(0)},
	{name: "fetch, at most 0 bytes", in: fetch("old", 0, 0, 0), out: answer(0)},
	{name: "fetch, at most -1 bytes", in: fetch("old", 0, 0, -1), out: answer(wire.CodeUnknown)},
	{name: "fetch, partition too high", in: fetch("old", 2, 0, 100), out: answer(wire.CodeWrongPartition)},
	{name: "fetch, partition -1", in: fetch("old", -1, 0, 100), out: answer(wire.CodeWrongPartition)},
	{name: "fetch, bad topic name", in: fetch("a/b", 0, 0, 100), out: answer(wire.CodeUnknown)},
	{name: "multi-fetch of nothing", in: wire.AppendMultiFetch(nil, nil), out: answer(0)},
	{name: "multi-fetch, entries with and without data", in: wire.AppendMultiFetch(nil, []wire.FetchEntry{
		{Topic: "old", MaxBytes: 26}, {Topic: "old", Partition: 5}, {Topic: "none", MaxBytes: 5}, {Topic: "old", Offset: 26, MaxBytes: 99}, {Topic: "old", Offset: 42, MaxBytes: 9}}),
		out: answer(0, answer(0, entryP), answer(wire.CodeWrongPartition), answer(0), answer(0, entrySecond), answer(0)), absent: "none"},

	// Offsets.
	{name: "offsets, at most 0", in: wire.AppendOffsets(nil, "old", 0, wire.TimeLatest, 0), out: answer(0, []byte{0, 0, 0, 0})},
	{name: "offsets, earliest gives one", in: wire.AppendOffsets(nil, "old", 0, wire.TimeEarliest, 10), out: answer(0, wire.AppendOffsetList(nil, []int64{0}))},
	{name: "offsets, negative count", in: wire.AppendOffsets(nil, "old", 0, wire.TimeLatest, -1), closed: true},
	{name: "offsets, wrong partition", in: wire.AppendOffsets(nil, "old", 2, wire.TimeLatest, 1), closed: true},
	{name: "offsets, partition -1", in: wire.AppendOffsets(nil, "old", -1, wire.TimeLatest, 1), closed: true},
	{name: "offsets, bad topic name", in: wire.AppendOffsets(nil, "..", 0, wire.TimeLatest, 1), closed: true},

	// Order on one connection.
	{name: "fetch sees what was produced before it", in: join(produce("topic1", 0, entryP), fetch("topic1", 0, 0, 100), produce("topic1", 0, entrySecond), fetch("topic1", 0, 0, 100)),
		out: join(answer(0, entryP), answer(0, entryP, entrySecond))},
	{name: "answers before a bad frame are sent", in: join(fetch("old", 0, 26, 100), frame(77)), out: answer(0, entrySecond), closed: true},
}

func TestGolden(t *testing.T) { runGolden(t, goldenRows) }

func runGolden(t *testing.T, rows []goldenRow) {
	for _, sendfile := range []bool{true, false} {
		for _, row := range rows {
			t.Run(row.name+map[bool]string{true: "/sendfile", false: "/copy"}[sendfile], func(t *testing.T) {
				t.Parallel()
				b := kafkatest.Start(t, goldenConfig, func(c *broker.Config) { c.Sendfile = sendfile })
				p := dial(t, b)
				p.send(produce("old", 0, entryP, entrySecond))
				p.barrier()
				p.send(row.in)
				if !row.closed && !strings.HasPrefix(row.name, "closed") {
					// Still there: it answers, and nothing came before but out.
					probe := answer(0, wire.AppendOffsetList(nil, []int64{0}))
					p.send(wire.AppendOffsets(nil, "barrier", 0, wire.TimeLatest, 1))
					if got := p.read(len(row.out) + len(probe)); !bytes.Equal(got, join(row.out, probe)) {
						t.Fatalf("answer %x, want %x and the probe's %x", got, row.out, probe)
					}
				} else {
					if !row.closed {
						p.CloseWrite()
					}
					if got := p.rest(); !bytes.Equal(got, row.out) {
						t.Fatalf("answer %x before the close, want %x", got, row.out)
					}
				}
				for topic, want := range row.logs {
					if got := logOf(t, b, topic, 0); !bytes.Equal(got, want) {
						t.Errorf("log of %q is %x, want %x", topic, got, want)
					}
					if _, err := os.Stat(filepath.Join(b.Config.LogDir, topic+"-0")); err != nil {
						t.Errorf("topic %q was not made: %v", topic, err)
					}
				}
				if row.absent != "" {
					if found, _ := filepath.Glob(filepath.Join(b.Config.LogDir, row.absent+"-*")); found != nil {
						t.Errorf("%v was made", found)
					}
				}
			})
		}
	}
}

// TestAnyPartition: a produce for partition -1 goes to a partition that the
// broker picks, each of them in turn getting some.
func TestAnyPartition(t *testing.T) {
	b := kafkatest.Start(t, goldenConfig)
	p := dial(t, b)
	const n = 100 // so that a partition stays empty once in 2^99 runs
	for range n {
		p.send(produce("any", -1, entryP))
	}
	p.barrier()
	first, second := len(logOf(t, b, "any", 0)), len(logOf(t, b, "any", 1))
	if first+second != n*len(entryP) || first == 0 || second == 0 {
		t.Errorf("partitions have %d and %d bytes, want %d together and none empty", first, second, n*len(entryP))
	}
}
