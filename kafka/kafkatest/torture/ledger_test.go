package torture

import (
	"strings"
	"testing"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// fakeLog stands for a broker with one partition: it appends as one would.
type fakeLog struct {
	t       *testing.T
	ledger  *Ledger
	name    TopicPartition
	all     []Found
	end     int64
	streams [levels]*Stream
}

func newFakeLog(t *testing.T) *fakeLog {
	l := &fakeLog{t: t, ledger: NewLedger(1), name: TopicPartition{"t", 0}}
	l.ledger.topics["t"] = &topicFact{partitions: 1}
	l.ledger.history[l.name] = &history{}
	return l
}

// send sends a set of n messages and acknowledges it if its level asks for that.
func (l *fakeLog) send(level Level, n int) (base, end int64) {
	l.t.Helper()
	s := l.streams[level]
	if s == nil {
		s = l.ledger.OpenStream(l.name, level)
		l.streams[level] = s
	}
	b, set, err := s.AppendSet(nil, make([]int, n), message.CodecNone)
	if err != nil {
		l.t.Fatal(err)
	}
	base = l.end
	it := message.Set(b).Iterate(base)
	for it.Next() {
		f, err := l.ledger.parse(it.Message(), it.Offset(), it.NextOffset())
		if err != nil {
			l.t.Fatal(err)
		}
		l.all = append(l.all, f)
	}
	l.end = base + int64(len(b))
	switch level {
	case Received:
		s.Acked(set, wire.AckedRange{Base: -1, Next: -1})
	case Appended, Flushed:
		s.Acked(set, wire.AckedRange{Base: base, Next: l.end})
	}
	return base, l.end
}

// snapshot returns the log from first to end.
func (l *fakeLog) snapshot(first, end int64) Snapshot {
	log := Log{First: first, End: end, LogEnd: end}
	for _, f := range l.all {
		if f.Offset >= first && f.Next <= end {
			log.Messages = append(log.Messages, f)
		}
	}
	return Snapshot{Logs: map[TopicPartition]Log{l.name: log}, Topics: map[string]int32{"t": 1}}
}

// TestCheck: the checker finds what it is there to find, and no more.
func TestCheck(t *testing.T) {
	const size = message.Overhead0 + payloadHeaderBytes
	// The log of each row: 4 messages that an earlier check has found; then a
	// flushed set of 2, an appended one of 2, one without an answer of 2.
	const old, flushed, appended, all = 4 * size, 6 * size, 8 * size, 10 * size
	for _, row := range []struct {
		name    string
		options CheckOptions
		change  func(l *fakeLog) Snapshot
		says    string // "": all is well
	}{
		{"all there", CheckOptions{}, func(l *fakeLog) Snapshot { return l.snapshot(0, all) }, ""},
		{"the end lost that nobody was told of", CheckOptions{}, func(l *fakeLog) Snapshot { return l.snapshot(0, appended) }, ""},
		{"half of a set at the end", CheckOptions{}, func(l *fakeLog) Snapshot { return l.snapshot(0, appended+size) }, ""},
		{"appended lost by a kill", CheckOptions{}, func(l *fakeLog) Snapshot { return l.snapshot(0, flushed) }, "is lost"},
		{"half of what was appended, by a kill", CheckOptions{}, func(l *fakeLog) Snapshot { return l.snapshot(0, flushed+size) }, "in part only"},
		{"appended lost with the power", CheckOptions{Crash: PowerLost}, func(l *fakeLog) Snapshot { return l.snapshot(0, flushed) }, ""},
		{"half of what was appended, with the power", CheckOptions{Crash: PowerLost}, func(l *fakeLog) Snapshot { return l.snapshot(0, flushed+size) }, ""},
		{"flushed lost", CheckOptions{Crash: PowerLost}, func(l *fakeLog) Snapshot { return l.snapshot(0, old) }, "is lost"},
		{"old lost", CheckOptions{Crash: PowerLost}, func(l *fakeLog) Snapshot { return l.snapshot(0, size) }, "before, 100 was flushed"},
		{"the log gone", CheckOptions{}, func(l *fakeLog) Snapshot { return Snapshot{Topics: map[string]int32{"t": 1}} }, "t-0 is gone"},
		{"the topic gone", CheckOptions{}, func(l *fakeLog) Snapshot {
			s := l.snapshot(0, all)
			s.Topics = nil
			return s
		}, "topic t is gone"},
		{"more partitions", CheckOptions{}, func(l *fakeLog) Snapshot {
			s := l.snapshot(0, all)
			s.Topics["t"] = 2
			return s
		}, "has 2 partitions"},
		{"a topic from nowhere", CheckOptions{}, func(l *fakeLog) Snapshot {
			s := l.snapshot(0, all)
			s.Topics["u"] = 1
			return s
		}, "topic u with 1 partitions was never made"},
		{"a deleted topic", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.ledger.setTopic("u", topicFact{gone: true})
			s := l.snapshot(0, all)
			s.Topics["u"] = 1
			return s
		}, "topic u with 1 partitions is back"},
		{"a topic that may be there", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.ledger.setTopic("u", topicFact{})
			l.ledger.setTopic("v", topicFact{})
			s := l.snapshot(0, all)
			s.Topics["u"] = 1
			return s
		}, ""},
		{"old changed", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.all[1].Sequence = 7
			return l.snapshot(0, all)
		}, "stands where after the last recovery"},
		{"doubled", CheckOptions{}, func(l *fakeLog) Snapshot {
			again := l.all[9]
			again.Offset, again.Next = all, all+size
			l.all = append(l.all, again)
			return l.snapshot(0, all+size)
		}, "twice or out of order"},
		{"doubled in the middle", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.all[9].Sequence = 0
			return l.snapshot(0, all)
		}, "twice or out of order"},
		{"out of order", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.all[8].Sequence, l.all[9].Sequence = 1, 0
			return l.snapshot(0, all)
		}, "twice or out of order"},
		{"an old one again", CheckOptions{}, func(l *fakeLog) Snapshot {
			again := l.all[0]
			again.Offset, again.Next = all, all+size
			l.all = append(l.all, again)
			return l.snapshot(0, all+size)
		}, "appears, which was not there"},
		{"never sent", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.all = append(l.all, Found{Offset: all, Next: all + size, Stream: l.streams[None].number, Sequence: 2})
			return l.snapshot(0, all+size)
		}, "was never sent here"},
		{"a stream of nobody", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.all = append(l.all, Found{Offset: all, Next: all + size, Stream: 1000})
			return l.snapshot(0, all+size)
		}, "was never sent here"},
		{"at another offset", CheckOptions{}, func(l *fakeLog) Snapshot {
			for i := 4; i < 10; i++ {
				l.all[i].Offset++
				l.all[i].Next++
			}
			return l.snapshot(0, all+1)
		}, "was acknowledged at offset 100 to 150, and is at 101 to 151"},
		{"a hole", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.send(None, 1)
			l.all = append(l.all[:8], l.all[10])
			return l.snapshot(0, l.end)
		}, "is missing"},
		{"a refused set in the middle", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.send(Flushed, 1)
			l.streams[Flushed].Refused(1)
			l.all = l.all[:10]
			l.end = all
			l.send(Flushed, 1)
			return l.snapshot(0, l.end)
		}, ""},
		{"an acknowledged set missing within", CheckOptions{Crash: PowerLost}, func(l *fakeLog) Snapshot {
			l.all = append(l.all[:6], l.all[8:]...)
			return l.snapshot(0, all)
		}, "is not there"},
		{"part of a set within", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.send(Appended, 1)
			l.all = append(l.all[:9], l.all[10])
			return l.snapshot(0, l.end)
		}, "in part"},
		{"retention", CheckOptions{Retention: true}, func(l *fakeLog) Snapshot { return l.snapshot(2*size, all) }, ""},
		{"retention of what is new", CheckOptions{Retention: true, RetentionBytes: 2 * size}, func(l *fakeLog) Snapshot { return l.snapshot(appended, all) }, ""},
		{"retention of all", CheckOptions{Retention: true}, func(l *fakeLog) Snapshot { return l.snapshot(all, all) }, ""},
		{"retention of too much", CheckOptions{Retention: true, RetentionBytes: 2*size + 1}, func(l *fakeLog) Snapshot { return l.snapshot(appended, all) }, "must stay"},
		{"retention where there is none", CheckOptions{}, func(l *fakeLog) Snapshot { return l.snapshot(2*size, all) }, "nothing may remove"},
		{"not all visible", CheckOptions{}, func(l *fakeLog) Snapshot {
			s := l.snapshot(0, all)
			log := s.Logs[l.name]
			log.LogEnd++
			s.Logs[l.name] = log
			return s
		}, "only 250 of it are visible"},
		{"seen and there", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.see(0, all)
			return l.snapshot(0, all)
		}, ""},
		{"seen and removed", CheckOptions{Retention: true}, func(l *fakeLog) Snapshot {
			l.see(0, all)
			return l.snapshot(old, all)
		}, ""},
		{"seen and lost", CheckOptions{Crash: PowerLost}, func(l *fakeLog) Snapshot {
			l.see(size, all)
			return l.snapshot(0, flushed)
		}, "a consumer has seen"},
		{"seen before it was flushed, and lost", CheckOptions{Crash: PowerLost, VisibleAppended: true}, func(l *fakeLog) Snapshot {
			l.see(size, all)
			return l.snapshot(0, flushed)
		}, ""},
		{"seen elsewhere", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.see(old, all)
			l.ledger.readings[0].seen[0].Sequence++
			return l.snapshot(0, all)
		}, "a consumer has seen"},
		{"noticed during the load", CheckOptions{}, func(l *fakeLog) Snapshot {
			l.ledger.Problem("something odd")
			return l.snapshot(0, all)
		}, "something odd"},
		{"damage", CheckOptions{}, func(l *fakeLog) Snapshot {
			s := l.snapshot(0, all)
			log := s.Logs[l.name]
			log.Problems = []string{"damage is handed out"}
			s.Logs[l.name] = log
			return s
		}, "damage is handed out"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := newFakeLog(t)
			l.send(Appended, 4)
			if err := l.ledger.Check(l.snapshot(0, old), CheckOptions{}).Err(); err != nil {
				t.Fatalf("before: %v", err)
			}
			l.streams = [levels]*Stream{}
			l.send(Flushed, 2)
			l.send(Appended, 2)
			l.send(None, 2)
			err := l.ledger.Check(row.change(l), row.options).Err()
			switch {
			case row.says == "" && err != nil:
				t.Errorf("it objects: %v", err)
			case row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)):
				t.Errorf("error %v, and it should say %q", err, row.says)
			}
		})
	}
}

