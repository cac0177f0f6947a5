package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// TestFilesOfAnother: a partition whose files may not be opened, or that the start
// cannot make complete for lack of room, is out of service. The others are served,
// and so is that one once its files are put right.
func TestFilesOfAnother(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  vfs.OpKind
		cause error
		empty bool // the partition has no segment yet
	}{
		{"segment", vfs.OpOpen, syscall.EACCES, false},
		{"immutable segment", vfs.OpOpen, syscall.EPERM, false},
		{"no room for the first segment", vfs.OpCreate, syscall.ENOSPC, true},
		{"quota", vfs.OpCreate, syscall.EDQUOT, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, manual := newTestFS()
			fine, hidden := filepath.Join(testDir, "fine-0"), filepath.Join(testDir, "hidden-0")
			put(t, fsys, filepath.Join(fine, segmentName(0)), set([]byte("a")))
			end := int64(0)
			if c.empty {
				if err := fsys.Mkdir(hidden); err != nil {
					t.Fatal(err)
				}
			} else {
				put(t, fsys, filepath.Join(hidden, segmentName(0)), set([]byte("b")))
				end = 10
			}
			fsys.SetHook(func(op vfs.Op) error {
				if op.Kind == c.kind && filepath.Dir(op.Path) == hidden {
					return c.cause
				}
				return nil
			})
			m := open(t, fsys, Config{Clock: manual})
			if p := payloads(t, m.Lookup([]byte("fine"), 0)); len(p) != 1 || string(p[0]) != "a" {
				t.Errorf("the other partition has %q", p)
			}
			l := m.Lookup([]byte("hidden"), 0)
			if l == nil {
				t.Fatal("the partition is not there")
			}
			if err := l.OutOfService(); !errors.Is(err, c.cause) {
				t.Fatalf("out of service because of %v", err)
			}
			if _, err := l.Append(set([]byte("c")), 1); !errors.Is(err, ErrOutOfService) {
				t.Errorf("append: %v", err)
			}
			fsys.SetHook(nil)
			eventually(t, "the partition is served", func() bool {
				manual.Advance(time.Second)
				return l.OutOfService() == nil
			})
			if a := mustAppend(t, l, []byte("c")); a.Base != end {
				t.Errorf("the next message has offset %d, want %d", a.Base, end)
			}
			mustClose(t, m)
		})
	}
}

// notTheOwner is a file system that lets nobody set times: files that belong to
// somebody else can be written to, but not that.
type notTheOwner struct{ vfs.FS }

func (notTheOwner) SetTime(name string, _ time.Time) error {
	return &fs.PathError{Op: "chtimes", Path: name, Err: syscall.EPERM}
}

// TestTimesOfAnother: that the time of a segment cannot be kept is no failed
// flush, after which all of it would be written anew, and no reason not to start.
func TestTimesOfAnother(t *testing.T) {
	fsys, _ := newTestFS()
	sound, twice := filepath.Join(testDir, "sound-0"), filepath.Join(testDir, "twice-0")
	put(t, fsys, filepath.Join(sound, segmentName(0)), set([]byte("a")))
	put(t, fsys, filepath.Join(twice, segmentName(0)), set([]byte("a"), []byte("b")))
	put(t, fsys, filepath.Join(twice, segmentName(10)), set([]byte("b"), []byte("c")))
	written := map[string]bool{}
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate {
			written[op.Path] = true
		}
		return nil
	})
	m := open(t, notTheOwner{fsys}, Config{})
	fsys.SetHook(nil)
	for _, l := range m.Logs() {
		if err := l.OutOfService(); err != nil {
			t.Error(err)
		}
	}
	for path := range written {
		if filepath.Dir(path) != testDir {
			t.Errorf("%s was made", path)
		}
	}
	wantState(t, m.Lookup([]byte("sound"), 0), 0, 10, 10, 1)
	wantState(t, m.Lookup([]byte("twice"), 0), 0, 30, 30, 2)
	mustClose(t, m)
}
