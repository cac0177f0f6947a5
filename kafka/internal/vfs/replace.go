package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// temporarySuffix ends the name of a file that is being written to replace another.
const temporarySuffix = ".tmp"

// ReplaceFile gives a file new content, which is made if it is missing: parts, one behind
// the other. A crash leaves the old content or the new: it is written under another name,
// which ends in ".tmp", synced, and given the name in one step. One caller at a time may
// replace a file.
func ReplaceFile(fsys FS, name string, parts ...[]byte) error {
	temporary := name + temporarySuffix
	if err := fsys.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := fsys.Create(temporary)
	if err != nil {
		return err
	}
	var end int64
	for _, part := range parts {
		if err == nil {
			_, err = file.WriteAt(part, end)
			end += int64(len(part))
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fsys.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(temporary))
	}
	return fsys.SyncDir(filepath.Dir(name))
}