// see lets a consumer see the log from first to end.
func (l *fakeLog) see(first, end int64) {
	r := l.ledger.OpenReading(l.name)
	for _, f := range l.all {
		if f.Offset >= first && f.Next <= end {
			r.Saw(f)
		}
	}
}

// TestCounts: what each level has lost is what is reported.
func TestCounts(t *testing.T) {
	l := newFakeLog(t)
	l.send(Flushed, 3)
	_, end := l.send(Appended, 1)
	l.send(Received, 2)
	l.send(None, 4)
	r := l.ledger.Check(l.snapshot(0, end), CheckOptions{Crash: PowerLost})
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	var total Report
	total.Add(r)
	want := [levels]Counts{None: {Sent: 4, Lost: 4}, Received: {Sent: 2, Acked: 2, Lost: 2, LostAcked: 2}, Appended: {Sent: 1, Acked: 1, Found: 1}, Flushed: {Sent: 3, Acked: 3, Found: 3}}
	if total.Levels != want || total.Checks != 1 || total.Messages != 4 {
		t.Errorf("%+v, %+v wanted", total, want)
	}
}

// TestCompressedSets: messages of one compressed entry are compared like others.
func TestCompressedSets(t *testing.T) {
	for _, codec := range []message.Codec{message.CodecGzip, message.CodecSnappy} {
		l := newFakeLog(t)
		s := l.ledger.OpenStream(l.name, Appended)
		b, set, err := s.AppendSet(nil, []int{100, 200, 300}, codec)
		if err != nil {
			t.Fatal(err)
		}
		s.Acked(set, wire.AckedRange{Base: 0, Next: int64(len(b))})
		it := message.Set(b).Iterate(0)
		for it.Next() {
			f, err := l.ledger.parse(it.Message(), it.Offset(), it.NextOffset())
			if err != nil {
				t.Fatal(err)
			}
			l.all = append(l.all, f)
		}
		l.see(0, int64(len(b)))
		for range 2 { // new, then old
			r := l.ledger.Check(l.snapshot(0, int64(len(b))), CheckOptions{})
			if err := r.Err(); err != nil || r.Messages != 3 {
				t.Errorf("%v: %d messages, %v", codec, r.Messages, err)
			}
		}
	}
}

// TestPayloadDamage: no flipped bit of a payload passes.
func TestPayloadDamage(t *testing.T) {
	good := appendPayload(nil, 7, 3, 9, 40)
	if stream, sequence, err := parsePayload(good, 7); err != nil || stream != 3 || sequence != 9 {
		t.Fatalf("stream %d, message %d, %v", stream, sequence, err)
	}
	if _, _, err := parsePayload(good, 8); err == nil {
		t.Error("taken for another ledger's")
	}
	for bit := range len(good) * 8 {
		good[bit/8] ^= 1 << (bit % 8)
		if _, _, err := parsePayload(good, 7); err == nil {
			t.Errorf("bit %d flipped: not noticed", bit)
		}
		good[bit/8] ^= 1 << (bit % 8)
	}
	if _, _, err := parsePayload(good[:15], 7); err == nil {
		t.Error("cut: not noticed")
	}
}
