package broker

import (
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/wire"
)

// TestOffsetsWhileDeleting: while a topic is being deleted, its offsets are those
// of one that is not there, as those of 0.7 are: zero, and not none, which only a
// partition that is out of service has.
func TestOffsetsWhileDeleting(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := memoryBroker(t, func(c *Config) { c.Storage.FS = files })
	conn, err := client.Dial(t.Context(), s.Addr().String(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.AckedProduce(t.Context(), "a", 0, ackedSet, wire.AcksAppended, time.Second); err != nil {
		t.Fatal(err)
	}
	deleting, goOn := make(chan struct{}), make(chan struct{})
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRename && strings.HasSuffix(op.Path, "/a-0") {
			close(deleting)
			<-goOn
		}
		return nil
	})
	deleted := make(chan error, 1)
	go func() { deleted <- s.logs.DeleteTopic("a") }()
	<-deleting
	for _, which := range []int64{wire.TimeLatest, wire.TimeEarliest} {
		if got, err := conn.Offsets(t.Context(), "a", 0, which, 10); err != nil || len(got) != 1 || got[0] != 0 {
			t.Errorf("offsets at %d: %v, %v", which, got, err)
		}
	}
	if got, err := conn.Offsets(t.Context(), "a", 0, time.Now().UnixMilli(), 10); err != nil || len(got) > 0 {
		t.Errorf("offsets of now: %v, %v", got, err)
	}
	close(goOn)
	if err := <-deleted; err != nil {
		t.Error(err)
	}
}
