package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"kafkalab/kafka/internal/vfs"
)

// checkForeign fails if a folder is that of a ZooKeeper: with one folder for both,
// what is done to the one is done to the other, and ZooKeeper's own subfolder
// version-2 would pass for a partition.
func checkForeign(fsys vfs.FS, dir string) error {
	if info, err := fsys.Stat(dir); err != nil || !info.IsDir() {
		return nil // none yet, or not to be had, which who makes it finds out
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	file, err := zooKeeperFile(fsys, dir, entries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if file == "" && e.IsDir() && e.Name() == "version-2" {
			sub := filepath.Join(dir, e.Name())
			inside, err := fsys.ReadDir(sub)
			if err != nil {
				return err
			}
			if file, err = zooKeeperFile(fsys, sub, inside); err != nil {
				return err
			}
		}
	}
	// A server that has had no transaction yet has nothing but its lock.
	if file == "" && len(entries) == 1 && entries[0].Name() == "lock" && !entries[0].IsDir() {
		file = filepath.Join(dir, "lock")
	}
	if file == "" {
		return nil
	}
	return fmt.Errorf("it is the data folder of a ZooKeeper, as %s shows: give this one a folder of its own", file)
}

// zooKeeperFile returns the path of one of the entries that is a snapshot or a
// transaction log of a ZooKeeper, by name and first bytes; "" if none is.
func zooKeeperFile(fsys vfs.FS, dir string, entries []fs.DirEntry) (string, error) {
	for _, e := range entries {
		if e.IsDir() || !strings.HasPrefix(e.Name(), "log.") && !strings.HasPrefix(e.Name(), "snapshot.") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		file, err := fsys.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(io.NewSectionReader(file, 0, 4))
		if err := errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		switch string(b) {
		case "ZKLG", "ZKSN", "zktl", "zksn": // ZooKeeper's own, and those of kafka zookeeper
			return path, nil
		}
	}
	return "", nil
}
