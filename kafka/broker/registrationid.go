package broker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"kafkalab/kafka/internal/vfs"
)

// idName is a file in the log folder of a broker that has registered in ZooKeeper:
// the id that it did so with. What groups have committed for its partitions is
// kept under that id, so with another one their offsets would be gone, or be
// those of other messages. (Kafka 0.7 has no such check.) Without ZooKeeper an id
// means nothing, and the file is not looked at.
const idName = "broker.id"

// folderID is that file, and the id that the broker has now.
type folderID struct {
	fs  vfs.FS
	dir string
	id  int32
}

func (g *registration) folderID() folderID {
	return folderID{fs: g.creators.fs, dir: g.creators.dir, id: g.broker.ID}
}

func (f folderID) path() string { return filepath.Join(f.dir, idName) }

// read returns the id in the file; none if there is no file.
func (f folderID) read() (id int32, known bool, err error) {
	file, err := f.fs.Open(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 20))
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, false, fmt.Errorf("read %s: %w", f.path(), err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || n < 0 {
		return 0, false, fmt.Errorf("%s holds %.20q and no broker id: write the right one into it, or remove it", f.path(), text)
	}
	return int32(n), true, nil
}

// check fails if the log folder is that of a broker with another id.
func (f folderID) check() error {
	id, known, err := f.read()
	if err != nil || !known || id == f.id {
		return err
	}
	return fmt.Errorf("log folder %s is that of broker %d, and this is broker %d: give --broker-id %d, or another --log-dir; "+
		"if it is to be broker %d's from now on, remove %s: what groups have committed for its partitions stays with id %d, so they begin anew",
		f.dir, id, f.id, id, f.id, f.path(), id)
}

// keep notes the id, once the broker has registered with it.
func (f folderID) keep() error {
	if id, known, err := f.read(); err == nil && known && id == f.id {
		return nil
	}
	if err := replaceFile(f.fs, f.dir, idName, strconv.Itoa(int(f.id))+"\n"); err != nil {
		return fmt.Errorf("write %s, which says whose log folder it is: %w", f.path(), err)
	}
	return nil
}
