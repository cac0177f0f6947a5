package broker

import (
	"bytes"
	"testing"

	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// TestScratchHoldsNothing: an idle connection does not keep the buffer of its
// last requests, which its scratch space has pointed into.
func TestScratchHoldsNothing(t *testing.T) {
	for _, n := range []int{1, 3, maxScratch, maxScratch + 1} {
		scratch := make([]wire.Produce, n)
		for i := range scratch {
			scratch[i].Set = []byte("of a buffer")
		}
		kept := forget(scratch[:1]) // the last request had fewer
		if len(kept) != 0 || cap(kept) > maxScratch {
			t.Errorf("of %d there are %d, with room for %d", n, len(kept), cap(kept))
		}
		for _, p := range kept[:cap(kept)] {
			if !bytes.Equal(p.Set, nil) {
				t.Errorf("of %d one still has %q", n, p.Set)
			}
		}
	}
}

// TestCountersOfADeletedTopic: a request that found the log before its deletion
// does not bring the topic back.
func TestCountersOfADeletedTopic(t *testing.T) {
	dir := t.TempDir()
	logs, err := storage.Open(t.Context(), dir, storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{disk: diskRoom{dir: dir, statfs: statfs}}
	s.opened.Store(logs)
	m := newMetrics(s)
	log, err := logs.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	m.topic(log).bytesIn.Add(1)
	if err := logs.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	m.dropTopic("t")
	m.topic(log).bytesIn.Add(1)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "kafka_broker_bytes_in_total" {
			t.Errorf("the deleted topic is back: %v", f)
		}
	}
	if err := logs.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
