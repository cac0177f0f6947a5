package zkserver

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"kafkalab/kafka/internal/vfs"
)

// checkForeign fails if a folder is the log folder of a broker, as its own files
// show, or segments in the folders of partitions.
func checkForeign(fsys vfs.FS, dir string) error {
	if info, err := fsys.Stat(dir); err != nil || !info.IsDir() {
		return nil // none yet, or not to be had, which who makes it finds out
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		found := ""
		switch name := e.Name(); {
		case e.IsDir():
			if found, err = segmentIn(fsys, filepath.Join(dir, name)); err != nil {
				return err
			}
		case name == ".lock" || name == ".kafka_cleanshutdown" || name == "broker.creator" || name == "broker.id":
			found = name
		}
		if found != "" {
			return fmt.Errorf("it is the log folder of a broker, as %s in it shows: give this one a folder of its own", found)
		}
	}
	return nil
}

// segmentIn returns the name of a segment in a folder, with the folder's; "" if
// there is none. One that cannot be read is not a broker's of this user.
func segmentIn(fsys vfs.FS, dir string) (string, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".kafka") {
			return filepath.Join(filepath.Base(dir), e.Name()), nil
		}
	}
	return "", nil
}
