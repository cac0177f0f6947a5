package broker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"kafkalab/kafka/internal/vfs"
)

// The creator file holds the creators of this broker's registrations in ZooKeeper,
// a line each, the latest last. With it a broker that was killed and started again
// knows the node of its last session, which may live on for a while, from that of
// a foreign broker with the same id (fault B14). Whoever has the log folder is the
// broker: only one process can have it. (A copy of a log folder that is started
// beside the original takes its registration away; the original then says, as not
// ready, by whom.)
const (
	creatorName     = "broker.creator"
	temporarySuffix = ".tmp"
	// maxCreators bounds how many are remembered. Only registrations that came to
	// nothing leave more than one.
	maxCreators     = 100
	maxCreatorBytes = maxCreators * 512
)

// creatorFile is that file, and what it holds. One goroutine may use it at a time.
type creatorFile struct {
	fs       vfs.FS
	dir      string
	creators []string
}

func (c *creatorFile) path() string { return filepath.Join(c.dir, creatorName) }

// load reads the file, if there is one. A last line that is cut off is as good as
// any other: it matches no node.
func (c *creatorFile) load() error {
	file, err := c.fs.Open(c.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxCreatorBytes+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read %s: %w", c.path(), err)
	}
	if len(text) > maxCreatorBytes {
		return fmt.Errorf("%s is no list of this broker's registrations, as it is too long: remove it", c.path())
	}
	c.creators = strings.Fields(string(text))
	return nil
}

// add appends a creator, safe from a crash.
func (c *creatorFile) add(creator string) error {
	creators := append(slices.Clone(c.creators), creator)
	return c.replace(creators[max(len(creators)-maxCreators, 0):])
}

// keepOnly forgets all creators but one.
func (c *creatorFile) keepOnly(creator string) error {
	if len(c.creators) == 1 && c.creators[0] == creator {
		return nil
	}
	return c.replace([]string{creator})
}

// last returns the creator of the last registration, "" if there was none.
func (c *creatorFile) last() string {
	if len(c.creators) == 0 {
		return ""
	}
	return c.creators[len(c.creators)-1]
}

// replace gives the file new content.
func (c *creatorFile) replace(creators []string) error {
	if err := replaceFile(c.fs, c.dir, creatorName, strings.Join(creators, "\n")+"\n"); err != nil {
		return fmt.Errorf("write %s, which tells this broker's registration from that of others: %w", c.path(), err)
	}
	c.creators = creators
	return nil
}

// replaceFile gives a file of the log folder new content. A crash leaves the old
// one or the new one.
func replaceFile(files vfs.FS, dir, name, text string) error {
	temporary := filepath.Join(dir, name+temporarySuffix)
	if err := files.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := files.Create(temporary)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt([]byte(text), 0); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = files.Rename(temporary, filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, files.Remove(temporary))
	}
	return files.SyncDir(dir)
}
