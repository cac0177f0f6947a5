package consumer_test

import (
	"errors"
	"strings"
	"testing"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
)

// happened counts what a stream's hooks were told.
type happened struct {
	disconnected []error
	connected    int
	resets       [][2]int64
}

func (h *happened) hooks() consumer.Hooks {
	return consumer.Hooks{
		Disconnected: func(err error) { h.disconnected = append(h.disconnected, err) },
		Connected:    func() { h.connected++ },
		Reset:        func(from, to int64) { h.resets = append(h.resets, [2]int64{from, to}) },
	}
}

// TestHooks: a lost connection, the one that takes its place and a reset are
// told. That a broker of 0.7 hangs up on a request that it does not know, and a
// seek that leaves a request behind, are no losses.
func TestHooks(t *testing.T) {
	for _, old := range []bool{false, true} {
		f := newFake(t, func(f *fakeBroker) { f.old, f.log = old, encode(0, 10, numbered) })
		var h happened
		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.Start, c.Hooks = 1<<40, h.hooks() })
		expect(t, s, 0, 10, numbered, 0)
		if len(h.disconnected) > 0 || h.connected > 0 || len(h.resets) != 1 || h.resets[0] != [2]int64{1 << 40, 0} {
			t.Errorf("old %v: at the start %+v", old, h)
		}
		if err := s.SeekTo(0); err != nil {
			t.Fatal(err)
		}
		expect(t, s, 0, 10, numbered, 0)
		if len(h.disconnected) > 0 || h.connected > 0 {
			t.Errorf("old %v: after a seek %+v", old, h)
		}
		f.hangUp()
		f.append(encode(10, 1, numbered))
		expect(t, s, 10, 1, numbered, s.ConsumedOffset()+int64(message.EntrySize(len(numbered(9)))))
		if len(h.disconnected) != 1 || h.connected != 1 || h.disconnected[0] == nil {
			t.Errorf("old %v: after a loss %+v", old, h)
		}
	}
}

// TestOffsetWithinAMessage: of an offset that the application has named, it is
// said first that it may be wrong; not of one that the stream has come to.
func TestOffsetWithinAMessage(t *testing.T) {
	const doubt = "is perhaps not the start of a message: "
	log := encode(0, 10, numbered)
	size := message.EntrySize(len(numbered(0)))
	log[5*size+4] = 7 // magic
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	for _, offset := range []int64{3, int64(size) + 1, int64(5 * size)} {
		opened := open(t, f.addr, func(c *consumer.PartitionConfig) { c.Start, c.MaxWait = offset, quick })
		moved := open(t, f.addr, func(c *consumer.PartitionConfig) { c.MaxWait = quick })
		if err := moved.SeekTo(offset); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*consumer.Stream{opened, moved} {
			if _, err := s.Next(testContext(t)); err == nil || !strings.Contains(err.Error(), doubt) {
				t.Errorf("offset %d: error %v", offset, err)
			}
		}
	}
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.Start, c.MaxWait = int64(size), quick })
	at := expect(t, s, 1, 4, numbered, int64(size))
	if _, err := s.Next(testContext(t)); !errors.Is(err, message.ErrMagic) || strings.Contains(err.Error(), doubt) {
		t.Errorf("offset %d: error %v", at, err)
	}
}
