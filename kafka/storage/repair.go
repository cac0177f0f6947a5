package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// MaxGapBytes is how many missing bytes [Repair] fills with fillers at most: a
// larger gap is more likely a file of another log.
const MaxGapBytes = 16 << 30

// RepairOptions says what [Repair] may do.
type RepairOptions struct {
	// FS is the file system. Default: the real one.
	FS vfs.FS
	// DryRun changes nothing: what would be done is told.
	DryRun bool
	// ReplaceDamaged puts fillers in place of damage that has sound messages
	// behind it. Consumers get past it then, and are not told.
	ReplaceDamaged bool
	// Cut cuts the last segment at such damage, as a start of a broker does: the
	// sound messages behind it leave the log, and are in the copy. Not with
	// ReplaceDamaged.
	Cut bool
	// AcceptGaps puts a segment of fillers in place of missing ones.
	AcceptGaps bool
	// MaxDecompressedBytes is that of [WalkOptions].
	MaxDecompressedBytes int
}

// Mend is one thing that [Repair] has found wrong, and what it has done.
type Mend struct {
	Topic     string // "" when it is not about a partition
	Partition int32
	Path      string // file or folder
	// Offset to End (exclusive) is the range of the log that it is about; both are
	// 0 when it is about none.
	Offset, End int64
	Problem     string
	// Action is what was done, or with DryRun would be; empty: nothing.
	Action string
	// Saved is the file that holds what was taken out of the log, if anything was.
	Saved string
	// Advice says what there is to do about what is left, and maybe what else
	// there is to know about what is done.
	Advice string
	// Err says why what was to be done failed.
	Err error
}

// Left reports whether it is still wrong.
func (m Mend) Left() bool { return m.Action == "" || m.Err != nil }

// RepairReport counts what a repair has found.
type RepairReport struct {
	Mended, Left int
}

// Repair mends a log that no broker has open: a segment file, a partition's
// folder, or a whole log folder, whose lock it holds meanwhile; with a broker at
// work it fails with [ErrLocked]. tell is called for everything that was wrong,
// once it is done.
//
//	what is wrong                        what is done
//	bad tail of the last segment         cut off, as recovery does, if nothing sound is in it
//	damage with sound messages behind    nothing; with ReplaceDamaged filled, so that all that is sound keeps
//	                                     its offset and can be consumed; with Cut the last segment is cut there
//	segments overlap                     the older one is cut where the newer one begins, if that is sound; one
//	                                     that holds nothing but what the older one has is put aside; nothing if
//	                                     the newer one begins inside a message of the older one
//	a gap between segments               nothing; with AcceptGaps a segment of fillers is put there
//	an empty file in the way             removed
//	left-overs of an interrupted write   removed, and those of a deleted topic
//	names that are none of ours          nothing
//	a mark of a failed sync              nothing in that log: a start of a broker writes it anew
//
// What is taken out of a log is first copied to a file beside the segment, and
// the copy synced; what the next segment holds too needs none. Segments keep the
// time of their last write. A repair that is cut off by a crash can be repeated;
// it may then make a second copy. The error is that of not getting at the log, or
// of ctx; what could not be mended is told.
func Repair(ctx context.Context, path string, opt RepairOptions, tell func(Mend)) (report RepairReport, err error) {
	if opt.Cut && opt.ReplaceDamaged {
		return report, errors.New("to cut at damage and to replace it exclude each other: choose one")
	}
	if opt.FS == nil {
		opt.FS = vfs.OS()
	}
	if opt.MaxDecompressedBytes <= 0 {
		opt.MaxDecompressedBytes = message.DefaultMaxDecompressed
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return report, err
	}
	place, err := findPlace(opt.FS, path)
	if err != nil {
		return report, err
	}
	if place.kept != "" {
		return report, fmt.Errorf("%s is no segment file, but holds what was taken out of one: there is nothing to repair, dump the messages in it", path)
	}
	unlock, err := lockPlace(opt.FS, place, opt.DryRun)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r := &repairer{ctx: ctx, fs: opt.FS, opt: opt, tell: tell}
	r.open.maxDecompressed = opt.MaxDecompressedBytes
	err = r.start(place)
	return r.report, err
}

