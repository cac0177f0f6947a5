package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// stepTolerance is how far the wall clock may run off before that is a step, and
// the times of files are worth correcting.
const stepTolerance = time.Second

// doomedFile is a segment file that has left its log and is to be removed.
type doomedFile struct {
	path  string
	bytes int64
}

// Retain deletes the segments that the retention rules let go of, in all logs,
// now: what the cleanup timer does ([Config.CleanupInterval]). What cannot be
// removed is in the error, and tried again the next time. The logs do not show
// it any more, but a restart does.
func (m *Manager) Retain(ctx context.Context) error {
	stepped := m.clockStepped()
	var errs []error
	for _, l := range m.Logs() {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("retention: %w", context.Cause(ctx)))
			break
		}
		if err := l.retain(ctx, stepped); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// clean is Retain by the cleanup timer.
func (m *Manager) clean(ctx context.Context) {
	if err := m.Retain(ctx); err != nil && ctx.Err() == nil {
		m.cfg.Logger.Error("not all was deleted that is beyond its retention: it is tried again",
			slog.Duration("after", m.cfg.CleanupInterval), slog.Any("error", err))
	}
}

// clockStepped reports whether somebody has put the clock forward or back since
// the last call. Then the files that this process has written to since its start
// may have wrong times.
func (m *Manager) clockStepped() bool {
	began := m.cfg.Clock.Now().Add(-m.cfg.Clock.Elapsed()).UnixNano()
	step := time.Duration(began - m.clockBegan.Load())
	if step.Abs() <= stepTolerance {
		return false
	}
	m.clockBegan.Store(began)
	m.cfg.Logger.Warn("the clock was put right: files written since the start get their times corrected", slog.Duration("by", step))
	return true
}

// mendTimes corrects the times of the files of all logs, before they are closed,
// if the clock was put right.
func (m *Manager) mendTimes(ctx context.Context) {
	if !m.clockStepped() {
		return
	}
	for _, l := range m.Logs() {
		err := l.lockFiles(ctx)
		if err == nil {
			err = l.mendTimes()
			l.unlockFiles()
		}
		if err != nil {
			m.cfg.Logger.Warn("times of segments are left wrong", l.where(), slog.Any("error", err))
		}
	}
}

// lockFiles waits until nothing works on the files of the log, and keeps it so.
// It holds off the removal of segments, not appends and rolls.
func (l *Log) lockFiles(ctx context.Context) error {
	select {
	case l.filesBusy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return l.errorf("wait for retention to remove files: %w", context.Cause(ctx))
	}
}

func (l *Log) unlockFiles() { <-l.filesBusy }

// retain deletes what is beyond the log's retention.
func (l *Log) retain(ctx context.Context, stepped bool) error {
	if err := l.lockFiles(ctx); err != nil {
		return err
	}
	defer l.unlockFiles()
	if l.ended.Load() != nil {
		return nil // its folder may be another log's by now
	}
	var timesErr error
	if stepped {
		timesErr = l.mendTimes()
	}
	expireErr := l.expire()
	return errors.Join(timesErr, expireErr, l.removeDoomed(ctx))
}

// mendTimes gives the files that this process has appended to the times of their
// last appends, as the clock shows them now. The caller has called lockFiles.
func (l *Log) mendTimes() error {
	type mend struct {
		path string
		time time.Time
	}
	var mends []mend
	l.mu.Lock()
	for _, s := range *l.segments.Load() {
		if s.last.origin == seen {
			t, _ := s.last.wallTime(l.cfg.Clock)
			mends = append(mends, mend{s.path, t})
		}
	}
	l.mu.Unlock()
	for _, s := range mends {
		if err := l.cfg.FS.SetTime(s.path, s.time); err != nil {
			return l.errorf("correct the time of a segment: %w", err)
		}
	}
	return nil
}

// expire takes the segments off the list that are beyond the log's retention.
// From then on nobody can begin to read them. The caller has called lockFiles.
func (l *Log) expire() error {
	l.mu.Lock()
	list := *l.segments.Load()
	n := l.expired(list)
	var err error
	if n > 0 && n == len(list) {
		// The active one too. Offsets go on in a new one; without that it stays.
		if l.Err() != nil {
			n--
		} else if _, err = l.roll(list, l.logEnd.Load()); err != nil {
			n--
		}
		list = *l.segments.Load()
	}
	if n == 0 {
		l.mu.Unlock()
		return err
	}
	gone, rest := list[:n], slices.Clone(list[n:])
	l.segments.Store(&rest)
	l.mu.Unlock()
	var bytes int64
	for i, s := range gone {
		s.retire()
		size := list[i+1].base - s.base
		bytes += size
		l.doomed = append(l.doomed, doomedFile{s.path, size})
	}
	l.cfg.Logger.Info("segments are beyond their retention", l.where(),
		slog.Int("segments", n), slog.Int64("bytes", bytes), slog.Int64("first_offset", rest[0].base))
	return err
}

// expired returns how many segments, from the first, are beyond the retention by
// age, and of what that leaves by size (Kafka 0.7 §3.7). An empty active segment
// never is. The caller holds l.mu.
func (l *Log) expired(list segments) int {
	if len(list) == 0 {
		return 0 // closed, or not fit for service
	}
	last := len(list) - 1
	n := 0
	if l.cfg.RetentionAge > 0 {
		elapsed := l.cfg.Clock.Elapsed()
		for n <= last && list[n].last.age(l.cfg.Clock, elapsed) > l.cfg.RetentionAge {
			n++
		}
		if n > last && l.logEnd.Load() == list[last].base {
			n = last
		}
	}
	if l.cfg.RetentionBytes > 0 && n < last {
		// What is left is never below the limit, so the active segment stays.
		excess := l.flushed.Load() - list[n].base - l.cfg.RetentionBytes
		for n < last && excess >= list[n+1].base-list[n].base {
			excess -= list[n+1].base - list[n].base
			n++
		}
	}
	return n
}

// removeDoomed removes the files of segments that have left the list, the oldest
// first, each safe from a crash before the next: whatever moment a crash comes
// at, the files that are left follow one another without a gap. The caller has
// called lockFiles.
func (l *Log) removeDoomed(ctx context.Context) (err error) {
	var segments int
	var bytes int64
	for len(l.doomed) > 0 && ctx.Err() == nil && err == nil {
		if err = l.removeFile(l.doomed[0].path); err == nil {
			segments++
			bytes += l.doomed[0].bytes
			l.doomed = l.doomed[1:]
		}
	}
	if segments > 0 {
		l.cfg.Hooks.deleted(l, segments, bytes)
	}
	if err != nil {
		return l.errorf("remove segment: %w", err)
	}
	return nil
}

func (l *Log) removeFile(path string) error {
	// Gone already if only the sync failed the last time.
	if err := removeIfThere(l.cfg.FS, path); err != nil {
		return err
	}
	return l.cfg.files.makeRoom(func() error { return l.cfg.FS.SyncDir(l.dir) })
}
