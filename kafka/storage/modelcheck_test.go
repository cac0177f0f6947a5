package storage

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// lookAtAll compares the state of all logs with the model. What is flushed now
// must survive a crash.
func (m *model) lookAtAll() {
	for _, l := range m.m.Logs() {
		key := keyOf(l)
		ml := m.logs[key]
		if ml == nil {
			if !m.ghosts[key] {
				m.failf("log %v is there and should not be", key)
			}
			continue
		}
		if ml.doomed {
			continue
		}
		s := l.State()
		end := int64(len(ml.written))
		switch {
		case s.First != ml.first || s.LogEnd != end || s.Bytes != end-s.First:
			m.failf("%v: %+v; it goes from %d to %d", key, s, ml.first, end)
		case s.Flushed < ml.safe || s.Flushed > end:
			m.failf("%v: %+v; %d was flushed", key, s, ml.safe)
		case m.cfg.Visible == VisibleFlushed && s.Watermark != s.Flushed, s.Watermark < s.Flushed || s.Watermark > end:
			m.failf("%v: %+v; messages are to be visible when they are %v", key, s, m.cfg.Visible)
		case (l.OutOfService() != nil) != ml.broken:
			m.failf("%v: out of service: %v, and it should be: %v", key, l.OutOfService(), ml.broken)
		}
		ml.safe = max(ml.safe, s.Flushed)
	}
}

// snapshot is what was known before a step.
type snapshot struct {
	logs    map[logKey]modelLog
	created map[string]int32
}

func (m *model) snapshot() snapshot {
	s := snapshot{logs: make(map[logKey]modelLog, len(m.logs)), created: maps.Clone(m.created)}
	for key, ml := range m.logs {
		ml.most, ml.tried = nil, nil
		s.logs[key] = *ml
	}
	return s
}

// mergeWith makes the model promise what it did before a step, while what the
// step has done may be there as well: the machine crashed in the middle of it.
func (m *model) mergeWith(before snapshot) {
	for key, old := range before.logs {
		if ml := m.logs[key]; ml == nil || ml.incarnation != old.incarnation {
			gone := old
			gone.doomed = true
			m.logs[key] = &gone
		}
	}
	for key, ml := range m.logs {
		old := before.logs[key] // nothing was promised of a new one
		ml.safe = old.safe
		if len(ml.written) < len(ml.most) {
			ml.written = ml.most // it has lost since what a failed sync had dropped
		}
		if ml.maybe == nil && len(ml.written) == len(old.written) {
			if ml.maybe = ml.tried; ml.maybe == nil {
				ml.maybe = old.maybe
			}
		}
	}
	for topic, n := range m.created {
		if before.created[topic] != n {
			m.created[topic] = 0
		}
	}
	for topic := range before.created {
		if _, there := m.created[topic]; !there {
			m.created[topic] = 0
		}
	}
}

// reopen ends the manager in one of several ways and opens what that leaves;
// crashed is what a crash has left already.
func (m *model) reopen(how string, crashed *vfs.Mem) {
	m.disk.setCrash(0, nil)
	m.disk.setFault(nil)
	for key, ml := range m.logs {
		if ml.suspect && !m.marked(key) {
			// A new process takes for written what it can read, and cannot know
			// better. A new start of the machine knows.
			how = "crash"
		}
	}
	m.count(how)
	old, oldMem := m.m, m.mem
	switch {
	case crashed != nil:
		m.mem = crashed
	case how == "close":
		how = m.closeManager()
	case how == "kill":
		m.mem = oldMem.KillClone()
	case m.chance(25):
		m.mem = oldMem.CrashClone(nil)
	default:
		m.mem = oldMem.CrashClone(m.rng)
	}
	m.note("%s", how)
	if m.mem != oldMem {
		oldMem.SetHook(nil)
	}
	m.withLimit(func(ctx context.Context) {
		// What was killed is let go of; a log of it may be out of service.
		if err := old.Close(ctx); err != nil && !errors.Is(err, ErrOutOfService) && m.mem != oldMem {
			m.failf("close what was left behind: %v", err)
		}
	})
	if m.problem != "" {
		return
	}
	if m.chance(30) {
		m.cfg = m.randomConfig()
	}
	m.open(how)
}

// marked reports whether a mark beside a log's segments says that a sync has
// failed.
func (m *model) marked(key logKey) bool {
	entries, err := m.mem.ReadDir(filepath.Join(testDir, key.String()))
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), unsyncedSuffix) })
}

