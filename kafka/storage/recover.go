package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"syscall"

	"kafkalab/kafka/internal/vfs"
)

// errUnfit marks what keeps one partition from being served, while the others
// can be. Every other error in opening a log, such as too many open files, ends
// the start: it says nothing about the log (fault B05).
var errUnfit = errors.New("")

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w%w", errUnfit, fmt.Errorf(format, args...))
}

// cutSuffix stands in the names of files that hold what recovery cut off:
// <segment>.cut-<offset>, and a number behind it when that name is taken.
const cutSuffix = ".cut-"

// segmentFile is a segment as it lies in its folder.
type segmentFile struct {
	base int64
	path string
	size int64
}

func (f segmentFile) end() int64 { return f.base + f.size }

// listSegments returns the segment files of a partition folder by base offset.
// Other files are left alone.
func listSegments(fsys vfs.FS, dir string) ([]segmentFile, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []segmentFile // sorted, as names are padded
	for _, e := range entries {
		base, ok, err := parseSegmentName(e.Name())
		if err != nil {
			return nil, unfit("%s: %w", dir, err)
		}
		if !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := fsys.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, unfit("%s is named like a segment, but is a folder: move it away", path)
		}
		if base > 0 && info.Size() > 1<<63-1-base {
			return nil, unfit("%s: offsets do not reach to its end", path)
		}
		files = append(files, segmentFile{base: base, path: path, size: info.Size()})
	}
	return files, nil
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
// clean, recovers it. When the log cannot be served it returns it nevertheless,
// out of service.
func openLog(ctx context.Context, cfg *Config, topic string, partition int32, dir string, clean bool) (*Log, error) {
	l := newLog(cfg, topic, partition, dir)
	list, end, err := l.load(ctx, clean)
	switch {
	case err == nil:
		l.start(list, end)
		return l, nil
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		// Whatever it was that could not be opened on the way.
		return nil, l.errorf("open log: %w", err)
	case errors.Is(err, errUnfit) || errors.Is(err, syscall.EIO):
		_ = l.fail(err) // the log keeps and reports it
		return l, nil
	default:
		return nil, l.errorf("open log: %w", err)
	}
}

// load opens the segments and returns them with the end of the log, up to which
// all is flushed. Only the last one is opened for writing.
func (l *Log) load(ctx context.Context, clean bool) (list segments, end int64, err error) {
	fsys := l.cfg.FS
	files, err := listSegments(fsys, l.dir)
	if err != nil {
		return nil, 0, err
	}
	if gaps := findGaps(files); len(gaps) > 0 {
		return nil, 0, unfit("%w", gaps[0])
	}
	defer func() {
		if err != nil {
			for _, s := range list {
				s.release()
			}
		}
	}()
	if len(files) == 0 {
		// A crash between the making of the folder and that of the file.
		first, err := createSegment(fsys, l.dir, 0)
		if err != nil {
			return nil, 0, err
		}
		return segments{first}, 0, fsys.SyncDir(l.dir)
	}
	for i, f := range files {
		open := fsys.Open
		if i == len(files)-1 {
			open = fsys.OpenWrite
		}
		file, err := open(f.path)
		if err != nil {
			return list, 0, err
		}
		list = append(list, newSegment(f.base, f.path, file))
	}
	last := files[len(files)-1]
	if clean {
		return list, last.end(), nil
	}
	end, err = l.recover(ctx, list[len(list)-1].file, last)
	return list, end, err
}

// recover walks the last segment, cuts it at the first bad message, and makes
// what is left safe. It returns the end of the log. A segment that is sound is
// not written to (fault B07).
//
// The sync comes before anybody sees the end: what was read just now may have
// come from a page cache that a process outlives and a machine does not.
func (l *Log) recover(ctx context.Context, file vfs.File, f segmentFile) (end int64, err error) {
	s := newScanner(file, f.base, f.size)
	damage, err := s.scanAll(ctx, nil)
	if err != nil {
		return 0, err
	}
	if damage != nil {
		saved, err := saveCut(ctx, l.cfg.FS, file, f, s.pos)
		if err != nil && ctx.Err() != nil {
			return 0, context.Cause(ctx) // the start is given up; that says nothing about the log
		}
		if err != nil {
			return 0, unfit("save what recovery cuts off %s at offset %d: %w: make that possible, such as by making room, and start again",
				f.path, damage.Offset, err)
		}
		if err := file.Truncate(s.pos); err != nil {
			return 0, unfit("cut %s to %d bytes: %w", f.path, s.pos, err)
		}
		l.cfg.Logger.Warn("cut a bad tail off the log", slog.String("topic", l.topic), slog.Int("partition", int(l.partition)),
			slog.Int64("offset", damage.Offset), slog.Int64("bytes", f.size-s.pos), slog.String("saved", saved), slog.Any("damage", damage))
		l.cfg.Hooks.cut(l, damage.Offset, f.size-s.pos)
	}
	if err := file.Sync(); err != nil {
		return 0, unfit("flush %s after recovery: %w", f.path, err)
	}
	// The folder entries of the last segments may not be safe either.
	if err := l.cfg.FS.SyncDir(l.dir); err != nil {
		return 0, unfit("flush folder %s after recovery: %w", l.dir, err)
	}
	return f.base + s.pos, nil
}

// saveCut copies what lies behind position in a segment to a file of its own and
// returns that file's path.
func saveCut(ctx context.Context, fsys vfs.FS, from io.ReaderAt, f segmentFile, position int64) (string, error) {
	path, err := freeName(fsys, fmt.Sprintf("%s%s%d", f.path, cutSuffix, f.base+position))
	if err != nil {
		return "", err
	}
	// Under another name until it is whole: a crash in between leaves no half
	// copy that looks like one.
	temporary := path + temporarySuffix
	if err := fsys.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	to, err := fsys.Create(temporary)
	if err != nil {
		return "", err
	}
	err = copySparse(ctx, to, from, position, f.size-position)
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
// the disk (fault B02).
func copySparse(ctx context.Context, to vfs.File, from io.ReaderAt, position, size int64) error {
	buf := make([]byte, min(scanBytes, size))
	for done := int64(0); done < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
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
