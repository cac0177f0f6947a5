package wire_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"kafkalab/kafka/wire"
)

// codec reads a body or payload and writes what it read.
type codec struct {
	name string
	// draw makes a legal one.
	draw func(t *rapid.T) []byte
	// again parses b and encodes the result.
	again func(b []byte) ([]byte, error)
}

func topic() *rapid.Generator[string] { return rapid.StringN(0, 20, 60) }

func fetches() *rapid.Generator[[]wire.FetchEntry] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wire.FetchEntry {
		return wire.FetchEntry{Topic: topic().Draw(t, "topic"), Partition: rapid.Int32().Draw(t, "partition"),
			Offset: rapid.Int64().Draw(t, "offset"), MaxBytes: rapid.Int32().Draw(t, "max")}
	}), 0, 5)
}

func set() *rapid.Generator[[]byte] { return rapid.SliceOfN(rapid.Byte(), 0, 30) }

// body cuts the size and the type off a request.
func body(frame []byte) []byte { return frame[wire.SizeSize+wire.TypeSize:] }

func entries(fs []wire.Fetch) (es []wire.FetchEntry) {
	for _, f := range fs {
		es = append(es, wire.FetchEntry{Topic: string(f.Topic), Partition: f.Partition, Offset: f.Offset, MaxBytes: f.MaxBytes})
	}
	return es
}

