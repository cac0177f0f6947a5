package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestFolderOfZooKeeper: the data folder of a ZooKeeper is no log folder, and
// nothing is made in it. What only has such a name is none.
func TestFolderOfZooKeeper(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		refused       bool
	}{
		"kafka zookeeper, log":      {"log.0000000000000001", "zktlog\x00\x01…", true},
		"kafka zookeeper, snapshot": {"snapshot.0000000000000001", "zksnap\x00\x01…", true},
		"kafka zookeeper, fresh":    {"lock", "123\n", true},
		"ZooKeeper, log":            {"version-2/log.1", "ZKLG\x00\x00\x00\x02", true},
		"ZooKeeper, snapshot":       {"version-2/snapshot.0", "ZKSN\x00\x00\x00\x02", true},
		"a text":                    {"log.1", "some text", false},
		"an empty one":              {"log.1", "", false},
		"a topic version":           {"version-2/" + segmentName(0), string(set([]byte("m"))), false},
	} {
		fsys, _ := newTestFS()
		put(t, fsys, filepath.Join(testDir, test.file), []byte(test.content))
		m, err := Open(testContext(t), testDir, Config{FS: fsys})
		if (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			mustClose(t, m)
			continue
		}
		wantContains(t, err.Error(), "data folder of a ZooKeeper", "give this one a folder of its own", filepath.Join(testDir, test.file))
		if _, err := fsys.Stat(filepath.Join(testDir, lockName)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a lock was made: %v", name, err)
		}
	}
}