// closeManager closes the manager as a broker does that is told to stop, on a
// disk that may be ill. Half the time the machine loses its power afterwards. It
// returns what that was like.
func (m *model) closeManager() (how string) {
	well := !m.disk.ill()
	for _, ml := range m.logs {
		well = well && !ml.broken && !ml.doomed
	}
	m.disk.takeLostSync()
	var err error
	m.withLimit(func(ctx context.Context) { err = m.m.Close(ctx) })
	switch {
	case err == nil:
		for _, ml := range m.logs {
			if !ml.doomed {
				ml.safe = int64(len(ml.written))
			}
		}
		if m.chance(50) {
			m.mem = m.mem.CrashClone(m.rng)
		}
	case well:
		m.failf("close: %v", err)
	case m.disk.takeLostSync():
		// Only a new start of the machine shows what the disk has.
		m.mem = m.mem.CrashClone(m.rng)
		return "crash"
	}
	return "close"
}

// open opens the log folder, on a disk that may be ill, or crash the machine once
// more, and compares what comes up with the model. The disk is well afterwards.
func (m *model) open(how string) {
	m.m = nil
	m.mem.SetHook(m.disk.ask)
	fault := m.chance(15)
	if fault {
		m.setFault()
	}
	if m.chance(20) {
		m.disk.setCrash(1+m.rng.IntN(8), m.mem)
	}
	m.disk.takeLostSync()
	err := m.tryOpen()
	if m.disk.setFault(nil) {
		m.count("fault at open")
		fault = true
	}
	if err != nil && (!m.disk.ill() && !fault || !isInjected(err)) {
		m.failf("open after %s: %v", how, err)
		return
	}
	// What is left of a deletion is no reason not to start.
	m.mayLeave = err == nil && (fault || m.disk.ill())
	if crashed := m.disk.takeCrash(); crashed != nil && how != "start" {
		m.count("crash within a start")
		m.note("the machine crashes within the start")
		how = "crash"
		m.letGo()
		m.mem = crashed
		err = errCrashed
	}
	m.disk.mend()
	if err != nil {
		if err != errCrashed && m.disk.takeLostSync() {
			how = "crash" // see closeManager
			m.mem = m.mem.CrashClone(m.rng)
		}
		m.mem.SetHook(m.disk.ask)
		if err := m.tryOpen(); err != nil {
			m.failf("open after %s, on a disk that is well: %v", how, err)
			return
		}
		m.mayLeave = false
	}
	for _, l := range m.m.Logs() {
		if l.OutOfService() != nil && !m.restore(l, false) {
			return
		}
	}
	m.compare(how)
}

// errCrashed says that there is no manager since the machine crashed.
var errCrashed = errors.New("the machine has crashed")

func (m *model) tryOpen() (err error) {
	cfg := m.cfg
	cfg.FS = m.wrap(m.mem)
	m.openedWall, m.openedElapsed = m.clock.Now(), m.clock.Elapsed()
	m.retries = map[*Log]*retry{}
	m.withLimit(func(ctx context.Context) { m.m, err = Open(ctx, testDir, cfg) })
	return err
}

// letGo closes the manager of a machine that has crashed.
func (m *model) letGo() {
	if m.m == nil {
		return
	}
	m.mem.SetHook(nil)
	m.withLimit(func(ctx context.Context) {
		if err := m.m.Close(ctx); err != nil && !errors.Is(err, ErrOutOfService) {
			m.failf("close what was left behind: %v", err)
		}
	})
	m.m = nil
}

// compare compares all logs after a start with what was promised before it, and
// takes what is there for promised from now on.
func (m *model) compare(how string) {
	m.compareTopics(how)
	there := map[logKey]bool{}
	for _, l := range m.m.Logs() {
		key := keyOf(l)
		there[key] = true
		if m.logs[key] == nil {
			if !m.ghosts[key] || l.State().LogEnd != 0 {
				m.failf("after %s: log %v is there: %+v", how, key, l.State())
				return
			}
			m.logs[key] = m.newLog()
		}
		m.compareLog(how, l, m.logs[key])
		if m.problem != "" {
			return
		}
	}
	for key, ml := range m.logs {
		if there[key] {
			continue
		}
		if ml.safe > 0 && !ml.doomed || how != "crash" && !ml.doomed {
			m.failf("after %s: log %v is gone, with %d bytes of which %d were flushed", how, key, len(ml.written), ml.safe)
			return
		}
		delete(m.logs, key)
	}
	if m.chance(20) {
		m.verify(how)
	}
}

