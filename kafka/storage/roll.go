package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"kafkalab/kafka/internal/clock"
)

// staleSuffix stands in the names of files that were in the way of a roll, and of
// those that a repair has put aside, as another segment holds all of them:
// <segment>.stale, and a number behind it when that name is taken.
const staleSuffix = ".stale"

// moment is when something was appended. What was appended by this process is
// timed with a clock that nobody can put forward or back. Of the rest there is
// only what the file system says, by a clock that may have been wrong then, and
// may be wrong now. See the package's text on retention for what follows.
type moment struct {
	origin origin
	at     time.Duration // by clock.Clock.Elapsed; negative before the process began
	wall   time.Time     // what the file system says
}

type origin int

const (
	never    origin = iota // nothing was appended yet
	seen                   // appended by this process: at is exact
	told                   // wall is in the future and not believed: at is when it was looked at first
	believed               // at is worked out from wall
)

// longAgo bounds ages, so that none overflows, whatever the file system says.
const longAgo = 100 * 365 * 24 * time.Hour

func seenAt(elapsed time.Duration) moment { return moment{origin: seen, at: elapsed} }

func toldOf(wall time.Time, elapsed time.Duration) moment {
	return moment{origin: told, at: elapsed, wall: wall}
}

// age returns how long ago it was; elapsed is what c.Elapsed returns. An age
// that was worked out from the wall clock goes on with elapsed, so a clock that
// is put forward makes nothing older. One that is put back may show that it was
// ahead before, and makes things younger.
func (m *moment) age(c clock.Clock, elapsed time.Duration) time.Duration {
	if m.origin == told || m.origin == believed {
		byWall := min(c.Now().Sub(m.wall), longAgo)
		switch {
		case byWall < 0:
			if m.origin == believed {
				m.origin, m.at = told, elapsed
			}
		case m.origin == told || byWall < elapsed-m.at:
			m.origin, m.at = believed, elapsed-byWall
		}
	}
	if m.origin == never {
		return 0
	}
	return elapsed - m.at
}

// wallTime returns when it was by the clock as it is now, or what the file system
// says, and whether it is known.
func (m *moment) wallTime(c clock.Clock) (t time.Time, known bool) {
	if m.origin == seen {
		return c.Now().Add(m.at - c.Elapsed()), true
	}
	return m.wall, m.origin != never
}

// firstAppend estimates when the last of the segment files got its first append.
// A segment is made for the append that rolls, and that changes its folder; but
// so does a deletion. It was not before the last append to the file before it,
// and not after the last one to itself.
func firstAppend(folder time.Time, files []segmentFile) time.Time {
	n := len(files)
	first := folder
	if n > 1 && files[n-2].written.After(first) {
		first = files[n-2].written
	}
	if files[n-1].written.Before(first) {
		first = files[n-1].written
	}
	return first
}

// tellTimes gives the segments that load has found the times of their files, as
// those were before it changed anything: what recovery does to a file is no
// append to it (fault B07).
func (l *Log) tellTimes(found loaded, files []segmentFile, folder time.Time) {
	elapsed := l.cfg.Clock.Elapsed()
	for i, f := range files {
		found.list[i].last = toldOf(f.written, elapsed)
	}
	n := len(files) - 1
	found.list[n].first = toldOf(firstAppend(folder, files), elapsed)
	if found.end == files[n].end() {
		return
	}
	l.setTime(files[n].path, files[n].written)
}

// keepTime gives a file that was cut, or written anew, the time of the last
// append to the segment that it belongs to: neither is one (fault B07).
func (l *Log) keepTime(path string, s *segment) {
	l.mu.Lock()
	t, known := s.last.wallTime(l.cfg.Clock)
	l.mu.Unlock()
	if known {
		l.setTime(path, t)
	}
}

func (l *Log) setTime(path string, t time.Time) {
	if err := l.cfg.FS.SetTime(path, t); err != nil {
		l.cfg.Logger.Warn("segment that was cut or written anew looks as if it was appended to",
			l.where(), slog.String("segment", path), slog.Any("error", err))
	}
}

// rollDue reports whether the next append must go to a new segment. An empty
// segment is never rolled (KAFKA-292). The caller holds l.mu.
func (l *Log) rollDue(active *segment, size int64, elapsed time.Duration) bool {
	switch {
	case size == 0:
		return false
	case size > l.cfg.SegmentBytes:
		return true
	default:
		return l.cfg.RollInterval > 0 && active.first.age(l.cfg.Clock, elapsed) > l.cfg.RollInterval
	}
}

// roll starts the next segment behind the active one, which ends at end. The
// caller holds l.mu.
//
// The order keeps two promises. The old segment is flushed before the new file
// exists, so that after a crash only the last segment of a log can have a bad
// tail. And the new file's folder entry is safe before anything is appended, so
// that no flush of the file can be undone by the loss of its name.
func (l *Log) roll(list segments, end int64) (*segment, error) {
	active := list[len(list)-1]
	if err := l.flushTo(active, end); err != nil {
		return nil, err
	}
	l.unflushed = 0
	next, err := l.makeSegment(end)
	if err != nil {
		return nil, err
	}
	grown := make(segments, len(list)+1)
	copy(grown, list)
	grown[len(list)] = next
	l.segments.Store(&grown)
	active.close(end, l.cfg.files)
	return next, nil
}

// makeSegment makes a segment file, safe from a crash. After an error the log is
// in service and the next attempt may succeed, unless the folder's sync failed.
func (l *Log) makeSegment(base int64) (next *segment, err error) {
	fsys, files := l.cfg.FS, l.cfg.files
	create := func() error {
		next, err = createSegment(fsys, l.dir, base)
		return err
	}
	err = files.makeRoom(create)
	if errors.Is(err, errInTheWay) {
		if err = l.moveAside(segmentName(base)); err == nil {
			err = files.makeRoom(create)
		}
	}
	if err != nil {
		return nil, l.errorf("roll at offset %d: %w", base, err)
	}
	err = files.makeRoom(func() error { return fsys.SyncDir(l.dir) })
	switch {
	case err == nil:
		return next, nil
	case atFileLimit(err):
		// No sync was tried. The next attempt finds the empty file and uses it.
		err = l.errorf("roll at offset %d: %w", base, err)
	default:
		l.markUnsynced(next.path)
		err = l.fail(stop{mend: mendRewrite, err: fmt.Errorf("roll at offset %d: %w", base, err)})
	}
	next.release()
	return nil, err
}

// moveAside gives a file that is in the way of a roll another name, beside which
// the log goes on: what it holds is not the log's, and nobody else's either, but
// somebody may miss it (KAFKA-654).
func (l *Log) moveAside(name string) error {
	path := filepath.Join(l.dir, name)
	aside, err := freeName(l.cfg.FS, path+staleSuffix)
	if err != nil {
		return err
	}
	if err := l.cfg.FS.Rename(path, aside); err != nil {
		return err
	}
	l.cfg.Logger.Warn("a file that this log did not write was in the way of its next segment and has another name now",
		l.where(), slog.String("file", path), slog.String("now", aside))
	return nil
}
