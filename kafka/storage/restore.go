package storage

import (
	"context"
	"log/slog"
	"slices"
)

// stop says why a log has stopped, and what brings it back into service.
type stop struct {
	err  error
	mend mend // none for a log that has ended
	// save says that what would be thrown away may have been flushed once: it is
	// saved before.
	save bool
}

// mend is what brings a log back into service. Each does what those before it do.
type mend int

const (
	// mendCut cuts the active segment at the log's end: more is there.
	mendCut mend = iota + 1
	// mendRewrite writes what is behind the flushed end to a new file: no sync of
	// this one, or of the entry that its folder has of it, proves anything.
	mendRewrite
	// mendReload opens the log again, which could not be opened.
	mendReload
)

// with returns what is to do for s, which may be nil, and for a stop that came
// after it. The reason is the first one.
func (s *stop) with(next stop) *stop {
	if s == nil {
		return &next
	}
	return &stop{err: s.err, mend: max(s.mend, next.mend), save: s.save || next.save}
}

// Err returns why nothing can be appended: the log is out of service, closed or
// deleted. It returns nil when it can. Out of service is not for ever: see
// [Log.OutOfService].
func (l *Log) Err() error {
	if s := l.failed.Load(); s != nil {
		return s.err
	}
	if s := l.ended.Load(); s != nil {
		return s.err
	}
	return nil
}

// OutOfService returns why the log is out of service, an error that is
// [ErrOutOfService] and wraps the cause, or nil when it is in service.
//
// While it is out of service nothing is appended or flushed, and those who wait
// for a flush get the error. What was visible before stays readable, unless the
// log could not be opened at all. Meanwhile the [Manager] tries to bring the log
// back, again and again until it is closed; from then on the result is nil, and
// what was appended before and is still there is flushed and visible.
func (l *Log) OutOfService() error {
	if s := l.failed.Load(); s != nil {
		return s.err
	}
	return nil
}

// fail takes the log out of service and returns the error that all further
// appends and flushes get: that of the first failure. s.err is the bare cause.
func (l *Log) fail(s stop) error {
	cause := s.err
	s.err = l.errorf("%w: %w", ErrOutOfService, cause)
	for {
		before := l.failed.Load()
		after := before.with(s)
		if !l.failed.CompareAndSwap(before, after) {
			continue
		}
		if before != nil {
			return after.err
		}
		break
	}
	l.cfg.Logger.Error("partition out of service", l.where(),
		slog.Int64("flushed", l.flushed.Load()), slog.Int64("log_end", l.logEnd.Load()), slog.Any("error", cause))
	l.notify()
	select {
	case l.troubled <- struct{}{}:
	default: // the restorer has not looked since the last one, or there is none
	}
	return s.err
}

// restoration is an attempt under way to bring a log back into service.
type restoration struct {
	done   chan struct{}
	cancel context.CancelFunc
}

// beginRestoration makes sure that there is one attempt at a time, and none on a
// log that is about to be closed or deleted: its folder may be another's soon.
func (l *Log) beginRestoration(ctx context.Context) (context.Context, bool) {
	l.roundMu.Lock()
	defer l.roundMu.Unlock()
	if l.roundsOver || l.restoration != nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	l.restoration = &restoration{done: make(chan struct{}), cancel: cancel}
	return ctx, true
}

func (l *Log) endRestoration() {
	l.roundMu.Lock()
	defer l.roundMu.Unlock()
	l.restoration.cancel()
	close(l.restoration.done)
	l.restoration = nil
}

// restore tries once to bring the log back into service; it does nothing when
// the log is in service or about to be closed. attempt counts from 1. After an
// error the log is out of service as before, and no worse off.
//
// While it works, nobody else appends, syncs or rolls: all of those look at
// l.failed first, and those that did so before it was set are waited for.
func (l *Log) restore(ctx context.Context, attempt int) error {
	ctx, ok := l.beginRestoration(ctx)
	if !ok {
		return nil
	}
	defer l.endRestoration()

	l.syncMu.Lock() // a sync that began before may move the flushed end yet
	from := l.flushed.Load()
	l.syncMu.Unlock()
	l.mu.Lock() // and so an append the log's end
	s := l.failed.Load()
	list := *l.segments.Load()
	end := l.logEnd.Load()
	l.mu.Unlock()

	switch {
	case s == nil:
		return nil
	case s.mend == mendReload:
		return l.reload(ctx)
	case len(list) == 0 || !list[len(list)-1].acquire():
		return nil // closed
	}
	active := list[len(list)-1]
	defer active.release()
	if s.mend == mendCut {
		return l.restoreByCut(ctx, s, active, end)
	}
	return l.rewrite(ctx, s, active, from, end, attempt)
}

// restoreByCut brings the log back by a cut of its active segment at the offset
// end, where the log ends. What is in the file behind it is not part of the log.
func (l *Log) restoreByCut(ctx context.Context, s *stop, active *segment, end int64) error {
	_, saved, err := l.saveBehind(ctx, s, active, end)
	if err != nil {
		return err
	}
	active.shortened.Store(true)
	if err := cutFile(active, end); err != nil {
		return l.errorf("cut %s at offset %d: %w", active.path, end, err)
	}
	// Safe before anything is appended: a crash could show what was cut off beneath
	// the first bytes of what is written in its place.
	if err := active.file.Sync(); err != nil {
		l.markUnsynced(active.path)
		l.failed.Store(s.with(stop{mend: mendRewrite})) // nobody else changes it now
		return l.errorf("flush %s after it was cut at offset %d: %w", active.path, end, err)
	}
	l.keepTime(active.path, active)
	l.removeLeftover(active.path + unsyncedSuffix)
	l.resume(nil, end)
	l.logRestored(slog.Int64("log_end", end), slog.String("saved", saved))
	return nil
}

