package zkserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kafkalab/kafka/internal/vfs"
)

// Names in the data folder. The number behind a prefix, 16 hexadecimal digits,
// is that of a snapshot's last transaction, or of a log file's first one.
const (
	snapshotPrefix = "snapshot."
	logPrefix      = "log."
	temporaryName  = "snapshot.tmp"
	lockName       = "lock"
)

// keptSnapshots is how many snapshots are kept, with the log since the oldest,
// in case the newest is damaged. ZooKeeper's number.
const keptSnapshots = 3

// store is a server's data folder. One goroutine may use it at a time, but for
// writeSnapshot, which may run beside the others.
type store struct {
	fs   vfs.FS
	dir  string
	lock io.Closer
	log  *txnLog // nil until there is a transaction to write
	logN int     // log files since the newest snapshot
	err  error   // of the first write that failed; nothing is written after it (fault B04)
	logs *slog.Logger
}

// openStore opens a data folder, makes it if it is missing, and returns what it
// holds.
func openStore(fsys vfs.FS, dir string, logger *slog.Logger) (_ *store, _ *state, err error) {
	if err := checkForeign(fsys, dir); err != nil {
		return nil, nil, fmt.Errorf("data folder %s: %w", dir, err)
	}
	if err := makeFolder(fsys, dir); err != nil {
		return nil, nil, fmt.Errorf("data folder %s: %w", dir, err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, nil, fmt.Errorf("data folder %s is in use by another server", dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("data folder %s: %w", dir, err)
	}
	s := &store{fs: fsys, dir: dir, lock: lock, logs: logger}
	st, err := s.recover()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("data folder %s: %w", dir, err), lock.Close())
	}
	return s, st, nil
}

func makeFolder(fsys vfs.FS, dir string) error {
	if info, err := fsys.Stat(dir); err == nil {
		if !info.IsDir() {
			return errors.New("it is a file")
		}
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeFolder(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(filepath.Dir(dir))
}

// numbered is a file of the folder with a number in its name.
type numbered struct {
	name string
	zxid int64
}

// list returns the files of the folder with the prefix, by number.
func (s *store) list(prefix string) ([]numbered, error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var out []numbered
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.ParseInt(digits, 16, 64); ok && err == nil && len(digits) == 16 {
			out = append(out, numbered{filepath.Join(s.dir, e.Name()), n})
		}
	}
	return out, nil // ReadDir sorts, and so many digits sort as numbers do
}

func (s *store) fileName(prefix string, zxid int64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%016x", prefix, zxid))
}

// recover returns the state of the newest snapshot that is good and of the log
// since, whose torn end it cuts off.
func (s *store) recover() (*state, error) {
	st, damaged, err := s.newestSnapshot()
	if err != nil {
		return nil, err
	}
	files, err := s.list(logPrefix)
	if err != nil {
		return nil, err
	}
	base := st.tree.zxid
	for i, file := range files {
		last := i == len(files)-1
		if !last && files[i+1].zxid <= base+1 {
			continue // all of it is in the snapshot
		}
		if err := s.replay(st, file, base, last); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file.name), err)
		}
		s.logN++
	}
	// A state that ends before a snapshot that was once good has lost something.
	if damaged > st.tree.zxid {
		return nil, fmt.Errorf("%s%016x is damaged, and the log ends before it, at %#x: restore the folder, or remove that file to go on without what is missing",
			snapshotPrefix, damaged, st.tree.zxid)
	}
	return st, nil
}

// newestSnapshot returns the state of the newest snapshot that is good, and the
// number of the newest that is not.
func (s *store) newestSnapshot() (st *state, damaged int64, err error) {
	files, err := s.list(snapshotPrefix)
	if err != nil {
		return nil, 0, err
	}
	for _, file := range slices.Backward(files) {
		b, err := vfs.ReadFile(s.fs, file.name)
		if err != nil {
			return nil, 0, err
		}
		st, err := decodeSnapshot(b)
		if err == nil && st.tree.zxid != file.zxid {
			err = fmt.Errorf("it holds transactions up to %#x: %w", st.tree.zxid, errDamaged)
		}
		if err == nil {
			return st, damaged, nil
		}
		s.logs.Error("snapshot cannot be used, trying an older one with the log since", "file", file.name, "error", err)
		damaged = max(damaged, file.zxid)
	}
	return newState(), damaged, nil
}

