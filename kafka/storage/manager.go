package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"kafkalab/kafka/message"
)

// Manager holds the logs of all partitions in one log folder. All methods may
// be called by any number of goroutines at the same time.
type Manager struct {
	dir  string
	cfg  Config
	lock io.Closer

	table atomic.Pointer[topicTable] // replaced under mu, read by anybody

	mu      sync.Mutex  // creating, deleting, closing; held while the disk works, but not while a partition is made
	closed  atomic.Bool // set when Close begins
	deleted int         // for names of folders that are about to be removed; guarded by mu

	making map[partitionID]struct{} // partitions that are being made; guarded by mu
	made   *sync.Cond               // on mu: making has changed
	makers chan struct{}            // holds something for each of making that the disk works for

	removals sync.WaitGroup // of folders of deleted topics; Add under mu while not closed

	life    context.Context // ends when Close begins
	endLife context.CancelCauseFunc
	timers  sync.WaitGroup // goroutines that end with life

	troubled chan struct{} // a log has gone out of service; the restorer looks which

	clockBegan atomic.Int64 // when Clock.Elapsed was 0, ns since the epoch; jumps with the clock

	closeOnce sync.Once
	closeErr  error
}

// Config returns the configuration in force, defaults filled in.
func (m *Manager) Config() Config { return m.cfg }

// Lookup returns the log of a partition, or nil when nothing was ever written
// to it or the topic has no such partition. It takes no lock and allocates
// nothing.
func (m *Manager) Lookup(topic []byte, partition int32) *Log {
	if t := (*m.table.Load())[string(topic)]; t != nil {
		return t.log(partition)
	}
	return nil
}

// Partitions returns the number of partitions of a topic: what it was created
// with; else its own or the general number of the configuration, also for topics
// that do not exist yet. It takes no lock and allocates nothing.
func (m *Manager) Partitions(topic []byte) int32 {
	if t := (*m.table.Load())[string(topic)]; t != nil {
		return t.partitions
	}
	return m.cfg.partitions(topic)
}

// Topics returns the names of all topics that were created or written to,
// sorted.
func (m *Manager) Topics() []string {
	return slices.Sorted(maps.Keys(*m.table.Load()))
}

// Logs returns the logs of all partitions that were ever written to, by topic
// and partition, those too that are out of service.
func (m *Manager) Logs() []*Log {
	table := *m.table.Load()
	var logs []*Log
	for _, name := range slices.Sorted(maps.Keys(table)) {
		for _, l := range table[name].logs {
			if l != nil {
				logs = append(logs, l)
			}
		}
	}
	return logs
}

