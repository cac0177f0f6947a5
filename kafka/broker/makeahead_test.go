package broker

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/wire"
)

// TestPartitionsAreMadeTogether: of the partitions that requests of one buffer begin
// to write to several are made at once, and each gets what was for it.
func TestPartitionsAreMadeTogether(t *testing.T) {
	const partitions, together = 40, 8
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS, c.Storage.DefaultPartitions = files, partitions })
	var mu sync.Mutex
	making, met := 0, make(chan struct{})
	files.SetHook(func(op vfs.Op) error {
		// The first request's is made before the others are looked at.
		if op.Kind != vfs.OpSyncDir || !strings.HasPrefix(op.Path, "/log/many-") || op.Path == "/log/many-0" {
			return nil
		}
		mu.Lock()
		if making++; making == together {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met:
			return nil
		case <-time.After(patience / 2):
			return errors.New("no other one is made meanwhile")
		}
	})
	var requests []byte
	for range 2 {
		for p := range int32(partitions) {
			requests = wire.AppendAckedProduce(requests, "many", p, ackedSet, wire.AcksAppended, 0)
		}
	}
	l, n := connect(t, s), int64(len(ackedSet))
	l.send(requests)
	for round := range int64(2) {
		for range partitions {
			l.wantRange(0, round*n, (round+1)*n)
		}
	}
}

// TestNothingIsMadeBehindADeletion: what comes behind another request is not begun
// before it.
func TestNothingIsMadeBehindADeletion(t *testing.T) {
	s := memoryBroker(t)
	l, n := connect(t, s), int64(len(ackedSet))
	l.send(append(append(acked("a", wire.AcksAppended, 0), wire.AppendDeleteTopic(nil, "b")...), acked("b", wire.AcksAppended, 0)...))
	l.wantRange(0, 0, n)
	if code, _ := l.answer(); code != wire.CodeNoSuchTopic {
		t.Errorf("the deletion was answered with %v", code)
	}
	l.wantRange(0, 0, n)
}
