package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// errUnfit marks what keeps one partition from being served, while the others
// can be, as isOwn does for errors of the system. Every other error in opening a
// log, such as too many open files, ends the start: it says nothing about the log
// (fault B05).
var errUnfit = errors.New("")

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w%w", errUnfit, fmt.Errorf(format, args...))
}

// segmentFile is a segment as it lies in its folder.
type segmentFile struct {
	base    int64
	path    string
	size    int64
	written time.Time // last
}

func (f segmentFile) end() int64 { return f.base + f.size }

// listSegments returns the segment files of a partition folder by base offset.
// Other files are left alone.
func listSegments(fsys vfs.FS, dir string) ([]segmentFile, error) {
	files, _, err := listFolder(fsys, dir)
	return files, err
}

// listFolder is listSegments that names also what else a crash may have left:
// unfinished copies, and marks of failed syncs.
func listFolder(fsys vfs.FS, dir string) (files []segmentFile, leftovers []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries { // sorted, as names are padded
		path := filepath.Join(dir, e.Name())
		base, ok, err := parseSegmentName(e.Name())
		if err != nil {
			return nil, nil, unfit("%s: %w", dir, err)
		}
		if !ok {
			if isLeftover(e) {
				leftovers = append(leftovers, path)
			}
			continue
		}
		info, err := fsys.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		if info.IsDir() {
			return nil, nil, unfit("%s is named like a segment, but is a folder: move it away", path)
		}
		if base > 0 && info.Size() > 1<<63-1-base {
			return nil, nil, unfit("%s: offsets do not reach to its end", path)
		}
		files = append(files, segmentFile{base: base, path: path, size: info.Size(), written: info.ModTime()})
	}
	return files, leftovers, nil
}

// isLeftover reports whether a file is a copy of a segment, or of a part of one,
// that was not complete, as those have another name when they are; or the mark of
// a failed sync.
func isLeftover(e fs.DirEntry) bool {
	name := e.Name()
	return !e.IsDir() && (strings.Contains(name, segmentSuffix) && strings.HasSuffix(name, temporarySuffix) ||
		strings.HasSuffix(name, segmentSuffix+unsyncedSuffix))
}

// A Gap is a place where a segment does not begin where the one before it ends.
type Gap struct {
	Before, After string // paths of the two segment files
	End           int64  // where Before ends (exclusive)
	Next          int64  // where After begins
}

func (g Gap) Error() string {
	what := "bytes are missing"
	if g.Next < g.End {
		what = "bytes are there twice"
	}
	return fmt.Sprintf("%s ends at offset %d, but %s begins at %d: %d %s: put back the right files, or move away one side",
		g.Before, g.End, filepath.Base(g.After), g.Next, max(g.Next-g.End, g.End-g.Next), what)
}

func findGaps(files []segmentFile) []Gap {
	var gaps []Gap
	for i := 1; i < len(files); i++ {
		if before, after := files[i-1], files[i]; before.end() != after.base {
			gaps = append(gaps, Gap{Before: before.path, After: after.path, End: before.end(), Next: after.base})
		}
	}
	return gaps
}

// openLog opens the log in a partition folder and, unless the last stop was
// clean, recovers it. A segment that no sync can vouch for is written anew at
// once, so that what was visible before is visible from the start. When the log
// cannot be served, or only read from, it is returned nevertheless, out of
// service, for the restorer to try again.
func openLog(ctx context.Context, cfg *Config, topic string, partition int32, dir string, clean bool) (*Log, error) {
	l := newLog(cfg, topic, partition, dir)
	found, err := l.load(ctx, clean)
	switch {
	case err == nil:
		l.start(found.list, found.flushed, found.end)
		if found.stop == nil {
			return l, nil
		}
		_ = l.fail(*found.stop) // the log keeps and reports it
		if found.stop.mend == mendRewrite && l.restore(ctx, 1) != nil && ctx.Err() != nil {
			l.end(ErrClosed)
			l.close()
			return nil, context.Cause(ctx) // the start is given up
		}
		return l, nil
	case atFileLimit(err):
		// Whatever it was that could not be opened on the way.
		return nil, l.errorf("open log: %w", err)
	case errors.Is(err, errUnfit) || isOwn(err):
		_ = l.fail(stop{err: err, mend: mendReload})
		return l, nil
	default:
		return nil, l.errorf("open log: %w", err)
	}
}

