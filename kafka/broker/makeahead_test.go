package broker

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
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

// TestNothingIsMadeForWhatIsRefused: of the requests behind the one in hand only those
// make their partitions ahead that will make them anyway.
func TestNothingIsMadeForWhatIsRefused(t *testing.T) {
	corrupt := append([]byte(nil), ackedSet...)
	corrupt[len(corrupt)-1]++
	large := message.Append(nil, make([]byte, 1001))
	silent := func(topic string, partition int32, set []byte) []byte {
		return wire.AppendProduce(nil, topic, partition, set)
	}
	made, behind := silent("made", 0, ackedSet), acked("behind", wire.AcksAppended, 0)
	for _, c := range []struct {
		what     string
		requests [][]byte
		want     []string // topics; that of the requests behind is among them if those are handled
	}{
		{"sound ones", [][]byte{made, silent("other", 1, ackedSet), behind}, []string{"behind", "made", "other"}},
		{"a corrupt set in hand", [][]byte{silent("made", 0, corrupt), behind}, []string{"made"}},
		{"a corrupt set", [][]byte{made, silent("made", 0, corrupt), behind}, []string{"made"}},
		{"a corrupt set for a choice of partition", [][]byte{made, silent("made", -1, corrupt), behind}, []string{"made"}},
		{"a set that is cut off", [][]byte{made, silent("made", 0, ackedSet[:5]), behind}, []string{"made"}},
		{"no partition", [][]byte{made, silent("other", 2, ackedSet), behind}, []string{"made"}},
		{"a partition below -1", [][]byte{made, silent("other", -2, ackedSet), behind}, []string{"made"}},
		{"no name", [][]byte{made, silent("a/b", 0, ackedSet), behind}, []string{"made"}},
		{"no request", [][]byte{made, {0, 0, 0, 3, 0, 99, 0}, behind}, []string{"made"}},
		{"acks that are none", [][]byte{made, acked("other", 7, 0), behind}, []string{"behind", "made"}},
		{"a time-out that is none", [][]byte{made, acked("other", wire.AcksFlushed, -time.Second), behind}, []string{"behind", "made"}},
		{"acks and a choice of partition", [][]byte{made, wire.AppendAckedProduce(nil, "other", -1, ackedSet, wire.AcksAppended, 0), behind}, []string{"behind", "made"}},
		{"acks and no partition", [][]byte{made, wire.AppendAckedProduce(nil, "other", 2, ackedSet, wire.AcksAppended, 0), behind}, []string{"behind", "made"}},
		{"one order for two partitions", [][]byte{acked("made", wire.AcksOrdered, patience), acked("other", wire.AcksOrdered, patience), behind}, []string{"behind", "made"}},
		// As it would by itself, whether or not its set is taken then.
		{"acks and a corrupt set", [][]byte{made, wire.AppendAckedProduce(nil, "other", 0, corrupt, wire.AcksAppended, 0), behind}, []string{"behind", "made", "other"}},
		{"a message that is dropped", [][]byte{made, silent("other", 0, large), behind}, []string{"behind", "made", "other"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := memoryBroker(t, func(c *Config) { c.MaxMessageBytes = 1000 })
			l := connect(t, s)
			l.send(bytes.Join(c.requests, nil))
			if err := l.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answers, err := io.ReadAll(l)
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			if got := s.logs.Topics(); !slices.Equal(got, c.want) {
				t.Errorf("topics %q, want %q", got, c.want)
			}
			handled, end := slices.Contains(c.want, "behind"), s.end("behind")
			if handled != (end > 0) || handled != (len(answers) > 0) {
				t.Errorf("what is behind ends at %d, with %d bytes of answers", end, len(answers))
			}
		})
	}
}

// TestPanicInMakingAhead: a broken invariant while partitions are made ends the
// connection that has asked for the one that met it. The broker goes on, and so do the
// other partitions.
func TestPanicInMakingAhead(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSyncDir && op.Path == "/log/bad-0" {
			panic("as no code does")
		}
		return nil
	})
	l, n := connect(t, s), int64(len(ackedSet))
	l.send(bytes.Join([][]byte{
		acked("a", wire.AcksAppended, 0), acked("b", wire.AcksAppended, 0), acked("bad", wire.AcksAppended, 0), acked("c", wire.AcksAppended, 0),
	}, nil))
	rest, err := io.ReadAll(l)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) || len(rest)%ackedAnswerSize != 0 || len(rest) > 2*ackedAnswerSize {
		t.Errorf("%d bytes of answers, %v", len(rest), err)
	}
	files.SetHook(nil)
	if s.end("a") != n {
		t.Errorf("what came before it ends at %d", s.end("a"))
	}
	if got := testCounter(t, s, "kafka_broker_panics_total"); got != 2 {
		t.Errorf("%v panics are counted, want that ahead and that of the request", got)
	}
	good := connect(t, s)
	for _, topic := range []string{"bad", "c", "d"} {
		good.send(acked(topic, wire.AcksAppended, 0))
		good.wantRange(0, 0, n)
	}
}

// TestMakingAheadFails: a failure ahead is that of the request that it was for, and
// told as its.
func TestMakingAheadFails(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.HasPrefix(op.Path, "/log/full-") {
			return syscall.ENOSPC
		}
		return nil
	})
	l, n := connect(t, s), int64(len(ackedSet))
	send := func() {
		l.send(bytes.Join([][]byte{acked("a", wire.AcksAppended, 0), acked("full", wire.AcksAppended, 0), acked("b", wire.AcksAppended, 0)}, nil))
	}
	send()
	l.wantRange(0, 0, n)
	l.wantRange(wire.CodeUnknown, -1, -1)
	l.wantRange(0, 0, n)
	if got := testCounter(t, s, "kafka_broker_storage_errors_total"); got != 1 {
		t.Errorf("%v errors are counted", got)
	}
	files.SetHook(nil)
	send()
	for _, base := range []int64{n, 0, n} {
		l.wantRange(0, base, base+n)
	}
}
