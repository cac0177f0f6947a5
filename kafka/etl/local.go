package etl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"kafkalab/kafka/internal/vfs"
)

// local is a folder of a local file system. A folder in which a name was made is
// synced before anything relies on the name.
type local struct {
	fs   vfs.FS
	root string

	mu sync.Mutex
	// safe are the folders whose own names are known to be safe. That a folder is
	// there does not say so: whoever made it may have been killed before the sync.
	safe map[string]bool
}

func newLocal(fsys vfs.FS, root string) *local {
	return &local{fs: fsys, root: root, safe: map[string]bool{}}
}

func (l *local) path(name string) string { return filepath.Join(l.root, filepath.FromSlash(name)) }

func (l *local) url(name string) string { return l.path(name) }

func (l *local) checkTopic(topic string) error { return CheckTopic(topic) }

// missing turns the error of what is not there into nil.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (l *local) tree(ctx context.Context, folder string) (map[string]int64, error) {
	files := map[string]int64{}
	err := l.walk(ctx, folder, func(string) error { return nil }, func(name string, e fs.DirEntry) error {
		info, err := e.Info()
		if err != nil {
			return missing(err) // removed since it was listed
		}
		files[name] = info.Size()
		return nil
	})
	return files, err
}

// walk calls back for a folder and all folders below it, each before what is in it,
// and for all files.
func (l *local) walk(ctx context.Context, folder string, onFolder func(name string) error, onFile func(name string, e fs.DirEntry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := l.fs.ReadDir(l.path(folder))
	if err != nil {
		return missing(err)
	}
	if err := onFolder(folder); err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if e.IsDir() {
			err = l.walk(ctx, name, onFolder, onFile)
		} else {
			err = onFile(name, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *local) folders(_ context.Context, folder string) ([]string, error) {
	entries, err := l.fs.ReadDir(l.path(folder))
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, missing(err)
}

func (l *local) lengths(_ context.Context, names []string) (map[string]int64, error) {
	lengths := map[string]int64{}
	for _, name := range names {
		info, err := l.fs.Stat(l.path(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !info.IsDir():
			lengths[name] = info.Size()
		}
	}
	return lengths, nil
}

func (l *local) read(_ context.Context, limit int64, names ...string) ([]byte, error) {
	var all []byte
	for _, name := range names {
		b, err := l.readOne(l.path(name), limit-int64(len(all)))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", errMissing, err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return all, nil
}

func (l *local) readOne(name string, limit int64) ([]byte, error) {
	info, err := l.fs.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes: at most %d are read", name, info.Size(), limit)
	}
	return vfs.ReadFile(l.fs, name)
}

func (l *local) write(_ context.Context, folder string, files ...content) error {
	if err := l.mkdirAll(folder); err != nil {
		return err
	}
	for _, c := range files {
		name := l.path(path.Join(folder, c.name))
		// What a dead process has begun under this name is worth nothing.
		if err := l.fs.Remove(name); missing(err) != nil {
			return err
		}
		if err := writeFile(l.fs, name, c.data); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.path(folder))
}

// writeFile makes a file that is safe when it returns, but for its name.
func writeFile(fsys vfs.FS, name string, data []byte) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Sync()
}

// mkdirAll makes a folder and those above it, and makes their names safe.
func (l *local) mkdirAll(folder string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mkdir(l.path(folder))
}

// mkdir makes an absolute path. The caller holds l.mu.
func (l *local) mkdir(name string) error {
	parent := filepath.Dir(name)
	if l.safe[name] || parent == name {
		return nil
	}
	// Above the output folder it is enough that there is a folder: that one is its
	// user's.
	if info, err := l.fs.Stat(name); err == nil && info.IsDir() && len(name) < len(l.root) {
		return nil
	}
	if err := l.mkdir(parent); err != nil {
		return err
	}
	if err := l.fs.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Of the folder above the output, which is its user's, nothing more can be asked.
	if err := l.fs.SyncDir(parent); err != nil && !(name == l.root && errors.Is(err, fs.ErrPermission)) {
		return err
	}
	l.safe[name] = true
	return nil
}

func (l *local) settle(ctx context.Context, folder string) error {
	if err := l.mkdirAll(folder); err != nil {
		return err
	}
	return l.walk(ctx, folder, func(name string) error {
		return l.fs.SyncDir(l.path(name))
	}, func(string, fs.DirEntry) error { return nil })
}

func (l *local) publish(_ context.Context, from, to string) error {
	if err := l.mkdirAll(path.Dir(to)); err != nil {
		return err
	}
	if err := l.fs.Rename(l.path(from), l.path(to)); err != nil {
		return err
	}
	l.forget(from)
	// The new name first: a crash in between leaves the folder with both or one.
	if err := l.fs.SyncDir(l.path(path.Dir(to))); err != nil {
		return err
	}
	return l.fs.SyncDir(l.path(path.Dir(from)))
}

// forget forgets what was known of a folder that is gone, and of those below it.
func (l *local) forget(folder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.path(folder)
	for name := range l.safe {
		if name == gone || len(name) > len(gone) && name[:len(gone)+1] == gone+string(filepath.Separator) {
			delete(l.safe, name)
		}
	}
}

func (l *local) move(ctx context.Context, moves []move) error {
	for _, m := range moves {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.moveOne(m)
		if errors.Is(err, fs.ErrNotExist) {
			// Who uses the output may have removed the folder since it was made.
			topic, _, _ := strings.Cut(m.to, "/")
			l.forget(topic)
			err = l.moveOne(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *local) moveOne(m move) error {
	if err := l.mkdirAll(path.Dir(m.to)); err != nil {
		return err
	}
	return l.fs.Rename(l.path(m.from), l.path(m.to))
}

// keep leaves the folders alone from which files came: that an old name comes back in a
// crash is no harm.
func (l *local) keep(_ context.Context, folders []string) error {
	for _, folder := range folders {
		if _, err := l.fs.Stat(l.path(folder)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := l.mkdirAll(folder); err != nil {
			return err
		}
		if err := l.fs.SyncDir(l.path(folder)); err != nil {
			return err
		}
	}
	return nil
}

func (l *local) remove(_ context.Context, folders ...string) error {
	var errs []error
	for _, folder := range folders {
		l.forget(folder)
		errs = append(errs, l.fs.RemoveAll(l.path(folder)))
	}
	return errors.Join(errs...)
}

func (l *local) lock() (io.Closer, error) {
	// Nothing is known for sure of a folder that others may have worked in, or removed.
	l.forget("")
	if err := l.mkdirAll(bookkeeping); err != nil {
		return nil, err
	}
	lock, err := l.fs.Lock(l.path(lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", l.root, ErrBusy)
	}
	return lock, err
}