var codecs = []codec{
	{"Produce",
		func(t *rapid.T) []byte {
			return body(wire.AppendProduce(nil, topic().Draw(t, "topic"), rapid.Int32().Draw(t, "partition"), set().Draw(t, "set")))
		},
		func(b []byte) ([]byte, error) {
			p, err := wire.ParseProduce(b)
			return body(wire.AppendProduce(nil, string(p.Topic), p.Partition, p.Set)), err
		}},
	{"AckedProduce",
		func(t *rapid.T) []byte {
			return body(wire.AppendAckedProduce(nil, topic().Draw(t, "topic"), rapid.Int32().Draw(t, "partition"), set().Draw(t, "set"),
				wire.Acks(rapid.Int16().Draw(t, "acks")), rapid.Int32().Draw(t, "timeout")))
		},
		func(b []byte) ([]byte, error) {
			p, err := wire.ParseAckedProduce(b)
			return body(wire.AppendAckedProduce(nil, string(p.Topic), p.Partition, p.Set, p.Acks, p.TimeoutMs)), err
		}},
	{"Fetch",
		func(t *rapid.T) []byte {
			return body(wire.AppendFetch(nil, fetches().Filter(some).Draw(t, "fetch")[0]))
		},
		func(b []byte) ([]byte, error) {
			f, err := wire.ParseFetch(b)
			return body(wire.AppendFetch(nil, entries([]wire.Fetch{f})[0])), err
		}},
	{"MultiFetch",
		func(t *rapid.T) []byte { return body(wire.AppendMultiFetch(nil, fetches().Draw(t, "fetches"))) },
		func(b []byte) ([]byte, error) {
			m, err := wire.ParseMultiFetch(nil, b)
			return body(wire.AppendMultiFetch(nil, entries(m.Fetches))), err
		}},
	{"WaitFetch",
		func(t *rapid.T) []byte {
			return body(wire.AppendWaitFetch(nil, fetches().Draw(t, "fetches"), rapid.Int32().Draw(t, "wait"), rapid.Int32().Draw(t, "bytes")))
		},
		func(b []byte) ([]byte, error) {
			m, err := wire.ParseWaitFetch(nil, b)
			return body(wire.AppendWaitFetch(nil, entries(m.Fetches), m.MaxWaitMs, m.MinBytes)), err
		}},
	{"MultiProduce",
		func(t *rapid.T) []byte {
			return body(wire.AppendMultiProduce(nil, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wire.ProduceEntry {
				return wire.ProduceEntry{Topic: topic().Draw(t, "topic"), Partition: rapid.Int32().Draw(t, "partition"), Set: set().Draw(t, "set")}
			}), 0, 5).Draw(t, "entries")))
		},
		func(b []byte) ([]byte, error) {
			ps, err := wire.ParseMultiProduce(nil, b)
			var es []wire.ProduceEntry
			for _, p := range ps {
				es = append(es, wire.ProduceEntry{Topic: string(p.Topic), Partition: p.Partition, Set: p.Set})
			}
			return body(wire.AppendMultiProduce(nil, es)), err
		}},
	{"Offsets",
		func(t *rapid.T) []byte {
			return body(wire.AppendOffsets(nil, topic().Draw(t, "topic"), rapid.Int32().Draw(t, "partition"), rapid.Int64().Draw(t, "time"), rapid.Int32().Draw(t, "count")))
		},
		func(b []byte) ([]byte, error) {
			o, err := wire.ParseOffsets(b)
			return body(wire.AppendOffsets(nil, string(o.Topic), o.Partition, o.Time, o.MaxCount)), err
		}},
	{"Topics",
		func(t *rapid.T) []byte {
			return body(wire.AppendTopics(nil, rapid.SliceOfN(topic(), 0, 5).Draw(t, "topics")))
		},
		func(b []byte) ([]byte, error) {
			topics, err := wire.ParseTopics(b)
			var names []string
			for _, name := range topics {
				names = append(names, string(name))
			}
			return body(wire.AppendTopics(nil, names)), err
		}},
	{"CreateTopic",
		func(t *rapid.T) []byte {
			return body(wire.AppendCreateTopic(nil, topic().Draw(t, "topic"), rapid.Int32().Draw(t, "partitions")))
		},
		func(b []byte) ([]byte, error) {
			c, err := wire.ParseCreateTopic(b)
			return body(wire.AppendCreateTopic(nil, string(c.Topic), c.Partitions)), err
		}},
	{"DeleteTopic",
		func(t *rapid.T) []byte { return body(wire.AppendDeleteTopic(nil, topic().Draw(t, "topic"))) },
		func(b []byte) ([]byte, error) {
			name, err := wire.ParseDeleteTopic(b)
			return body(wire.AppendDeleteTopic(nil, string(name))), err
		}},
	{"offset list",
		func(t *rapid.T) []byte {
			return wire.AppendOffsetList(nil, rapid.SliceOfN(rapid.Int64(), 0, 9).Draw(t, "offsets"))
		},
		func(b []byte) ([]byte, error) {
			o, err := wire.ParseOffsetList(b)
			return wire.AppendOffsetList(nil, o), err
		}},
	{"acked range",
		func(t *rapid.T) []byte {
			return wire.AppendAckedRange(nil, wire.AckedRange{Base: rapid.Int64().Draw(t, "base"), Next: rapid.Int64().Draw(t, "next")})
		},
		func(b []byte) ([]byte, error) {
			r, err := wire.ParseAckedRange(b)
			return wire.AppendAckedRange(nil, r), err
		}},
	{"topic states",
		func(t *rapid.T) []byte {
			return wire.AppendTopicStates(nil, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wire.TopicState {
				i := rapid.Int64()
				return wire.TopicState{Topic: topic().Draw(t, "topic"), Partition: rapid.Int32().Draw(t, "partition"), First: i.Draw(t, "first"),
					Watermark: i.Draw(t, "watermark"), LogEnd: i.Draw(t, "end"), Segments: rapid.Int32().Draw(t, "segments"), Bytes: i.Draw(t, "bytes")}
			}), 0, 5).Draw(t, "states"))
		},
		func(b []byte) ([]byte, error) {
			s, err := wire.ParseTopicStates(b)
			return wire.AppendTopicStates(nil, s), err
		}},
	{"fetch results",
		func(t *rapid.T) []byte { return results(t, 2) },
		func(b []byte) ([]byte, error) {
			rs, err := wire.ParseFetchResults(nil, b, 2)
			var again []byte
			for _, r := range rs {
				again = append(wire.AppendResponseHeader(again, r.Code, len(r.Set)), r.Set...)
			}
			return again, err
		}},
}

func some(fs []wire.FetchEntry) bool { return len(fs) > 0 }

func results(t *rapid.T, n int) (b []byte) {
	for range n {
		s := set().Draw(t, "set")
		b = append(wire.AppendResponseHeader(b, wire.Code(rapid.Int16().Draw(t, "code")), len(s)), s...)
	}
	return b
}

// What was written is read as it was; bytes behind it are ignored, as in Kafka
// 0.7; and what is cut anywhere is an error.
func TestRoundTrip(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, rapid.MakeCheck(func(t *rapid.T) {
			b := c.draw(t)
			if got, err := c.again(b); err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%x becomes %x, %v", b, got, err)
			}
			if got, err := c.again(append(b[:len(b):len(b)], set().Draw(t, "rest")...)); err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%x with more behind it becomes %x, %v", b, got, err)
			}
			cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
			if _, err := c.again(b[:cut]); !errors.Is(err, wire.ErrShort) {
				t.Fatalf("%x cut at %d of %d: %v", b, cut, len(b), err)
			}
		}))
	}
}

