package broker_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// nullTopic is a topic field of length -1.
var nullTopic = unhex("ffff")

// badPayload is an entry with a right CRC whose payload is not what its codec
// says.
func badPayload(codec message.Codec) []byte {
	return message.Append1(nil, []byte("this was never compressed"), codec)
}

// innerDamaged is entrySnappy, whose CRC is right, with a wrong one inside.
func innerDamaged() []byte {
	payload := bytes.Clone(entrySnappy[10:])
	payload[len(payload)-1]++ // the last byte of "three", which lies there literally
	return message.Append1(nil, payload, message.CodecSnappy)
}

const (
	minOffset, maxOffset = math.MinInt64, math.MaxInt64
	minSize, maxSize     = math.MinInt32, math.MaxInt32
)

// cutTail is the beginning of an entry.
func cutTail(n int) []byte { return entrySecond[:n] }

func large() []byte { return entry(strings.Repeat("x", 101)) } // above the limit of the table

func fetched(sets ...[]byte) []byte {
	var all []byte
	for _, set := range sets {
		all = append(all, answer(0, set)...)
	}
	return all
}

func acksOf(code wire.Code, base, next int64) []byte {
	return answer(code, wire.AppendAckedRange(nil, wire.AckedRange{Base: base, Next: next}))
}

func ackedProduce(topic string, partition int32, acks wire.Acks, timeoutMs int32, set ...[]byte) []byte {
	return wire.AppendAckedProduce(nil, topic, partition, join(set...), acks, timeoutMs)
}

