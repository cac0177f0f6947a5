package broker

import (
	"runtime"
	"strings"
	"sync"
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

// TestProduceWhileDeletedTwice: a topic that is deleted before a group gets to it,
// and once more when it was made anew for that group, is made again: the connection
// stays open, and what comes behind on it is not lost.
func TestProduceWhileDeletedTwice(t *testing.T) {
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
	first := s.logs.Lookup([]byte("a"), 0)
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
	s.topicWatchers.mu.Lock() // who has made a log waits here before it appends
	release := sync.OnceFunc(s.topicWatchers.mu.Unlock)
	defer release()
	requests := wire.AppendProduce(wire.AppendProduce(nil, "a", 0, ackedSet), "b", 0, ackedSet)
	if _, err := conn.Send(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	poll := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	poll("the append does not wait for the deletion", func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*conn).appendGroup")
	})
	close(goOn)
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	files.SetHook(nil)
	poll("the topic is not made anew", func() bool {
		l := s.logs.Lookup([]byte("a"), 0)
		return l != nil && l != first
	})
	if err := s.logs.DeleteTopic("a"); err != nil {
		t.Fatal(err)
	}
	release()
	for _, topic := range []string{"a", "b"} {
		if got, err := conn.Topics(t.Context(), topic); err != nil || len(got) == 0 || got[0].LogEnd != int64(len(ackedSet)) {
			t.Errorf("topic %s: %+v, %v", topic, got, err)
		}
	}
}