// lockPlace keeps brokers away from what is to be repaired. What lies in a folder
// that is not named like a partition's is in no log folder, and no broker comes
// there.
func lockPlace(fsys vfs.FS, p place, dryRun bool) (unlock func() error, err error) {
	lock := filepath.Join(p.logDir, lockName)
	inUse := func() error {
		return fmt.Errorf("%w%s: %s: stop it first; verify and dump work beside it", ErrLocked, lockHolder(fsys, lock), p.logDir)
	}
	dir := p.path
	if p.segment != nil {
		dir = filepath.Dir(p.path)
	}
	_, _, nameErr := parsePartitionName(filepath.Base(dir))
	if dryRun || (p.partition || p.segment != nil) && nameErr != nil {
		locked, err := fsys.Locked(lock)
		if err == nil && locked {
			err = inUse()
		}
		return func() error { return nil }, err
	}
	held, err := fsys.Lock(lock)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, inUse()
	}
	if err != nil {
		return nil, fmt.Errorf("lock log folder %s: %w", p.logDir, err)
	}
	return held.Close, nil
}

// lockHolder says which process holds a lock, as far as the lock file tells.
func lockHolder(fsys vfs.FS, lock string) string {
	file, err := fsys.Open(lock)
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(file, 0, 20))
	if err := errors.Join(err, file.Close()); err != nil {
		return ""
	}
	pid := strings.TrimSpace(string(b))
	if pid == "" || strings.Trim(pid, "0123456789") != "" {
		return ""
	}
	return " (process " + pid + ")"
}

// repairer is the state of one Repair.
type repairer struct {
	ctx    context.Context
	fs     vfs.FS
	opt    RepairOptions
	tell   func(Mend)
	open   opener
	report RepairReport

	topic     string // of the partition at work
	partition int32
	unsettled map[string]bool // paths of segments that are not to be touched
}