// What Kafka 0.7 says about malformed input, row by row, beyond what is in
// goldenRows, and the same for the additions.
var malformedRows = []goldenRow{
	// Frames.
	{name: "size 2^31-1", in: unhex("7fffffff"), closed: true},
	{name: "size -2^31", in: unhex("80000000"), closed: true},
	{name: "size 1 and no more", in: unhex("00000001"), closed: true},
	{name: "an HTTP request", in: []byte("GET / HTTP/1.1\r\nHost: broker\r\n\r\n"), closed: true},
	{name: "a TLS hello", in: unhex("16030100a5010000a10303"), closed: true},
	{name: "types between 0.7's and the additions", in: frame(15), closed: true},
	{name: "type -32768", in: frame(math.MinInt16), closed: true},
	{name: "type 32767", in: frame(math.MaxInt16), closed: true},
	{name: "what came before a bad size is done", in: join(produce("topic1", 0, entryP), fetch("old", 0, 26, 100), unhex("ffffffff")),
		out: answer(0, entrySecond), closed: true, logs: map[string][]byte{"topic1": entryP}},
	{name: "what comes behind a bad frame is not", in: join(frame(99), produce("topic1", 0, entryP)), closed: true, absent: "topic1"},
	{name: "closed after the size", in: unhex("00000100")},

	// Topics. Null is a name that is not legal, and so has a code in a fetch.
	{name: "null topic, produce", in: frame(0, nullTopic, unhex("00000000 0000001a"), entryP), closed: true},
	{name: "null topic, fetch", in: frame(1, nullTopic, unhex("00000000 0000000000000000 00000100")), out: answer(wire.CodeUnknown)},
	{name: "null topic, multi-fetch", in: frame(2, unhex("0002"), nullTopic, unhex("00000000 0000000000000000 00000100"), topicField("old"), unhex("00000000 0000000000000000 0000001a")),
		out: answer(0, answer(wire.CodeUnknown), answer(0, entryP))},
	{name: "null topic, multi-produce", in: frame(3, unhex("0002"), topicField("topic1"), unhex("00000000 0000001a"), entryP, nullTopic, unhex("00000000 0000001a"), entryP),
		closed: true, logs: map[string][]byte{"topic1": entryP}},
	{name: "null topic, offsets", in: frame(4, nullTopic, unhex("00000000 ffffffffffffffff 00000001")), closed: true},
	{name: "topic of length -2", in: frame(1, unhex("fffe 00000000 0000000000000000 00000100")), closed: true},
	{name: "topic longer than its frame", in: frame(1, unhex("7fff 6f6c64"), unhex("00000000 0000000000000000 00000100")), closed: true},
	{name: "fetch, empty topic name", in: fetch("", 0, 0, 100), out: answer(wire.CodeUnknown)},
	{name: "fetch, topic ..", in: fetch("..", 0, 0, 100), out: answer(wire.CodeUnknown)},
	{name: "fetch, topic with NUL", in: fetch("a\x00b", 0, 0, 100), out: answer(wire.CodeUnknown)},
	{name: "fetch, topic not UTF-8", in: fetch("a\xff", 0, 0, 100), out: answer(wire.CodeUnknown)},
	{name: "fetch, topic of 250 bytes", in: fetch(strings.Repeat("t", 250), 0, 0, 100), out: answer(wire.CodeUnknown)},
	{name: "fetch, topic of 249 bytes", in: fetch(strings.Repeat("t", 249), 0, 0, 100), out: answer(0)},
	{name: "produce, topic .", in: produce(".", 0, entryP), closed: true},
	{name: "produce, topic ..", in: produce("..", 0, entryP), closed: true},
	{name: "produce, topic with a newline", in: produce("a\nb", 0, entryP), closed: true},
	{name: "produce, topic with U+FFFD", in: produce("a\ufffdb", 0, entryP), closed: true},
	{name: "produce, topic of 249 bytes", in: produce(strings.Repeat("t", 249), 0, entryP), logs: map[string][]byte{strings.Repeat("t", 249): entryP}},
	{name: "produce, topic of 250 bytes", in: produce(strings.Repeat("t", 250), 0, entryP), closed: true},
	{name: "produce, topic beyond ASCII", in: produce("тема-主题", 0, entryP), logs: map[string][]byte{"тема-主题": entryP}},
	{name: "produce, bad topic name and no set", in: produce("a/b", 0), closed: true},

	// Partitions.
	{name: "produce, partition -2^31", in: produce("topic1", math.MinInt32, entryP), closed: true, absent: "topic1"},
	{name: "produce, wrong partition and no set", in: produce("topic1", 2), closed: true, absent: "topic1"},
	{name: "fetch, partition 2^31-1", in: fetch("old", math.MaxInt32, 0, 100), out: answer(wire.CodeWrongPartition)},
	{name: "fetch of an unknown topic, partition too high", in: fetch("topic1", 2, 0, 100), out: answer(wire.CodeWrongPartition), absent: "topic1"},
	{name: "multi-produce, wrong partition in the middle", in: wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1", Set: entryP}, {Topic: "topic1", Partition: 7, Set: entryP}, {Topic: "topic1", Set: entrySecond}}),
		closed: true, logs: map[string][]byte{"topic1": entryP}},
	{name: "multi-produce, bad topic name in the middle", in: wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1", Set: entryP}, {Topic: "a/b", Set: entryP}, {Topic: "topic1", Set: entrySecond}}),
		closed: true, logs: map[string][]byte{"topic1": entryP}},

	// Sets.
	{name: "produce, first length cut", in: produce("topic1", 0, cutTail(3)), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, first entry is a length", in: produce("topic1", 0, cutTail(4)), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, a damaged entry behind good ones", in: produce("topic1", 0, entryP, entrySecond, unhex("00000005 07 00000000")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, a negative size behind good entries", in: produce("topic1", 0, entryP, unhex("fffffff0")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, entry size 0", in: produce("topic1", 0, unhex("00000000"), entryP), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, entry size 5 with magic 1", in: produce("topic1", 0, unhex("00000005 01 00000000")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, entry size 2^31-1", in: produce("topic1", 0, unhex("7fffffff 00 00000000")), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, empty payloads", in: produce("topic1", 0, unhex("00000005 00 00000000"), unhex("00000006 01 00 00000000")),
		logs: map[string][]byte{"topic1": unhex("00000005 00 00000000 00000006 01 00 00000000")}},
	{name: "produce, first entry too large and cut", in: produce("topic1", 0, large()[:50]), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, a bad entry before one too large", in: produce("topic1", 0, unhex("00000005 07 00000000"), large()), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce of nothing to a partition with something", in: produce("old", 0), logs: map[string][]byte{"old": join(entryP, entrySecond)}},
	{name: "multi-produce of nothing", in: wire.AppendMultiProduce(nil, nil)},
	{name: "multi-produce, empty sets", in: wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1"}, {Topic: "topic2"}}), logs: map[string][]byte{"topic1": nil, "topic2": nil}},
	{name: "multi-produce, a cut tail in the middle", in: wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1", Set: join(entryP, cutTail(7))}, {Topic: "topic1", Set: entrySecond}}),
		logs: map[string][]byte{"topic1": join(entryP, entrySecond)}},
	{name: "multi-produce, set size beyond the frame in the second", in: frame(3, unhex("0002"), topicField("topic1"), unhex("00000000 0000001a"), entryP, topicField("topic1"), unhex("00000000 000000ff"), entryP),
		closed: true, absent: "topic1"},
	{name: "multi-produce, set size negative in the second", in: frame(3, unhex("0002"), topicField("topic1"), unhex("00000000 0000001a"), entryP, topicField("topic1"), unhex("00000000 ffffffff")),
		closed: true, absent: "topic1"},

	// Compressed sets: stored as they came, refused when what is inside is bad.
	{name: "produce, gzip", in: produce("topic1", 0, entryGzip), logs: map[string][]byte{"topic1": entryGzip}},
	{name: "produce, snappy", in: produce("topic1", 0, entrySnappy), logs: map[string][]byte{"topic1": entrySnappy}},
	{name: "produce, plain and compressed", in: produce("topic1", 0, entryP0, entryGzip, entryP, entrySnappy, cutTail(9)), logs: map[string][]byte{"topic1": join(entryP0, entryGzip, entryP, entrySnappy)}},
	{name: "produce, not gzip", in: produce("topic1", 0, badPayload(message.CodecGzip)), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, not snappy", in: produce("topic1", 0, badPayload(message.CodecSnappy)), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, not gzip behind good entries", in: produce("topic1", 0, entryP, badPayload(message.CodecGzip)), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, gzip cut short", in: produce("topic1", 0, message.Append1(nil, entryGzip[10:60], message.CodecGzip)), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, damaged inside", in: produce("topic1", 0, innerDamaged()), closed: true, logs: map[string][]byte{"topic1": nil}},
	{name: "produce, outer CRC wrong", in: produce("topic1", 0, entryGzip[:66], []byte{1}), closed: true, logs: map[string][]byte{"topic1": nil}},

	// Fetch.
	{name: "fetch, smallest offset", in: fetch("old", 0, minOffset, 100), out: answer(wire.CodeOffsetOutOfRange)},
	{name: "fetch, largest offset", in: fetch("old", 0, maxOffset, 100), out: answer(wire.CodeOffsetOutOfRange)},
	{name: "fetch, out of range and at most 0 bytes", in: fetch("old", 0, 43, 0), out: answer(wire.CodeOffsetOutOfRange)},
	{name: "fetch, most negative size", in: fetch("old", 0, 0, minSize), out: answer(wire.CodeUnknown)},
	{name: "fetch, largest size", in: fetch("old", 0, 0, maxSize), out: answer(0, entryP, entrySecond)},
	{name: "fetch, negative size of a log that is not there", in: fetch("topic1", 0, 0, -1), out: answer(wire.CodeUnknown), absent: "topic1"},
	{name: "fetch, 1 byte", in: fetch("old", 0, 0, 1), out: answer(0, []byte{0})},
	{name: "fetch, last byte", in: fetch("old", 0, 41, 100), out: answer(0, []byte{'d'})},
	{name: "fetch, negative offset of a log that is not there", in: fetch("topic1", 0, -7, 100), out: answer(0), absent: "topic1"},
	{name: "multi-fetch, an error of each kind", in: wire.AppendMultiFetch(nil, []wire.FetchEntry{
		{Topic: "old", Offset: 43, MaxBytes: 9}, {Topic: "old", Partition: -1, MaxBytes: 9}, {Topic: "a/b", MaxBytes: 9}, {Topic: "old", MaxBytes: -1}, {Topic: "old", Offset: 26, MaxBytes: 99}}),
		out: answer(0, answer(wire.CodeOffsetOutOfRange), answer(wire.CodeWrongPartition), answer(wire.CodeUnknown), answer(wire.CodeUnknown), answer(0, entrySecond))},
	{name: "multi-fetch, the same twice", in: wire.AppendMultiFetch(nil, []wire.FetchEntry{{Topic: "old", MaxBytes: 26}, {Topic: "old", MaxBytes: 26}}), out: answer(0, fetched(entryP, entryP))},
	{name: "multi-fetch, second entry cut", in: frame(2, unhex("0002"), topicField("old"), unhex("00000000 0000000000000000 0000001a"), topicField("old"), unhex("00000000")), closed: true},

	// Offsets.
	{name: "offsets, latest of at most 1", in: wire.AppendOffsets(nil, "old", 0, wire.TimeLatest, 1), out: answer(0, wire.AppendOffsetList(nil, []int64{42}))},
	{name: "offsets, largest count", in: wire.AppendOffsets(nil, "old", 0, wire.TimeLatest, math.MaxInt32), out: answer(0, wire.AppendOffsetList(nil, []int64{42, 0}))},
	{name: "offsets, time -3 is long ago", in: wire.AppendOffsets(nil, "old", 0, -3, 10), out: answer(0, wire.AppendOffsetList(nil, nil))},
	{name: "offsets, time 0", in: wire.AppendOffsets(nil, "old", 0, 0, 10), out: answer(0, wire.AppendOffsetList(nil, nil))},
	{name: "offsets, the end of time", in: wire.AppendOffsets(nil, "old", 0, math.MaxInt64, 10), out: answer(0, wire.AppendOffsetList(nil, []int64{42, 0}))},
	{name: "offsets of an unknown topic, latest of at most 0", in: wire.AppendOffsets(nil, "topic1", 0, wire.TimeLatest, 0), out: answer(0, wire.AppendOffsetList(nil, []int64{0})), absent: "topic1"},
	{name: "offsets of an unknown topic, negative count", in: wire.AppendOffsets(nil, "topic1", 0, wire.TimeLatest, -1), closed: true, absent: "topic1"},
	{name: "offsets of an unknown topic, wrong partition", in: wire.AppendOffsets(nil, "topic1", 2, wire.TimeLatest, 1), closed: true, absent: "topic1"},
	{name: "offsets, what came before is answered", in: join(fetch("old", 0, 26, 100), wire.AppendOffsets(nil, "old", 9, wire.TimeLatest, 1)), out: answer(0, entrySecond), closed: true},

	// The additions answer with a code and stay.
	{name: "acked produce, partition -1", in: ackedProduce("topic1", -1, wire.AcksAppended, 0, entryP), out: acksOf(wire.CodeBadArgument, -1, -1), absent: "topic1"},
	{name: "acked produce, wrong partition", in: ackedProduce("topic1", 2, wire.AcksAppended, 0, entryP), out: acksOf(wire.CodeWrongPartition, -1, -1), absent: "topic1"},
	{name: "acked produce, bad topic name", in: ackedProduce("a/b", 0, wire.AcksAppended, 0, entryP), out: acksOf(wire.CodeBadArgument, -1, -1)},
	{name: "acked produce, null topic", in: frame(16, nullTopic, unhex("00000000 0000001a"), entryP, unhex("0001 00000000")), out: acksOf(wire.CodeBadArgument, -1, -1)},
	{name: "acked produce, acks -1", in: ackedProduce("topic1", 0, -1, 0, entryP), out: acksOf(wire.CodeBadArgument, -1, -1), absent: "topic1"},
	{name: "acked produce, acks 4", in: ackedProduce("topic1", 0, 4, 0, entryP), out: acksOf(wire.CodeBadArgument, -1, -1), absent: "topic1"},
	{name: "acked produce, negative time", in: ackedProduce("topic1", 0, wire.AcksFlushed, -1, entryP), out: acksOf(wire.CodeBadArgument, -1, -1), absent: "topic1"},
	{name: "acked produce, CRC wrong", in: ackedProduce("old", 0, wire.AcksAppended, 0, entryP[:25], []byte("X")), out: acksOf(wire.CodeInvalidMessage, -1, -1), logs: map[string][]byte{"old": join(entryP, entrySecond)}},
	{name: "acked produce, first entry incomplete", in: ackedProduce("old", 0, wire.AcksAppended, 0, entryP[:25]), out: acksOf(wire.CodeInvalidMessage, -1, -1)},
	{name: "acked produce, not gzip", in: ackedProduce("old", 0, wire.AcksAppended, 0, badPayload(message.CodecGzip)), out: acksOf(wire.CodeInvalidMessage, -1, -1)},
	{name: "acked produce, too large", in: ackedProduce("old", 0, wire.AcksAppended, 0, entryP, large()), out: acksOf(wire.CodeMessageTooLarge, -1, -1)},
	{name: "acked produce, last entry cut", in: ackedProduce("old", 0, wire.AcksFlushed, 20_000, entryP, cutTail(5)), out: acksOf(0, 42, 68), logs: map[string][]byte{"old": join(entryP, entrySecond, entryP)}},
	{name: "acked produce, empty set", in: ackedProduce("old", 0, wire.AcksFlushed, 20_000), out: acksOf(0, 42, 42)},
	{name: "acked produce, good ones beside bad ones", in: join(ackedProduce("old", 0, wire.AcksAppended, 0, entryP), ackedProduce("old", 5, wire.AcksAppended, 0, entryP), ackedProduce("old", 0, wire.AcksReceived, 0, entryP), ackedProduce("old", 0, wire.AcksAppended, 0, entrySecond)),
		out: join(acksOf(0, 42, 68), acksOf(wire.CodeWrongPartition, -1, -1), acksOf(0, -1, -1), acksOf(0, 94, 110)), logs: map[string][]byte{"old": join(entryP, entrySecond, entryP, entryP, entrySecond)}},
	{name: "acked produce, set size beyond the frame", in: frame(16, topicField("topic1"), unhex("00000000 00000100"), entryP, unhex("0001 00000000")), closed: true, absent: "topic1"},
	{name: "wait-fetch, negative time", in: wire.AppendWaitFetch(nil, []wire.FetchEntry{{Topic: "old", MaxBytes: 26}}, -1, 1), out: answer(wire.CodeBadArgument)},
	{name: "wait-fetch, negative least bytes", in: wire.AppendWaitFetch(nil, []wire.FetchEntry{{Topic: "old", MaxBytes: 26}}, 1, -1), out: answer(wire.CodeBadArgument)},
	{name: "wait-fetch, count negative", in: frame(17, unhex("ffff 00000001 00000001")), closed: true},
	{name: "wait-fetch, null topic does not wait", in: frame(17, unhex("0001"), nullTopic, unhex("00000000 0000000000000000 00000100"), unhex("00007530 00000001")), out: answer(0, answer(wire.CodeUnknown))},
	{name: "wait-fetch, wrong partition does not wait", in: wire.AppendWaitFetch(nil, []wire.FetchEntry{{Topic: "old", Partition: 2, MaxBytes: 26}}, 30_000, 1), out: answer(0, answer(wire.CodeWrongPartition))},
	{name: "topics, count negative", in: frame(18, unhex("ffff")), closed: true},
	{name: "topics, unknown and null", in: frame(18, unhex("0002"), topicField("topic1"), nullTopic), out: answer(wire.CodeNoSuchTopic, wire.AppendTopicStates(nil, nil)), absent: "topic1"},
	{name: "topics, known and unknown", in: wire.AppendTopics(nil, []string{"old", "topic1"}), out: answer(wire.CodeNoSuchTopic, wire.AppendTopicStates(nil, []wire.TopicState{
		{Topic: "old", Watermark: 42, LogEnd: 42, Segments: 1, Bytes: 42}, {Topic: "old", Partition: 1}})), absent: "topic1"},
	{name: "create topic, no partitions", in: wire.AppendCreateTopic(nil, "topic1", 0), out: answer(wire.CodeBadArgument), absent: "topic1"},
	{name: "create topic, negative partitions", in: wire.AppendCreateTopic(nil, "topic1", -1), out: answer(wire.CodeBadArgument), absent: "topic1"},
	{name: "create topic, too many partitions", in: wire.AppendCreateTopic(nil, "topic1", 100_001), out: answer(wire.CodeBadArgument), absent: "topic1"},
	{name: "create topic, bad name", in: wire.AppendCreateTopic(nil, "a/b", 1), out: answer(wire.CodeBadArgument)},
	{name: "create topic, null", in: frame(19, nullTopic, unhex("00000001")), out: answer(wire.CodeBadArgument)},
	{name: "create topic, exists", in: wire.AppendCreateTopic(nil, "old", 2), out: answer(wire.CodeTopicExists), logs: map[string][]byte{"old": join(entryP, entrySecond)}},
	{name: "delete topic, unknown", in: wire.AppendDeleteTopic(nil, "topic1"), out: answer(wire.CodeNoSuchTopic)},
	{name: "delete topic, bad name", in: wire.AppendDeleteTopic(nil, "../old"), out: answer(wire.CodeBadArgument), logs: map[string][]byte{"old": join(entryP, entrySecond)}},
}

// TestMalformed: each malformed input of kinds that Kafka 0.7 knows, and its like
// for the additions, is answered to the byte as it must be, over TCP.
func TestMalformed(t *testing.T) { runGolden(t, malformedRows) }

// wholeRequests is one request of each type. None is for partition 0 of "old"
// but to read it.
func wholeRequests() map[string][]byte {
	entries := []wire.FetchEntry{{Topic: "old", MaxBytes: 26}, {Topic: "old", Offset: 26, MaxBytes: 26}}
	return map[string][]byte{
		"Produce":      produce("cut", 0, entryP, entrySecond),
		"Fetch":        fetch("old", 0, 0, 100),
		"MultiFetch":   wire.AppendMultiFetch(nil, entries),
		"MultiProduce": wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "cut", Set: entryP}, {Topic: "cut", Partition: 1, Set: entrySecond}}),
		"Offsets":      wire.AppendOffsets(nil, "old", 0, wire.TimeLatest, 1),
		"AckedProduce": ackedProduce("cut", 0, wire.AcksAppended, 0, entryP),
		"WaitFetch":    wire.AppendWaitFetch(nil, entries, 0, 1),
		"Topics":       wire.AppendTopics(nil, []string{"old"}),
		"CreateTopic":  wire.AppendCreateTopic(nil, "cut", 2),
		"DeleteTopic":  wire.AppendDeleteTopic(nil, "old"),
	}
}