// saveBehind saves what the active segment holds behind an offset if that may
// have been flushed once, and notes that this is done.
func (l *Log) saveBehind(ctx context.Context, s *stop, active *segment, offset int64) (*stop, string, error) {
	if !s.save {
		return s, "", nil
	}
	info, err := active.file.Stat()
	if err != nil {
		return s, "", l.errorf("%w", err)
	}
	f := segmentFile{base: active.base, path: active.path, size: info.Size()}
	if f.end() <= offset {
		return s, "", nil
	}
	saved, err := saveCut(ctx, l.cfg.FS, active.file, f, offset-f.base)
	if err != nil {
		return s, "", l.errorf("save what is cut off %s at offset %d: %w", f.path, offset, err)
	}
	done := *s
	done.save = false
	l.failed.Store(&done) // nobody else changes it now
	return &done, saved, nil
}

// markUnsynced makes a mark beside a segment whose sync, or that of its entry in
// the folder, has failed. If the process ends before the segment is written anew,
// the next one would find it in the page cache, sync it with success, and take it
// for safe. The mark does not need to be safe itself: after a crash of the
// machine there is no page cache to be mistaken about.
func (l *Log) markUnsynced(path string) {
	file, err := l.cfg.FS.Create(path + unsyncedSuffix)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !isExist(err) {
		l.cfg.Logger.Warn("failed sync cannot be noted: should this process be killed, the next one will take for safe what it reads",
			l.where(), slog.String("segment", path), slog.Any("error", err))
	}
}

// removeLeftover removes a file that has done its work. It does no harm if it
// stays.
func (l *Log) removeLeftover(path string) {
	if err := removeIfThere(l.cfg.FS, path); err != nil {
		l.cfg.Logger.Warn("file that is of no use any more cannot be removed", l.where(), slog.String("file", path), slog.Any("error", err))
	}
}

// cutFile cuts a segment's file at an offset. It does not touch a file that ends
// there: its time would change.
func cutFile(s *segment, offset int64) error {
	info, err := s.file.Stat()
	if err != nil || info.Size() == offset-s.base {
		return err
	}
	return s.file.Truncate(offset - s.base)
}

// resume puts the log back into service, with the offset end as its end. With
// next, a new active segment that was synced up to there, everything is flushed
// and becomes visible; without it what was flushed before stays the flushed end.
func (l *Log) resume(next *segment, end int64) {
	l.mu.Lock()
	l.syncMu.Lock()
	if end < l.logEnd.Load() {
		l.losses.Add(1) // before others get the offsets
	}
	var replaced *segment
	if next != nil {
		replaced = l.putActive(next, end)
	}
	l.logEnd.Store(end)
	if next != nil {
		l.flushed.Store(end)
	}
	if l.flushed.Load() == end {
		l.unflushed = 0
	}
	if l.cfg.Visible == VisibleAppended || next != nil {
		l.visible.Store(end)
	}
	l.failed.Store(nil)
	l.syncMu.Unlock()
	l.mu.Unlock()
	if replaced != nil {
		replaced.retire()
	}
	l.notify()
}

// putActive makes next the active segment: in the place of the one before if it
// begins where that does, which it returns then, else behind it. What next holds
// up to end was appended to the one before. The caller holds l.mu.
func (l *Log) putActive(next *segment, end int64) (replaced *segment) {
	list := *l.segments.Load()
	kept := len(list)
	last := list[kept-1]
	switch {
	case last.base == next.base:
		kept--
		next.first, next.last = last.first, last.last
	case end > next.base:
		next.first, next.last = seenAt(l.cfg.Clock.Elapsed()), last.last // the first was a little before
	}
	grown := make(segments, kept+1)
	copy(grown, list[:kept])
	grown[kept] = next
	l.segments.Store(&grown)
	if kept < len(list) {
		return last
	}
	last.close(next.base, l.cfg.files)
	return nil
}

// reload opens a log again that could not be opened.
func (l *Log) reload(ctx context.Context) error {
	found, err := l.load(ctx, false)
	if err != nil {
		if ctx.Err() == nil {
			// The reason may be another one by now.
			l.failed.Store(&stop{err: l.errorf("%w: %w", ErrOutOfService, err), mend: mendReload})
		}
		return l.errorf("open log: %w", err)
	}
	l.mu.Lock()
	l.syncMu.Lock()
	l.start(found.list, found.flushed, found.end)
	if s := found.stop; s != nil {
		s.err = l.errorf("%w: %w", ErrOutOfService, s.err)
	}
	l.failed.Store(found.stop)
	l.syncMu.Unlock()
	l.mu.Unlock()
	l.notify()
	if found.stop != nil {
		return found.stop.err // readable by now; the next attempt does the rest
	}
	l.logRestored(slog.Int64("log_end", found.end))
	return nil
}

// logRestored says that the log is back.
func (l *Log) logRestored(attrs ...slog.Attr) {
	attrs = append([]slog.Attr{l.where()}, attrs...)
	attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Value.Equal(slog.StringValue("")) })
	l.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "partition back in service", attrs...)
}
