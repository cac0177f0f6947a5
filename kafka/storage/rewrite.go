package storage

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"syscall"

	"kafkalab/kafka/internal/vfs"
)

// patientAttempts is how many attempts to restore take a place that cannot be
// read for one that perhaps can be later, before they take it for lost.
const patientAttempts = 5

// rewrite puts the part of the log that no sync can vouch for, from its flushed
// end from to its end, into a new segment file, and goes on behind it (fault
// B04). After a failed sync the kernel takes pages for written that are not, so
// they would never be written, while reads show them, until one day they are
// evicted. The same goes for a folder's entry.
//
//  1. Check the messages. What follows a bad one is lost, as its offset is
//     fixed; none of it was flushed.
//  2. Copy them to <segment>.kafka.tmp, sync that, and read it back from the
//     disk, past the page cache.
//  3. Give the copy the name of the segment with base offset from, and sync the
//     folder. If that is the active segment's, the copy replaces it.
//  4. Publish the new list of segments and the new ends, and with them put the
//     log back into service.
//  5. Cut what is there twice off the old segment.
//
// Nothing is taken away from the old file before the new one is in place, so an
// attempt that fails anywhere up to 3 can be repeated from the start, and so can
// one that a crash ends: see the package's table.
func (l *Log) rewrite(ctx context.Context, s *stop, active *segment, from, end int64, attempt int) (err error) {
	sound, damage, err := l.soundEnd(ctx, active, from, end, attempt > patientAttempts)
	if err != nil {
		return l.errorf("check what is to be written anew: %w", err)
	}
	s, saved, err := l.saveBehind(ctx, s, active, sound)
	if err != nil {
		return err
	}
	if sound < end {
		defer func() {
			if err == nil {
				l.cfg.Logger.Error("unflushed messages are lost", l.where(),
					slog.Int64("offset", sound), slog.Int64("bytes", end-sound), slog.Any("damage", damage))
				l.cfg.Hooks.cut(l, sound, end-sound)
			}
		}()
		if sound == from && from > active.base {
			return l.restoreByCut(ctx, s, active, sound) // nothing is left to be written anew
		}
	}
	next, direct, err := l.writeAnew(ctx, active, from, sound)
	if err != nil {
		return l.errorf("write anew from offset %d to %d: %w", from, sound, err)
	}
	l.resume(next, sound)
	if from > active.base {
		// Synced, as a crash could bring back what was cut off.
		err := cutFile(active, from)
		if err == nil {
			err = active.file.Sync()
		}
		if err != nil {
			l.cfg.Logger.Warn("segment holds what the next one holds too: the next start cuts that off",
				l.where(), slog.String("segment", active.path), slog.Int64("offset", from), slog.Any("error", err))
		}
		l.keepTime(active.path, active)
	}
	l.logRestored(slog.Int64("rewritten_from", from), slog.Int64("log_end", sound), slog.Bool("read_back_from_disk", direct), slog.String("saved", saved))
	return nil
}

// soundEnd checks the messages of the active segment between two offsets and
// returns the end of those that are sound, and what is wrong behind it. A place
// that cannot be read is an error, or, when giveUp is set, damage.
func (l *Log) soundEnd(ctx context.Context, active *segment, from, end int64, giveUp bool) (sound int64, damage, err error) {
	s := newScanner(io.NewSectionReader(active.file, from-active.base, end-from), from, end-from)
	corrupt, err := s.scanAll(ctx, nil)
	sound = from + s.pos
	switch {
	case corrupt != nil:
		return sound, corrupt, nil
	case err != nil && (errors.Is(err, io.EOF) || giveUp && errors.Is(err, syscall.EIO)):
		return sound, err, nil
	}
	return sound, nil, err
}

// writeAnew makes a segment file with what the active segment holds between two
// offsets, makes sure that the disk has it, and opens it. direct says that it was
// read past the page cache.
func (l *Log) writeAnew(ctx context.Context, active *segment, from, end int64) (next *segment, direct bool, err error) {
	fsys := l.cfg.FS
	path := filepath.Join(l.dir, segmentName(from))
	temporary := path + temporarySuffix
	source := io.NewSectionReader(active.file, from-active.base, end-from)
	if err := removeIfThere(fsys, temporary); err != nil {
		return nil, false, err
	}
	sum, err := copyFile(ctx, fsys, temporary, source)
	if err == nil {
		direct, err = readBack(ctx, fsys, temporary, from, end, sum)
	}
	if err == nil {
		l.keepTime(temporary, active)
		err = l.putInPlace(temporary, path, active)
	}
	if err != nil {
		return nil, false, errors.Join(err, removeIfThere(fsys, temporary))
	}
	l.remadeAt = from
	file, err := fsys.OpenWrite(path)
	if err != nil {
		return nil, false, err
	}
	l.removeLeftover(active.path + unsyncedSuffix)
	l.removeLeftover(path + unsyncedSuffix) // of a roll that failed, if it is another
	if err := fsys.SyncDir(l.dir); err != nil {
		l.markUnsynced(path)
		return nil, false, errors.Join(err, file.Close())
	}
	return newSegment(from, path, file), direct, nil
}

// putInPlace gives a file the name path: in the place of the active segment's
// file, of the empty one of a roll that failed, or of what an earlier attempt has
// put there. Anything else is not ours, and moved aside.
func (l *Log) putInPlace(temporary, path string, active *segment) error {
	fsys := l.cfg.FS
	info, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case path != active.path && filepath.Join(l.dir, segmentName(l.remadeAt)) != path && info.Size() > 0:
		if err := l.moveAside(filepath.Base(path)); err != nil {
			return err
		}
	}
	return fsys.Rename(temporary, path)
}

// removeIfThere removes a file if it is there.
func removeIfThere(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// copyFile makes a file with the content of from, syncs it, and returns a
// checksum of all of it.
func copyFile(ctx context.Context, fsys vfs.FS, path string, from *io.SectionReader) (sum uint32, err error) {
	to, err := fsys.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	buf := make([]byte, min(scanBytes, from.Size()))
	for done := int64(0); done < from.Size(); {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		b := buf[:min(int64(len(buf)), from.Size()-done)]
		if err := readFull(from, b, done); err != nil {
			return 0, err
		}
		if err := writeFull(to, b, done); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, b)
		done += int64(len(b))
	}
	return sum, to.Sync()
}

// readBack makes sure that the disk has the messages that were written to a
// file, from offset from to offset end: all sound, and nothing but what the
// checksum was made of.
func readBack(ctx context.Context, fsys vfs.FS, path string, from, end int64, sum uint32) (direct bool, err error) {
	file, err := fsys.OpenUncached(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	disk := &summingReader{from: file}
	damage, err := newScanner(disk, from, end-from).scanAll(ctx, nil)
	switch {
	case err != nil:
		return false, fmt.Errorf("read %s back: %w", path, err)
	case damage != nil:
		return false, fmt.Errorf("read %s back: %w", path, damage)
	case disk.end != end-from || disk.sum != sum:
		return false, fmt.Errorf("read %s back: it is not what was written", path)
	}
	return file.Direct(), nil
}

// summingReader keeps a checksum of what a scanner reads. The scanner goes from
// the front to the end and reads some bytes twice.
type summingReader struct {
	from io.ReaderAt
	sum  uint32
	end  int64 // what is before it is in the sum
}

func (r *summingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.from.ReadAt(p, off)
	if skip := r.end - off; skip >= 0 && skip < int64(n) {
		r.sum = crc32.Update(r.sum, castagnoli, p[skip:n])
		r.end = off + int64(n)
	}
	return n, err
}