// replay applies what a log file holds behind base. The last file may have a
// torn end, which is cut off: a file is complete and safe before the next one
// is made.
func (s *store) replay(st *state, file numbered, base int64, last bool) (err error) {
	f, err := s.fs.OpenWrite(file.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	next := file.zxid
	good, err := readLog(f, info.Size(), func(t *txn) error {
		if t.zxid != next {
			return fmt.Errorf("transaction %#x where %#x should be: %w", t.zxid, next, errDamaged)
		}
		next++
		if t.zxid <= base {
			return nil
		}
		return st.replay(t)
	})
	torn := errors.Is(err, errTorn)
	switch {
	case err != nil && !torn:
		return err
	case torn && !last:
		return fmt.Errorf("position %d is unreadable, and a newer log file exists: %w", good, errDamaged)
	case torn:
		s.logs.Warn("end of the transaction log cut off; no client was told of it", "file", file.name, "bytes", info.Size()-good, "at", good)
	}
	switch {
	case next == file.zxid:
		// Nothing in it: the next transaction has the same number, and the name.
		if err := s.fs.Remove(file.name); err != nil {
			return err
		}
		return s.fs.SyncDir(s.dir)
	case torn:
		if err := f.Truncate(good); err != nil {
			return err
		}
		return f.Sync()
	}
	return nil
}

// append adds a transaction to those that the next flush writes.
func (s *store) append(t *txn) {
	if s.log == nil && s.err == nil {
		if s.log, s.err = createLog(s.fs, s.dir, s.fileName(logPrefix, t.zxid)); s.err != nil {
			s.err = fmt.Errorf("new log file: %w", s.err)
		}
		s.logN++
	}
	if s.err == nil {
		s.log.append(t)
	}
}

// flush returns when all that was appended is on the disk. Once it has failed
// it fails for ever.
func (s *store) flush() error {
	if s.err == nil && s.log != nil {
		s.err = s.log.flush()
	}
	return s.err
}

// maxLogFiles is how many log files there may be since the newest snapshot. Each
// start of the server makes one.
const maxLogFiles = 10

// due reports whether it is time for a snapshot.
func (s *store) due(txns, bytes int64) bool {
	return s.log != nil && (s.log.txns >= txns || s.log.safe >= bytes || s.logN >= maxLogFiles)
}

// roll ends the log file, all of which must be flushed. A snapshot is to follow,
// or the end.
func (s *store) roll() error {
	s.logN = 0
	if s.log == nil {
		return nil
	}
	l := s.log
	s.log = nil
	return l.file.Close()
}

// writeSnapshot writes the snapshot with the number zxid, and removes what is
// not needed any more.
func (s *store) writeSnapshot(zxid int64, content []byte) error {
	temporary := filepath.Join(s.dir, temporaryName)
	if err := s.fs.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.fs.Create(temporary)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.fs.Rename(temporary, s.fileName(snapshotPrefix, zxid)); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	return s.removeOld()
}

// removeOld removes all but the newest snapshots, and the log files with nothing
// that is not in the oldest of them.
func (s *store) removeOld() error {
	snapshots, err := s.list(snapshotPrefix)
	if err != nil || len(snapshots) < keptSnapshots {
		return err
	}
	kept := len(snapshots) - keptSnapshots
	var errs []error
	for _, file := range snapshots[:kept] {
		errs = append(errs, s.fs.Remove(file.name))
	}
	logs, err := s.list(logPrefix)
	errs = append(errs, err)
	for i := range logs {
		if i+1 < len(logs) && logs[i+1].zxid <= snapshots[kept].zxid+1 {
			errs = append(errs, s.fs.Remove(logs[i].name))
		}
	}
	return errors.Join(append(errs, s.fs.SyncDir(s.dir))...)
}

// close flushes and unlocks the folder.
func (s *store) close() error {
	return errors.Join(s.flush(), s.roll(), s.lock.Close())
}
