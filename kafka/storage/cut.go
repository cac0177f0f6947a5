package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// cutSuffix stands in the names of files that hold what recovery cut off:
// <segment>.cut-<offset>, and a number behind it when that name is taken.
const cutSuffix = ".cut-"

// cutTail cuts a segment file at a position after it has saved what is behind
// that, and returns the path of the copy, or what is left to do.
func (l *Log) cutTail(ctx context.Context, file vfs.File, f segmentFile, position int64) (saved string, left *stop) {
	from := f.base + position
	saved, err := saveCut(ctx, l.cfg.FS, file, f, position)
	if err != nil {
		return "", &stop{mend: mendCut, save: true,
			err: fmt.Errorf("save what recovery cuts off %s at offset %d: %w: make that possible, such as by making room", f.path, from, err)}
	}
	if err := file.Truncate(position); err != nil {
		return saved, &stop{mend: mendCut, err: fmt.Errorf("cut %s to %d bytes: %w", f.path, position, err)}
	}
	return saved, nil
}

// cutOverlaps cuts segments that reach into the next one, and corrects their
// sizes in files. A crash in a rewriting leaves that, or a rewriting that could
// not cut the old segment: the next one holds what is there twice, and was safe
// before it got its name. See [Log.rewrite].
func (l *Log) cutOverlaps(ctx context.Context, files []segmentFile) error {
	for i := 1; i < len(files); i++ {
		before, after := &files[i-1], files[i]
		if before.end() <= after.base {
			continue
		}
		if err := l.cutOverlap(ctx, *before, after); err != nil {
			return err
		}
		before.size = after.base - before.base
	}
	return nil
}

func (l *Log) cutOverlap(ctx context.Context, before, after segmentFile) (err error) {
	next, err := l.cfg.FS.Open(after.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.Close()) }()
	var corrupt *message.CorruptError
	switch err := newScanner(next, after.base, after.size).next(); {
	case errors.Is(err, io.EOF) && after.size == 0, errors.As(err, &corrupt):
		// Not what a rewriting leaves: somebody has to look.
		return unfit("%w", Gap{Before: before.path, After: after.path, End: before.end(), Next: after.base})
	case err != nil:
		return err
	}
	old, err := l.cfg.FS.OpenWrite(before.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	position := after.base - before.base
	if within, err := withinMessage(ctx, old, before, position); err != nil {
		return err
	} else if within {
		// Nor does a rewriting begin inside a message: one of the files has a wrong name.
		return unfit("%w", Gap{Before: before.path, After: after.path, End: before.end(), Next: after.base})
	}
	twice := before.size - position
	same := false
	if twice <= after.size {
		if same, err = equalRanges(ctx, io.NewSectionReader(old, position, twice), next, twice); err != nil {
			return err
		}
	}
	saved := "in the next segment"
	if !same {
		if saved, err = saveCut(ctx, l.cfg.FS, old, before, position); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return unfit("save what %s has behind offset %d, where the next segment begins: %w: make that possible, such as by making room",
				before.path, after.base, err)
		}
	}
	if err := old.Truncate(position); err != nil {
		return unfit("cut %s to %d bytes: %w", before.path, position, err)
	}
	// Up to here the segment was safe before. If this fails, the overlap may
	// come back with the next crash, and no more.
	if err := old.Sync(); err != nil {
		return unfit("flush %s after it was cut: %w", before.path, err)
	}
	l.setTime(before.path, before.written) // no append (fault B07)
	l.cfg.Logger.Warn("cut off a segment what the next one holds", l.where(),
		slog.Int64("offset", after.base), slog.Int64("bytes", twice), slog.String("saved", saved))
	return nil
}

// withinMessage reports whether a position in a segment lies inside a message, and
// not between two. Behind damage that cannot be told, and it does not.
func withinMessage(ctx context.Context, file io.ReaderAt, f segmentFile, position int64) (bool, error) {
	s := newScanner(file, f.base, f.size)
	for n := 0; s.pos < position; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		var corrupt *message.CorruptError
		if err := s.next(); errors.As(err, &corrupt) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return s.pos > position, nil
}

// saveCut copies what lies behind position in a segment to a file of its own and
// returns that file's path.
func saveCut(ctx context.Context, fsys vfs.FS, from vfs.File, f segmentFile, position int64) (string, error) {
	return saveRange(ctx, fsys, from, f, position, f.size-position, cutSuffix)
}

// saveRange copies size bytes from a position in a segment on to a file of its
// own, whose name is the segment's, suffix and offset, and returns its path.
func saveRange(ctx context.Context, fsys vfs.FS, from vfs.File, f segmentFile, position, size int64, suffix string) (string, error) {
	path, err := freeName(fsys, fmt.Sprintf("%s%s%d", f.path, suffix, f.base+position))
	if err != nil {
		return "", err
	}
	// Under another name until it is whole: a crash in between leaves no half
	// copy that looks like one.
	temporary := path + temporarySuffix
	if err := removeIfThere(fsys, temporary); err != nil {
		return "", err
	}
	to, err := fsys.Create(temporary)
	if err != nil {
		return "", err
	}
	err = copySparse(ctx, to, from, position, size)
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = fsys.Rename(temporary, path)
	}
	if err != nil {
		return "", errors.Join(err, fsys.Remove(temporary))
	}
	return path, fsys.SyncDir(filepath.Dir(path))
}

// freeName returns name, or name with the first number behind it that makes it
// new: a log can be cut twice at the same offset.
func freeName(fsys vfs.FS, name string) (string, error) {
	for n := 1; ; n++ {
		path := name
		if n > 1 {
			path = fmt.Sprintf("%s.%d", name, n)
		}
		if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return path, nil
		} else if err != nil {
			return "", err
		}
	}
}

// copySparse copies size bytes and leaves out blocks of zeros, so that a tail of
// zeros, of which file systems leave large ones after a crash, takes no room on
// the disk, and where it is a hole no time to read (fault B02).
func copySparse(ctx context.Context, to, from vfs.File, position, size int64) error {
	buf := make([]byte, min(scanBytes, size))
	for done := int64(0); done < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data, err := from.NextData(position + done)
		if err != nil {
			return err
		}
		if done = min(data-position, size); done == size {
			break
		}
		b := buf[:min(int64(len(buf)), size-done)]
		if _, err := from.ReadAt(b, position+done); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !allZero(b) {
			if err := writeFull(to, b, done); err != nil {
				return err
			}
		}
		done += int64(len(b))
	}
	return to.Truncate(size)
}

var zeroBlock [4096]byte

func allZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeroBlock))
		if string(b[:n]) != string(zeroBlock[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// equalRanges reports whether the first size bytes of two files are the same.
func equalRanges(ctx context.Context, a, b io.ReaderAt, size int64) (bool, error) {
	bufA, bufB := make([]byte, min(scanBytes, size)), make([]byte, min(scanBytes, size))
	for done := int64(0); done < size; done += int64(len(bufA)) {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		bufA, bufB = bufA[:min(int64(len(bufA)), size-done)], bufB[:min(int64(len(bufB)), size-done)]
		if err := errors.Join(readFull(a, bufA, done), readFull(b, bufB, done)); err != nil {
			return false, err
		}
		if !bytes.Equal(bufA, bufB) {
			return false, nil
		}
	}
	return true, nil
}

// readFull fills b from a position on.
func readFull(from io.ReaderAt, b []byte, position int64) error {
	if n, err := from.ReadAt(b, position); n < len(b) {
		return fmt.Errorf("read %d bytes at %d: %w", len(b), position, err)
	}
	return nil
}
