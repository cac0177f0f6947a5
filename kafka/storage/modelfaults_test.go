package storage

import (
	"context"
	"slices"
	"syscall"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// setFault lets one operation fail in the step that follows, or all of a kind.
func (m *model) setFault() {
	kinds := []vfs.OpKind{vfs.OpCreate, vfs.OpOpen, vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpTruncate, vfs.OpRemove, vfs.OpRename, vfs.OpMkdir, vfs.OpSyncDir}
	kind := kinds[m.rng.IntN(len(kinds))]
	err := []error{syscall.EIO, syscall.ENOSPC}[m.rng.IntN(2)]
	if (kind == vfs.OpOpen || kind == vfs.OpCreate) && m.chance(50) {
		err = syscall.EMFILE
	}
	if kind == vfs.OpWrite {
		err = &vfs.TornWrite{Bytes: m.rng.IntN(400), Err: err}
	}
	nth := 1 + m.rng.IntN(3)
	m.note("of %s the operation %d fails: %v", kind, nth, err)
	if m.chance(70) {
		m.disk.setFault(vfs.FailNth(kind, nth, err))
		return
	}
	m.disk.setFault(func(op vfs.Op) error { // all from the nth on; the disk serializes the calls
		if op.Kind == kind {
			if nth--; nth <= 0 {
				return err
			}
		}
		return nil
	})
}

// changeDisk fills the disk up, or makes its syncs fail, until the next time.
func (m *model) changeDisk() {
	if m.disk.ill() {
		m.note("the disk is well again")
		m.disk.mend()
		m.heal()
		return
	}
	m.disk.mu.Lock()
	if m.timed() || m.chance(60) {
		m.disk.full = true
	} else {
		m.disk.sick = true
	}
	full := m.disk.full
	m.disk.mu.Unlock()
	if full {
		m.count("disk full")
		m.note("the disk is full")
	} else {
		m.count("disk sick")
		m.note("syncs fail from now on")
	}
}

// failWrite lets an append be torn, and cutting it off fail.
func (m *model) failWrite() {
	l, ml := m.pick()
	if l == nil || ml.broken || m.timed() || m.disk.ill() {
		return
	}
	torn := &vfs.TornWrite{Bytes: m.rng.IntN(400), Err: syscall.ENOSPC}
	m.disk.setFault(func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWrite:
			return torn
		case vfs.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	m.note("writes are torn after %d bytes, and cutting fails", torn.Bytes)
	m.appendTo(l, ml)
	m.disk.setFault(nil)
	m.heal()
}

// failSync lets a sync fail with something to flush, and perhaps lets the page
// cache forget what the sync has dropped. Nothing becomes visible before all is
// well (fault B04).
func (m *model) failSync() {
	l, ml := m.pick()
	if l == nil || ml.broken || m.timed() || m.disk.ill() || m.mutant {
		return
	}
	m.appendTo(l, ml)
	if end := int64(len(ml.written)); l.State().Flushed == end || m.problem != "" {
		return
	}
	m.disk.mu.Lock()
	m.disk.sick = true
	m.disk.mu.Unlock()
	m.withLimit(func(ctx context.Context) { m.flushed(l, ml, int64(len(ml.written)), l.Flush(ctx)) })
	m.disk.mend()
	if !ml.broken {
		m.failf("flush of %v succeeds, and its sync failed", keyOf(l))
		return
	}
	flushed := l.State().Flushed // a roll of the append may have flushed something
	m.withLimit(func(ctx context.Context) { m.flushed(l, ml, int64(len(ml.written)), l.Flush(ctx)) })
	if s := l.State(); s.Flushed != flushed || s.Flushed < ml.safe {
		m.failf("after a failed sync of %v: %+v, %d was flushed before", keyOf(l), s, flushed)
		return
	}
	if m.chance(30) {
		list := *l.segments.Load()
		if err := m.mem.DropCache(list[len(list)-1].path); err != nil {
			m.failf("drop cache: %v", err)
		}
		m.note("the cache forgets what the sync of %v has dropped", keyOf(l))
		m.dropSlices(keyOf(l), ml.safe)
		m.healAfterLoss(keyOf(l))
		return
	}
	m.heal()
}

// heal waits until every log is back in service, the disk being well.
func (m *model) heal() { m.healAfterLoss(logKey{}) }

// healAfterLoss is heal; of one log, what was not flushed may be lost.
func (m *model) healAfterLoss(lossy logKey) {
	byClock := m.chance(25) && !m.timed()
	for _, l := range m.m.Logs() {
		ml := m.logs[keyOf(l)]
		if ml == nil || ml.doomed || m.problem != "" {
			continue
		}
		if l.OutOfService() == nil && !ml.broken {
			continue
		}
		m.count("back in service")
		if !m.restore(l, byClock) {
			return
		}
		s := l.State()
		m.note("%v is back in service: %+v", keyOf(l), s)
		if s.LogEnd < ml.safe || s.LogEnd > int64(len(ml.written)) || s.LogEnd < int64(len(ml.written)) && keyOf(l) != lossy {
			m.failf("%v is back in service with %+v; %d was appended, %d of it flushed", keyOf(l), s, len(ml.written), ml.safe)
			return
		}
		if s.LogEnd < int64(len(ml.written)) {
			m.count("messages lost with the page cache")
		}
		// Slices of what was visible before it was flushed may find it gone: it
		// was written anew elsewhere.
		m.dropSlices(keyOf(l), ml.safe)
		ml.most = ml.written
		ml.cut(s.LogEnd)
		ml.broken, ml.suspect, ml.maybe, ml.vague = false, false, nil, true
	}
}

// restore brings a log back into service, as the manager does, or lets it do so.
func (m *model) restore(l *Log, byClock bool) bool {
	deadline := time.Now().Add(m.limit)
	var last error
	for attempt := 1; l.OutOfService() != nil; attempt++ {
		if time.Now().After(deadline) {
			m.failf("%v stays out of service on a disk that is well: %v; %v", keyOf(l), l.OutOfService(), last)
			return false
		}
		if byClock {
			m.clock.Advance(maxRestoreWait)
			m.restoreDue()
			continue
		}
		m.withLimit(func(ctx context.Context) {
			if err := l.restore(ctx, attempt); err != nil {
				last = err
			}
		})
	}
	return true
}

// restoreDue does what the restorer does when it wakes up.
func (m *model) restoreDue() {
	m.withLimit(func(ctx context.Context) { m.m.restoreDue(ctx, m.retries) })
}

// cut forgets what is behind an offset.
func (ml *modelLog) cut(end int64) {
	ml.written = ml.written[:end:end]
	i := slices.IndexFunc(ml.groups, func(g groupTime) bool { return g.end >= end })
	if i < 0 {
		return
	}
	if ml.groups[i].end > end {
		ml.groups[i].end = end
	}
	ml.groups = ml.groups[:i+1]
}