// TestCutRequests: a request of any type that ends before its fields do, at
// whichever byte, closes its connection without an answer and does nothing; and
// so does one whose peer closes in the middle.
func TestCutRequests(t *testing.T) {
	b := kafkatest.Start(t, goldenConfig)
	p := dial(t, b)
	p.send(produce("old", 0, entryP, entrySecond))
	p.barrier()
	for name, request := range wholeRequests() {
		for n := wire.SizeSize; n < len(request); n++ {
			// As a frame of its own, whose size is right for what is there.
			short := bytes.Clone(request[:n])
			binary.BigEndian.PutUint32(short, uint32(n-wire.SizeSize))
			// And as the beginning of the whole one.
			for how, sent := range map[string][]byte{"short frame": short, "closed": request[:n]} {
				p := dial(t, b)
				p.send(sent)
				if how == "closed" {
					p.CloseWrite()
				}
				if got := p.rest(); len(got) > 0 {
					t.Errorf("%s of %d bytes cut to %d, %s: answer %x", name, len(request), n, how, got)
				}
				p.Close()
			}
		}
	}
	p.send(wire.AppendTopics(nil, nil))
	p.want(0, wire.AppendTopicStates(nil, []wire.TopicState{
		{Topic: "old", Watermark: 42, LogEnd: 42, Segments: 1, Bytes: 42}, {Topic: "old", Partition: 1}}))
}