// CreateTopic creates a topic with a number of partitions that stays the
// topic's over restarts. It fails with [ErrTopicName], [ErrWrongPartition] when
// the number is not within 1 to [MaxPartitions], [ErrTopicExists] or
// [ErrClosed].
func (m *Manager) CreateTopic(name string, partitions int32) error {
	if err := checkTopic(name); err != nil {
		return err
	}
	if partitions < 1 || partitions > MaxPartitions {
		return fmt.Errorf("topic %q: %w: %d partitions, 1 to %d are possible", name, ErrWrongPartition, partitions, MaxPartitions)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaitMade(name)
	if m.closed.Load() {
		return fmt.Errorf("topic %q: %w", name, ErrClosed)
	}
	table := *m.table.Load()
	if t := table[name]; t != nil {
		return fmt.Errorf("topic %q: %w, with %d partitions", name, ErrTopicExists, t.partitions)
	}
	table = table.with(name, &topic{created: true, partitions: partitions})
	if err := writeTopics(m.cfg.FS, m.dir, table); err != nil {
		return fmt.Errorf("topic %q: %w", name, err)
	}
	m.publish(table)
	return nil
}

// DeleteTopic removes a topic with all its messages. Readers that hold a
// [Slice] keep it; every other use of its logs fails with [ErrNoSuchTopic]. A
// deletion that fails half-way, or is cut off by a crash, can be repeated.
func (m *Manager) DeleteTopic(name string) error {
	removed, err := m.takeOut(name)
	if err != nil {
		return fmt.Errorf("topic %q: %w", name, err)
	}
	// Large files take their time, and other topics are made meanwhile.
	defer m.removals.Done()
	var errs []error
	for _, dir := range removed {
		if err := m.cfg.FS.RemoveAll(dir); err != nil {
			errs = append(errs, fmt.Errorf("topic %q: its messages are gone, their files at %s not yet: %w", name, dir, err))
		}
	}
	return errors.Join(errs...)
}

// takeOut takes a topic out of the table and returns the folders that are to be
// removed, which Close waits for: without an error m.removals.Done must follow.
func (m *Manager) takeOut(name string) (removed []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaitMade(name)
	if m.closed.Load() {
		return nil, ErrClosed
	}
	table := *m.table.Load()
	t := table[name]
	if t == nil {
		return nil, ErrNoSuchTopic
	}
	if removed, err = m.setAside(name, t); err != nil {
		return nil, err
	}
	table = table.with(name, nil)
	if t.created {
		if err := writeTopics(m.cfg.FS, m.dir, table); err != nil {
			return nil, err
		}
	}
	m.publish(table)
	m.removals.Add(1)
	return removed, nil
}

// setAside ends the logs of a topic and gives their folders names that the next
// start removes, whatever happens now: a folder that is emptied file by file
// would look like a damaged log after a crash. So it does with folders that have
// no log, which an attempt to make one has left: the next start would bring the
// topic back. It returns the new names. The caller holds m.mu.
func (m *Manager) setAside(name string, t *topic) ([]string, error) {
	folders, err := m.foldersOf(name)
	if err != nil {
		return nil, err
	}
	for _, l := range t.logs {
		if l == nil {
			continue
		}
		l.end(ErrNoSuchTopic)
		if err := l.endRounds(m.life); err != nil {
			return nil, err
		}
		// The last time that retention works on the files: l has ended.
		if err := l.lockFiles(m.life); err != nil {
			return nil, err
		}
		l.close()
		l.unlockFiles()
	}
	var removed []string
	for _, folder := range folders {
		dir, err := m.deletedName()
		if err != nil {
			return removed, err
		}
		switch err := m.cfg.FS.Rename(folder, dir); {
		case err == nil:
			removed = append(removed, dir)
		case !errors.Is(err, fs.ErrNotExist): // gone if this call is a repetition
			return removed, err
		}
	}
	return removed, m.cfg.files.makeRoom(func() error { return m.cfg.FS.SyncDir(m.dir) })
}

// foldersOf returns the paths of all folders of a topic's partitions.
func (m *Manager) foldersOf(name string) (folders []string, err error) {
	var entries []fs.DirEntry
	err = m.cfg.files.makeRoom(func() (err error) { // who has too many files open is told to delete topics
		entries, err = m.cfg.FS.ReadDir(m.dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if topic, _, err := parsePartitionName(e.Name()); err == nil && topic == name && e.IsDir() {
			folders = append(folders, filepath.Join(m.dir, e.Name()))
		}
	}
	return folders, nil
}

// deletedName returns a path for a folder that is to be removed: one that is not
// taken by what could not be removed before. The caller holds m.mu.
func (m *Manager) deletedName() (string, error) {
	for {
		m.deleted++
		dir := filepath.Join(m.dir, fmt.Sprintf(".%d%s", m.deleted, deletedSuffix))
		if _, err := m.cfg.FS.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return dir, nil
		} else if err != nil {
			return "", err
		}
	}
}

func (m *Manager) publish(table topicTable) { m.table.Store(&table) }

func checkTopic(name string) error {
	if err := message.CheckTopic(name); err != nil {
		return fmt.Errorf("%w: %w", ErrTopicName, err)
	}
	return nil
}
