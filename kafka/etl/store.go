package etl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"kafkalab/kafka/internal/vfs"
)

// store is the file system of an output folder. Names are those below the folder,
// with slashes; "" is the folder itself.
type store interface {
	// url returns how a user, and Hadoop, names a file or folder.
	url(name string) string
	// tree returns the files below a folder with their lengths in bytes, by name; none
	// if it is missing.
	tree(ctx context.Context, folder string) (map[string]int64, error)
	// folders returns the names of the folders in a folder; none if it is missing.
	folders(ctx context.Context, folder string) ([]string, error)
	// lengths returns the lengths in bytes of those of the files that are there.
	lengths(ctx context.Context, names []string) (map[string]int64, error)
	// read returns the content of files, one after the other, limit bytes at most in
	// all. One that is missing is an [errMissing].
	read(ctx context.Context, limit int64, names ...string) ([]byte, error)
	// write makes files in a folder, which it makes when missing. They are safe from a
	// crash when it returns.
	write(ctx context.Context, folder string, files ...content) error
	// settle makes safe what others have done in a folder: the names in it, and in all
	// that is below it.
	settle(ctx context.Context, folder string) error
	// publish gives a folder another name in one step, which is safe when it returns.
	// It fails, or makes a folder within, when the name is taken: who wants to be sure
	// looks at what is there then.
	publish(ctx context.Context, from, to string) error
	// move gives files new names, in folders that it makes when missing. The new names
	// are safe only after keep.
	move(ctx context.Context, moves []move) error
	// keep makes the names in folders safe, and theirs. One that is missing is no error.
	keep(ctx context.Context, folders []string) error
	// remove removes folders with all that is in them. A missing one is no error.
	remove(ctx context.Context, folders ...string) error
	// lock keeps others from working in the folder until the result is closed, or
	// returns [ErrBusy]. On HDFS it does nothing: runs that overlap are right there
	// too, and only waste work.
	lock() (io.Closer, error)
	// checkTopic reports why a topic's name cannot be that of a folder here, or nil.
	checkTopic(topic string) error
}

// content is a small file.
type content struct {
	name string
	data []byte
}

// move is a file and its new name.
type move struct{ from, to string }

// errMissing is the error of a file that is not there.
var errMissing = errors.New("no such file")

// ErrBusy says that somebody else works in the output folder.
var ErrBusy = errors.New("another load is at work in this output folder: wait for it, or give this one a folder of its own")

// openStore returns the store of an output folder: a path, a file: URL, or an hdfs:
// URL.
func openStore(out string) (store, error) {
	scheme, _, hasScheme := strings.Cut(out, "://")
	switch {
	case out == "":
		return nil, errors.New("no output folder is given")
	case hasScheme && scheme == "hdfs":
		return newHDFS(out)
	case hasScheme && scheme != "file":
		return nil, fmt.Errorf("output folder %q: give a path, or hdfs://HOST:PORT/PATH", out)
	}
	root, err := localPath(out)
	if err != nil {
		return nil, err
	}
	return newLocal(vfs.OS(), root), nil
}

// localPath returns the absolute path of a folder that is named by a path or, as
// Hadoop does, by a file: URL.
func localPath(out string) (string, error) {
	if strings.HasPrefix(out, "file:") {
		u, err := url.Parse(out)
		if err != nil || u.Path == "" || u.Host != "" {
			return "", fmt.Errorf("%q is not a URL such as file:///path", out)
		}
		out = u.Path
	}
	return filepath.Abs(out)
}

// isHDFS reports whether a folder is one of HDFS.
func isHDFS(folder string) bool { return strings.HasPrefix(folder, "hdfs://") }