// compareTopics compares the topics that were created.
func (m *model) compareTopics(how string) {
	table := *m.m.table.Load()
	for name, t := range table {
		if _, known := m.created[name]; t.created && !known {
			m.failf("after %s: topic %s is there with %d partitions", how, name, t.partitions)
		}
	}
	for name, n := range m.created {
		t := table[name]
		switch there := t != nil && t.created; {
		case n > 0 && (!there || t.partitions != n):
			m.failf("after %s: topic %s was created with %d partitions: %+v", how, name, n, t)
		case n == 0 && there:
			m.created[name] = t.partitions
		case n == 0:
			delete(m.created, name)
		}
	}
}

// compareLog compares one log.
func (m *model) compareLog(how string, l *Log, ml *modelLog) {
	key, s := keyOf(l), l.State()
	if err := l.Err(); err != nil {
		m.failf("after %s: %v: %v", how, key, err)
		return
	}
	if s.Watermark != s.LogEnd || s.Flushed != s.LogEnd || s.First > ml.first && !ml.doomed {
		m.failf("after %s: %v: %+v; it began at %d", how, key, s, ml.first)
		return
	}
	least := ml.safe
	if how != "crash" && !ml.doomed {
		least = int64(len(ml.written))
	}
	written := append(ml.written[:len(ml.written):len(ml.written)], ml.maybe...)
	if s.LogEnd < least || s.LogEnd > int64(len(written)) {
		m.failf("after %s: %v: %+v; %d bytes were appended, %d must be there, %d may", how, key, s, len(ml.written), least, len(written))
		return
	}
	got, err := readAll(l, s)
	if err != nil {
		m.failf("after %s: %v: %v", how, key, err)
		return
	}
	if !bytes.Equal(got, written[s.First:s.LogEnd]) {
		at := s.First
		for i := range got {
			if got[i] != written[s.First:][i] {
				at += int64(i)
				break
			}
		}
		m.failf("after %s: %v: %+v: not what was written, from offset %d on", how, key, s, at)
		return
	}
	it := message.Set(got).Iterate(s.First)
	for it.Next() {
	}
	if it.Err() != nil || it.ValidBytes() != len(got) {
		m.failf("after %s: %v: sound messages up to %d of %d: %v", how, key, it.NextOffset(), s.LogEnd, it.Err())
		return
	}
	m.note("%v goes from %d to %d; of %d bytes %d had to be there", key, s.First, s.LogEnd, len(ml.written), least)
	ml.written = written[:max(s.LogEnd, int64(len(ml.written)))]
	ml.groups = append(ml.groups, groupTime{end: int64(len(written)), wall: m.clock.Now()})
	ml.cut(s.LogEnd)
	for i := range ml.groups {
		ml.groups[i].elapsed = -1
	}
	ml.first, ml.safe, ml.maybe = s.First, s.LogEnd, nil
	ml.broken, ml.suspect, ml.doomed = false, false, false
	ml.vague = ml.vague || how == "crash"
}

// readAll reads a log from its first message to its watermark.
func readAll(l *Log, s State) ([]byte, error) {
	all := make([]byte, 0, s.Watermark-s.First)
	for offset := s.First; offset < s.Watermark; {
		sl, err := l.Read(offset, 1<<20)
		if err != nil {
			return nil, err
		}
		n := sl.Len()
		all = all[:len(all)+n]
		_, err = sl.ReadAt(all[len(all)-n:], 0)
		sl.Release()
		if err != nil {
			return nil, err
		}
		offset += int64(n)
	}
	return all, nil
}

// verify lets the tool that users have look at the folder.
func (m *model) verify(how string) {
	m.count("verify")
	m.withLimit(func(ctx context.Context) {
		r, err := Verify(ctx, testDir, WalkOptions{FS: m.mem})
		if err == nil {
			err = r.Err()
		}
		if err != nil || !r.Running {
			m.failf("after %s: verify: %v, running %v", how, err, r.Running)
			return
		}
		for _, p := range r.Partitions {
			ml := m.logs[logKey{p.Topic, p.Partition}]
			var valid int64
			for _, s := range p.Segments {
				valid += s.ValidBytes
			}
			if ml == nil || valid != int64(len(ml.written))-ml.first {
				m.failf("after %s: verify finds %d sound bytes in %s: %+v", how, valid, p.Path, ml)
				return
			}
		}
		leftovers, err := m.mem.ReadDir(testDir)
		if err != nil {
			m.failf("list the log folder: %v", err)
		}
		for _, e := range leftovers {
			if isDeleted(e.Name()) && !m.mayLeave || strings.HasSuffix(e.Name(), temporarySuffix) && !slices.Contains([]string{topicsName + temporarySuffix, cleanName + temporarySuffix}, e.Name()) {
				m.failf("after %s: %s is left over", how, e.Name())
			}
		}
	})
}
