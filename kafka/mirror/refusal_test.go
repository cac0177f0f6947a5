package mirror_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/mirror"
)

// newFaultyTarget returns a cluster of one broker whose disk fails: fault is asked before
// each operation on a segment file of topic t, with how many of that kind there were.
func newFaultyTarget(t testing.TB, kind vfs.OpKind, fault func(n int64) error) *cluster {
	t.Helper()
	files := vfs.NewMem(time.Now)
	var n atomic.Int64
	files.SetHook(func(op vfs.Op) error {
		if op.Kind != kind || !strings.Contains(op.Path, "/t-0/") || !strings.HasSuffix(op.Path, ".kafka") {
			return nil
		}
		return fault(n.Add(1))
	})
	return newCluster(t, 1, 1, func(c *broker.Config) {
		c.LogDir, c.Storage.FS = "/log", files
		c.Storage.FlushMessages, c.Storage.FlushInterval = 0, 0 // only as somebody waits for it
	})
}

// TestOrderBehindARefusal: the target refuses a set, and would take those that are on their
// way behind it, as its disk is full for one write now and then. None of them gets before it,
// and nothing comes twice.
func TestOrderBehindARefusal(t *testing.T) {
	t.Parallel()
	const messages, refusals = 6000, 15
	var refused atomic.Int64
	replica := newFaultyTarget(t, vfs.OpWrite, func(n int64) error {
		if n%3 == 0 && refused.Load() < refusals {
			refused.Add(1)
			return fmt.Errorf("write: %w", syscall.ENOSPC)
		}
		return nil
	})
	live := newCluster(t, 1, 1)
	live.produce("t", 0, messages, 400)
	m := openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.FetchBytes = 64 << 10 })
	a := replica.awaitArrived("t", messages)
	a.check(t, 1, messages)
	live.awaitCommitted("t")
	if d := a.doubled(); d > 0 {
		t.Errorf("%d messages are doubled", d)
	}
	if st := m.Stats(); refused.Load() < refusals || st.Messages != messages {
		t.Errorf("%d refusals of %d, %+v", refused.Load(), refusals, st)
	}
}

// TestFailedFlushIsCounted: sets that the target has appended and whose flush has failed are
// there once it has written them anew. The mirror, which cannot know, sends them again, and
// counts them.
func TestFailedFlushIsCounted(t *testing.T) {
	t.Parallel()
	const messages = 3000
	replica := newFaultyTarget(t, vfs.OpSync, func(n int64) error {
		if n == 5 {
			return syscall.EIO
		}
		return nil
	})
	replica.brokers[0].MayStopBadly = true
	live := newCluster(t, 1, 1)
	live.produce("t", 0, messages, 400)
	m := openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.FetchBytes = 64 << 10 })
	replica.awaitArrived("t", messages)
	live.awaitCommitted("t")
	a := replica.arrived("t")
	a.check(t, 1, messages)
	if st := m.Stats(); a.doubled() == 0 || int64(a.doubled()) > st.RepeatedMessages {
		t.Errorf("%d messages are doubled, and %d counted as repeated", a.doubled(), st.RepeatedMessages)
	}
}