// FuzzDecoders gives the same bytes to every decoder: what one accepts, it
// writes again as it was.
func FuzzDecoders(f *testing.F) {
	for i, c := range codecs {
		for seed := range 3 {
			f.Add(i, rapid.Custom(c.draw).Example(seed))
		}
		f.Add(i, unhex(f, "7fff 7fffffff"))
		f.Add(i, unhex(f, "ffff ffffffff"))
		f.Add(i, unhex(f, "7fffffff ffffffff 7fffffff"))
	}
	f.Fuzz(func(t *testing.T, which int, b []byte) {
		c := codecs[uint(which)%uint(len(codecs))]
		before := bytes.Clone(b)
		again, err := c.again(b)
		if err == nil && (len(again) > len(b) || !bytes.Equal(again, b[:len(again)])) && !nullTopic(c, b, again) {
			t.Fatalf("%s: %x becomes %x", c.name, b, again)
		}
		if !bytes.Equal(before, b) {
			t.Fatalf("%s changed what it read", c.name)
		}
	})
}

// nullTopic reports whether the difference may be that a null topic of b was
// written as an empty one.
func nullTopic(c codec, b, again []byte) bool {
	twice, err := c.again(again)
	return bytes.Contains(b, []byte{0xff, 0xff}) && len(again) <= len(b) && err == nil && bytes.Equal(twice, again)
}

func FuzzFrames(f *testing.F) {
	f.Add(unhex(f, "00000002 0000"), 100)
	f.Add(unhex(f, "7fffffff ffff"), 1<<31-1)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		limit = int(uint32(limit) >> 1)
		if n, err := wire.FrameSize(b, wire.TypeSize, limit); err == nil && n != 0 && (n < wire.SizeSize+wire.TypeSize || n > wire.SizeSize+limit) {
			t.Fatalf("frame of %d bytes, limit %d", n, limit)
		}
		if _, n, err := wire.ParseResponseHeader(b, limit); err == nil && (n < 0 || n > limit) {
			t.Fatalf("payload of %d bytes, limit %d", n, limit)
		}
		typ, rest, err := wire.SplitRequest(b)
		if err == nil && (len(rest) != len(b)-wire.TypeSize || typ.String() == "") {
			t.Fatalf("%v with %d of %d bytes", typ, len(rest), len(b))
		}
	})
}

// TestB06CountsAreChecked: a count is checked against what is there before
// anything is allotted for it (fault B06).
func TestB06CountsAreChecked(t *testing.T) {
	for name, parse := range map[string]func([]byte) error{
		"MultiFetch":   func(b []byte) error { _, err := wire.ParseMultiFetch(nil, b); return err },
		"MultiProduce": func(b []byte) error { _, err := wire.ParseMultiProduce(nil, b); return err },
		"WaitFetch":    func(b []byte) error { _, err := wire.ParseWaitFetch(nil, b); return err },
		"Topics":       func(b []byte) error { _, err := wire.ParseTopics(b); return err },
		"offsets":      func(b []byte) error { _, err := wire.ParseOffsetList(b); return err },
		"states":       func(b []byte) error { _, err := wire.ParseTopicStates(b); return err },
		"results":      func(b []byte) error { _, err := wire.ParseFetchResults(nil, b, 1); return err },
	} {
		for _, b := range []string{"7fff7fff", "ffffffff", "7fffffff", "80000000", "7fffffff 0000", "80000000 0000"} {
			in := unhex(t, b)
			var err error
			allotted := testing.AllocsPerRun(1, func() { err = parse(in) })
			if err == nil || allotted > 10 {
				t.Errorf("%s of %s: %v, %.0f allocations", name, b, err, allotted)
			}
		}
	}
	if rs, err := wire.ParseFetchResults(nil, unhex(t, "00000001 0000"), 1); !errors.Is(err, wire.ErrFrameSize) || len(rs) != 0 {
		t.Errorf("inner size 1: %v, %v", rs, err)
	}
	if _, err := wire.ParseMultiFetch(nil, unhex(t, "ffff")); !errors.Is(err, wire.ErrNegative) {
		t.Errorf("count -1: %v", err)
	}
	if p, err := wire.ParseProduce(unhex(t, "ffff 00000000 00000000")); err != nil || p.Topic != nil {
		t.Errorf("null topic: %q, %v", p.Topic, err)
	}
	if _, err := wire.ParseProduce(unhex(t, "fffe 00000000 00000000")); !errors.Is(err, wire.ErrNegative) {
		t.Errorf("topic of length -2: %v", err)
	}
	if got, err := wire.ParseTopics(unhex(t, "0000")); err != nil || !reflect.DeepEqual(got, [][]byte(nil)) {
		t.Errorf("no topics: %v, %v", got, err)
	}
}