// isOwn reports whether an error of the system is about the files of one log: a
// bad place on the disk, files that somebody else owns, a folder that was to be
// made complete and there is no room. The log is served once that is put right.
func isOwn(err error) bool {
	for _, e := range []error{syscall.EIO, fs.ErrPermission, syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// loaded is a log as it was found on the disk.
type loaded struct {
	list    segments
	flushed int64 // exclusive end of what is known to be safe
	end     int64 // exclusive end of the log
	stop    *stop // what keeps it out of service, nil: nothing
}

// load finds the segments and the end of the log, up to which all is flushed
// unless it says otherwise. Only the last segment is opened.
func (l *Log) load(ctx context.Context, clean bool) (loaded, error) {
	fsys := l.cfg.FS
	folder, err := fsys.Stat(l.dir)
	if err != nil {
		return loaded{}, err
	}
	files, leftovers, err := listFolder(fsys, l.dir)
	if err != nil {
		return loaded{}, err
	}
	if err := l.cutOverlaps(ctx, files); err != nil {
		return loaded{}, err
	}
	if gaps := findGaps(files); len(gaps) > 0 {
		return loaded{}, unfit("%w", gaps[0])
	}
	if len(files) == 0 {
		// A crash between the making of the folder and that of the file.
		first, err := createSegment(fsys, l.dir, 0)
		if err != nil {
			return loaded{}, err
		}
		if err := fsys.SyncDir(l.dir); err != nil {
			first.release()
			return loaded{}, errors.Join(err, fsys.Remove(first.path)) // not to be found by an attempt that trusts its entry
		}
		return loaded{list: segments{first}}, nil
	}
	last := files[len(files)-1]
	file, err := fsys.OpenWrite(last.path)
	if err != nil {
		return loaded{}, err
	}
	found := loaded{flushed: last.end(), end: last.end()}
	mark := last.path + unsyncedSuffix
	if !clean {
		if found, err = l.recover(ctx, file, last, slices.Contains(leftovers, mark)); err != nil {
			return loaded{}, errors.Join(err, file.Close())
		}
	}
	for _, path := range leftovers {
		if path != mark || found.stop == nil {
			l.removeLeftover(path)
		}
	}
	for _, f := range files[:len(files)-1] {
		found.list = append(found.list, newClosedSegment(f.base, f.end(), f.path, l.cfg.files))
	}
	found.list = append(found.list, newSegment(last.base, last.path, file))
	l.tellTimes(found, files, folder.ModTime())
	return found, nil
}

// recover walks the last segment, cuts it at the first bad message, and makes
// what is left safe. Nothing of a segment that is sound changes, nor does its
// time (fault B07).
//
// The sync comes before anybody sees the end: what was read just now may have
// come from a page cache that a process outlives and a machine does not.
//
// What cannot be done here is left to restore, with the log out of service but
// readable as far as it is safe: a tail that cannot be saved, for lack of room
// say, or cut, and a sync that fails, or that did so before the last stop, which
// unsynced says. Which messages are safe is not known then, so all of the segment
// is suspect, but none of it may be thrown away.
func (l *Log) recover(ctx context.Context, file vfs.File, f segmentFile, unsynced bool) (loaded, error) {
	s := newScanner(file, f.base, f.size)
	damage, err := s.scanAll(ctx, nil)
	if err != nil {
		return loaded{}, err
	}
	end := f.base + s.pos
	found := loaded{flushed: end, end: end}
	if damage != nil {
		sound := countSound(ctx, file, f, s.pos)
		saved, left := l.cutTail(ctx, file, f, s.pos)
		if ctx.Err() != nil {
			return loaded{}, context.Cause(ctx) // the start is given up; that says nothing about the log
		}
		if found.stop = left; left == nil {
			attrs := []slog.Attr{l.where(), slog.Int64("offset", end), slog.Int64("bytes", f.size-s.pos),
				slog.String("saved", saved), slog.Any("damage", damage), slog.Int64("sound_messages_in_it", sound)}
			if sound > 0 {
				attrs = append(attrs, slog.String("to_publish_them_again", fmt.Sprintf("kafka log dump --payload-only %q | kafka produce", saved)))
			}
			l.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "cut a bad tail off the log", attrs...)
			l.cfg.Hooks.cut(l, end, f.size-s.pos)
		}
	}
	if damage == nil {
		err = l.clearBehind(file, f)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		// The folder entry of the last segment may not be safe either.
		err = l.cfg.FS.SyncDir(l.dir)
	}
	if err == nil && unsynced {
		err = errors.New("a sync failed before the last stop, so this one proves nothing")
	} else if err != nil && !atFileLimit(err) {
		l.markUnsynced(f.path)
	}
	if err != nil {
		found.flushed = f.base
		found.stop = found.stop.with(stop{mend: mendRewrite, save: true,
			err: fmt.Errorf("flush %s after recovery: %w", f.path, err)})
	}
	if found.stop != nil && atFileLimit(found.stop.err) {
		return loaded{}, found.stop.err // says nothing about the log (fault B05)
	}
	return found, nil
}

// countPatience is how long a start takes to count what it cuts off.
const countPatience = 10 * time.Second

// countSound counts the sound messages in what is behind a position, a compressed
// one as one. It is for the log alone: what cannot be read, or not soon, is not
// counted.
func countSound(ctx context.Context, file vfs.File, f segmentFile, position int64) (sound int64) {
	ctx, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	s := newScanner(file, f.base, f.size)
	s.pos = position
	_ = s.scanPast(ctx, func(scanned, []byte) error { // what was counted before an error counts
		sound++
		return nil
	}, func(DamagedRange) error { return nil })
	return sound
}

// clearBehind clears what the disk may hold behind the end of a segment that is
// whole, by a cut to the size that it has. A machine that loses its power may have
// written messages to the last block and not the size of the file with them.
// Nobody sees those, but when later appends make the file longer, and the power is
// lost once more, they would stand where the later ones were not written yet:
// whole messages from before the last recovery. A true cut does that by itself.
func (l *Log) clearBehind(file vfs.File, f segmentFile) error {
	if err := file.Truncate(f.size); err != nil {
		return err
	}
	l.setTime(f.path, f.written) // no append (fault B07)
	return nil
}