func (r *repairer) start(p place) error {
	switch {
	case p.segment != nil:
		// Alone it may lie in any folder, and so may a folder of segments.
		r.topic, r.partition, _ = parsePartitionName(filepath.Base(filepath.Dir(p.path)))
		files := []segmentFile{*p.segment}
		if marked, err := r.unsynced(files); marked || err != nil {
			return err
		}
		if settled, err := r.settle(files); !settled {
			return err
		}
		return r.damage(*p.segment, isLast(r.fs, *p.segment))
	case p.partition:
		r.topic, r.partition, _ = parsePartitionName(filepath.Base(p.path))
		return r.log(p.path)
	}
	if err := r.logFolder(p); err != nil {
		return err
	}
	for _, name := range p.folders {
		path := filepath.Join(p.path, name)
		var err error
		if r.topic, r.partition, err = parsePartitionName(name); err != nil {
			err = r.left(path, err)
		} else {
			err = r.log(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// found tells of something wrong. do mends it, unless nothing is to be done, and
// returns the file with what was taken out of the log. mended says that it is
// mended, or with DryRun would be; the error is ctx's.
func (r *repairer) found(m Mend, do func() (saved string, err error)) (mended bool, err error) {
	if r.ctx.Err() != nil {
		return false, context.Cause(r.ctx) // what was found may be its doing
	}
	m.Topic, m.Partition = r.topic, r.partition
	if m.Action != "" && !r.opt.DryRun {
		m.Saved, m.Err = do()
	}
	if mended = !m.Left(); mended {
		r.report.Mended++
	} else {
		r.report.Left++
	}
	if r.tell != nil {
		r.tell(m)
	}
	if r.ctx.Err() != nil {
		err = context.Cause(r.ctx)
	}
	return mended, err
}

// left tells of what an operator has to see to.
func (r *repairer) left(path string, problem error) error {
	return r.leave(Mend{Path: path, Problem: problem.Error()})
}

func (r *repairer) leave(m Mend) error {
	_, err := r.found(m, nil)
	return err
}

// logFolder mends what lies in a log folder beside the partitions.
func (r *repairer) logFolder(p place) error {
	for _, name := range p.deleted {
		path := filepath.Join(p.path, name)
		_, err := r.found(Mend{Path: path, Problem: "is left of a deleted topic", Action: "removed"}, func() (string, error) {
			return "", errors.Join(r.fs.RemoveAll(path), r.fs.SyncDir(p.path))
		})
		if err != nil {
			return err
		}
	}
	for _, name := range []string{topicsName, cleanName} {
		if err := r.leftOver(filepath.Join(p.path, name+temporarySuffix)); err != nil {
			return err
		}
	}
	if _, err := readTopics(r.fs, p.path); err != nil {
		return r.leave(Mend{Path: filepath.Join(p.path, topicsName), Problem: err.Error(),
			Advice: "put back a copy, or move it away and create the topics again: until then they have the default number of partitions"})
	}
	return nil
}

// leftOver removes the file of a write that was interrupted before what it was
// to replace was touched.
func (r *repairer) leftOver(path string) error {
	if _, err := r.fs.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := r.found(Mend{Path: path, Problem: "is left of an interrupted write", Action: "removed"}, func() (string, error) {
		return "", errors.Join(r.fs.Remove(path), r.fs.SyncDir(filepath.Dir(path)))
	})
	return err
}

// log mends a partition's folder. What keeps it from being read as a log is
// told, so that the others are mended.
func (r *repairer) log(path string) error {
	if !r.opt.DryRun {
		// What an earlier attempt has made may not be safe yet.
		if err := r.fs.SyncDir(path); err != nil {
			return r.left(path, err)
		}
	}
	files, unfinished, err := listFolder(r.fs, path)
	if err != nil {
		return r.left(path, err)
	}
	if marked, err := r.unsynced(files); marked || err != nil {
		return err
	}
	for _, path := range unfinished {
		if err := r.leftOver(path); err != nil {
			return err
		}
	}
	if settled, err := r.settle(files); !settled {
		return err
	}
	if files, err = r.joints(files); err != nil {
		return err
	}
	for i, f := range files {
		if err := r.damage(f, i == len(files)-1); err != nil {
			return err
		}
	}
	return nil
}

// unsynced reports whether a sync of one of the files has failed. Its log is not
// touched, nor read past the page cache: what that still has of it the next start
// of a broker writes anew, and nobody else can.
func (r *repairer) unsynced(files []segmentFile) (bool, error) {
	for _, f := range files {
		if _, err := r.fs.Stat(f.path + unsyncedSuffix); err == nil {
			return true, r.leave(Mend{Path: f.path, Problem: "a sync of it has failed", Advice: "start a broker, which writes it anew; whatever is wrong then can be repaired"})
		} else if !errors.Is(err, fs.ErrNotExist) {
			return true, r.left(f.path, err)
		}
	}
	return false, nil
}

// settle syncs the files and reports whether that went well: what an earlier
// attempt has cut off may not be safe yet, and nobody sees that it was to be. When
// it fails, what a broker did not flush may be lost, which the page cache hides
// from the next start, but not from the next repair, see examine (fault B04).
func (r *repairer) settle(files []segmentFile) (settled bool, err error) {
	if r.opt.DryRun {
		return true, nil
	}
	for _, f := range files {
		file, err := r.fs.Open(f.path)
		if err != nil {
			return false, r.left(f.path, err)
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return false, r.leave(Mend{Path: f.path, Problem: err.Error(),
				Advice: "repair again before a broker is started: it would take for safe what the disk may not have"})
		}
	}
	return true, nil
}

// joints mends where segments do not join, and returns the files that there are
// then, or with DryRun would be.
func (r *repairer) joints(files []segmentFile) ([]segmentFile, error) {
	for i := 0; i+1 < len(files); {
		before, after := &files[i], files[i+1]
		switch {
		case before.end() == after.base:
			i++
		case before.end() < after.base:
			if err := r.gap(before, after); err != nil {
				return nil, err
			}
			i++
		default:
			taken, err := r.overlap(before, after, i+2 == len(files))
			if err != nil {
				return nil, err
			}
			if taken {
				files = slices.Delete(files, i+1, i+2)
			} else {
				i++
			}
		}
	}
	return files, nil
}

// change opens a segment file for a change that keeps its time, by which
// retention and offsets by time go.
func (r *repairer) change(f segmentFile, do func(vfs.File) error) error {
	info, err := r.fs.Stat(f.path)
	if err != nil {
		return err
	}
	file, err := r.fs.OpenWrite(f.path)
	if err != nil {
		return err
	}
	err = do(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return r.fs.SetTime(f.path, info.ModTime())
}

// cut cuts a segment off at an offset, with a copy of what is behind if that is
// to be saved.
func (r *repairer) cut(f segmentFile, offset int64, save bool) (saved string, err error) {
	position := offset - f.base
	err = r.change(f, func(file vfs.File) (err error) {
		if save {
			if saved, err = saveCut(r.ctx, r.fs, file, f, position); err != nil {
				return err
			}
		}
		return file.Truncate(position)
	})
	return saved, err
}