// TestAnyPartitionOfEachEntry: the entries of a multi-produce for partition -1
// get one each.
func TestAnyPartitionOfEachEntry(t *testing.T) {
	b := kafkatest.Start(t, goldenConfig)
	p := dial(t, b)
	const n = 100 // so that a partition stays empty once in 2^99 runs
	entries := make([]wire.ProduceEntry, n)
	for i := range entries {
		entries[i] = wire.ProduceEntry{Topic: "any", Partition: -1, Set: entrySecond}
	}
	p.send(wire.AppendMultiProduce(nil, entries))
	p.barrier()
	first, second := len(logOf(t, b, "any", 0)), len(logOf(t, b, "any", 1))
	if first+second != n*len(entrySecond) || first == 0 || second == 0 {
		t.Errorf("partitions have %d and %d bytes, want %d together and none empty", first, second, n*len(entrySecond))
	}
}

// TestOffsetsExample is the worked example of Kafka 0.7: 20 messages of 12 bytes,
// appended one by one, with segments rolled at 100.
func TestOffsetsExample(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.SegmentBytes = 100 })
	p := dial(t, b)
	for range 20 {
		p.send(produce("a", 0, message.Append1(nil, []byte("xx"), message.CodecNone)))
		p.barrier()
	}
	for _, row := range []struct {
		time  int64
		count int32
		want  []int64
	}{
		{wire.TimeLatest, 10, []int64{240, 216, 108, 0}},
		{wire.TimeLatest, 1, []int64{240}},
		{wire.TimeLatest, 2, []int64{240, 216}},
		{wire.TimeEarliest, 10, []int64{0}},
		{math.MaxInt64, 10, []int64{240, 216, 108, 0}},
		{1, 10, nil},
	} {
		p.send(wire.AppendOffsets(nil, "a", 0, row.time, row.count))
		p.want(0, wire.AppendOffsetList(nil, row.want))
	}
	// One fetch never crosses a segment.
	for offset, n := range map[int64]int{0: 108, 100: 8, 108: 108, 216: 24, 240: 0} {
		p.send(fetch("a", 0, offset, 1<<20))
		if _, set := p.answer(); len(set) != n {
			t.Errorf("fetch at %d gave %d bytes, want %d", offset, len(set), n)
		}
	}
}
