package storage

import (
	"errors"
	"fmt"
	"path/filepath"
)

// partitionID names a partition.
type partitionID struct {
	topic     string
	partition int32
}

// Ensure returns the log of a partition and makes it when it is not there. It
// fails with [ErrTopicName], [ErrWrongPartition], [ErrFileLimit] or [ErrClosed], or
// because the folder or the file cannot be made.
func (m *Manager) Ensure(topicName string, partition int32) (*Log, error) {
	if t := (*m.table.Load())[topicName]; t != nil {
		// One that is being deleted is waited for, below, and made anew.
		if l := t.log(partition); l != nil && l.ended.Load() == nil {
			return l, nil
		}
	}
	if err := checkTopic(topicName); err != nil {
		return nil, err
	}
	id := partitionID{topicName, partition}
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		l, err := m.mayMake(id)
		if l != nil || err != nil {
			return l, err
		}
		if _, other := m.making[id]; !other {
			break
		}
		m.made.Wait()
	}
	l, err := m.makeUnlocked(id)
	if err != nil {
		return nil, fmt.Errorf("topic %q partition %d: %w", topicName, partition, err)
	}
	table := *m.table.Load()
	m.publish(table.with(topicName, m.topicOf(table, topicName).withLog(l)))
	return l, nil
}

// topicOf returns a topic of the table, or what it will be once something is written
// to it.
func (m *Manager) topicOf(table topicTable, name string) *topic {
	if t := table[name]; t != nil {
		return t
	}
	return &topic{partitions: m.cfg.partitions([]byte(name))}
}

// mayMake returns the log of a partition if it is there, and an error if there can
// be none. The caller holds m.mu.
func (m *Manager) mayMake(id partitionID) (*Log, error) {
	if m.closed.Load() {
		return nil, fmt.Errorf("topic %q partition %d: %w", id.topic, id.partition, ErrClosed)
	}
	t := m.topicOf(*m.table.Load(), id.topic)
	if id.partition < 0 || id.partition >= t.partitions {
		return nil, fmt.Errorf("topic %q partition %d: %w: the topic has partitions 0 to %d", id.topic, id.partition, ErrWrongPartition, t.partitions-1)
	}
	return t.log(id.partition), nil
}

// makeUnlocked makes the log of a partition that is not in the table. The caller
// holds m.mu, which is free while the disk works: a thousand partitions that are
// first written to at once share its syncs, and nobody else waits for them.
func (m *Manager) makeUnlocked(id partitionID) (*Log, error) {
	if err := m.checkFileLimit(); err != nil {
		return nil, err
	}
	m.making[id] = struct{}{}
	m.mu.Unlock()
	// Deferred, as a panic is the end of a connection and not of all that wait here.
	defer func() {
		m.mu.Lock()
		delete(m.making, id)
		m.made.Broadcast()
	}()
	m.makers <- struct{}{}
	defer func() { <-m.makers }()
	return m.makeLog(id.topic, id.partition)
}

// awaitMade waits until no partition of a topic is being made; of any topic, if the
// name is empty. The caller holds m.mu.
func (m *Manager) awaitMade(topicName string) {
	for {
		some := false
		for id := range m.making {
			some = some || topicName == "" || id.topic == topicName
		}
		if !some {
			return
		}
		m.made.Wait()
	}
}

// makeLog makes the folder and the first segment of a partition, which the caller
// has noted in m.making.
func (m *Manager) makeLog(topicName string, partition int32) (*Log, error) {
	name := partitionName(topicName, partition)
	dir := filepath.Join(m.dir, name)
	fsys := m.cfg.FS
	err := fsys.Mkdir(dir)
	made := err == nil
	if isExist(err) {
		// Left by an attempt that failed half-way, or the folder of a topic
		// whose name this file system does not tell from ours (fault B17).
		if err := m.checkListed(name); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("make partition folder: %w", err)
	}
	var first *segment
	err = m.cfg.files.makeRoom(func() (err error) {
		first, err = createSegment(fsys, dir, 0)
		return err
	})
	if err == nil {
		err = m.cfg.files.makeRoom(func() error { return errors.Join(fsys.SyncDir(dir), fsys.SyncDir(m.dir)) })
		if err != nil {
			first.release()
		}
	}
	if err != nil && made {
		// The next start would open it too, though there may be no more files to
		// be opened for it than there are now. RemoveAll would open some itself.
		err = errors.Join(err, removeIfThere(fsys, filepath.Join(dir, segmentName(0))), fsys.Remove(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("make partition folder: %w", err)
	}
	l := newLog(&m.cfg, topicName, partition, dir)
	l.troubled = m.troubled
	l.start(segments{first}, 0, 0)
	return l, nil
}

// checkListed makes sure that the log folder lists exactly this name.
func (m *Manager) checkListed(name string) error {
	entries, err := m.cfg.FS.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == name {
			return nil
		}
	}
	return fmt.Errorf("%w: this file system takes %q for the folder of another topic: choose a name that differs in more than case", ErrTopicName, name)
}
