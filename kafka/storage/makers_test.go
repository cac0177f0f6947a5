package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// TestMakingHoldsUpNobodyElse: while the disk is slow to make a partition, others are
// made and written to. Who wants the same one gets the same log, and a deletion and
// a creation of its topic, and the close of the folder, wait for it.
func TestMakingHoldsUpNobodyElse(t *testing.T) {
	for name, then := range map[string]func(*Manager) error{
		"delete": func(m *Manager) error { return m.DeleteTopic("slow") },
		"create": func(m *Manager) error {
			if err := m.CreateTopic("slow", 1); !errors.Is(err, ErrTopicExists) {
				return errors.New("a topic that was being made was created")
			}
			return nil
		},
		"close": func(m *Manager) error { return m.Close(testContext(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, _ := newTestFS()
			m := open(t, fsys, Config{DefaultPartitions: 4})
			reached, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			slow := filepath.Join(testDir, "slow-0")
			fsys.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpSyncDir && op.Path == slow {
					once.Do(func() { close(reached) })
					<-goOn
				}
				return nil
			})
			logs := make(chan *Log, 2)
			for range cap(logs) {
				go func() {
					l, err := m.Ensure("slow", 0)
					if err != nil && !errors.Is(err, ErrClosed) { // the second may come too late
						t.Error(err)
					}
					logs <- l
				}()
			}
			<-reached
			for _, topic := range []string{"fast", "slow"} { // another topic, and another partition
				l, err := m.Ensure(topic, 1)
				if err != nil {
					t.Fatal(err)
				}
				mustAppend(t, l, []byte(topic))
			}
			if err := m.CreateTopic("other", 2); err != nil {
				t.Error(err)
			}
			done := make(chan error, 1)
			go func() { done <- then(m) }()
			select {
			case err := <-done:
				t.Errorf("it does not wait for the partition: %v", err)
			case <-time.After(50 * time.Millisecond): // as good as for ever
			}
			close(goOn)
			if err := <-done; err != nil {
				t.Error(err)
			}
			var got []*Log
			for range cap(logs) {
				if l := <-logs; l != nil {
					got = append(got, l)
				}
			}
			if len(got) == 0 || name == "create" && (len(got) != 2 || got[0] != got[1]) {
				t.Errorf("%d logs: %v", len(got), got)
			}
			for _, l := range m.Logs() {
				if name == "delete" && l.Topic() == "slow" && l.Err() != nil {
					t.Errorf("partition %d of the deleted topic is there: %v", l.Partition(), l.Err())
				}
			}
		})
	}
}

// TestManyPartitionsAreMadeAtOnce: a thousand partitions by many at once, each made
// once, with its folder.
func TestManyPartitionsAreMadeAtOnce(t *testing.T) {
	const partitions, makers = 1000, 50
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{DefaultPartitions: partitions})
	created := map[string]int{}
	var mu sync.Mutex
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Path, segmentSuffix) {
			mu.Lock()
			defer mu.Unlock()
			created[op.Path]++
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range makers {
		wg.Go(func() {
			for k := range partitions {
				partition := int32((k + i*partitions/makers/2) % partitions) // several want each
				l, err := m.Ensure("t", partition)
				if err != nil {
					t.Error(err)
					return
				}
				if l.Partition() != partition || m.Lookup([]byte("t"), partition) != l {
					t.Errorf("partition %d: another log", partition)
				}
			}
		})
	}
	wg.Wait()
	if n := len(m.Logs()); n != partitions || len(created) != partitions {
		t.Errorf("%d logs, %d segment files", n, len(created))
	}
	for path, n := range created {
		if n != 1 {
			t.Errorf("%s was made %d times", path, n)
		}
	}
	if len(m.making) != 0 || len(m.makers) != 0 {
		t.Errorf("%d are still being made", len(m.making))
	}
}
