package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// tornLog returns a file system with a log whose last message, of lastSize
// payload bytes, begins at offset begin of the segment with base offset base.
func tornLog(t *testing.T, messages, begin, lastSize int) (fsys *vfs.Mem, base int64, all [][]byte) {
	fsys, _ = newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1 << 20})
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range messages - 1 {
		all = append(all, payload(i, rng.IntN(60)))
	}
	if filler := begin - len(set(all...)) - message.Overhead0; begin > 0 {
		all[len(all)-1] = payload(messages, len(all[len(all)-1])+filler+message.Overhead0)
	}
	all = append(all, payload(messages, lastSize))
	mustAppend(t, l, all[:len(all)-1]...)
	mustAppend(t, l, all[len(all)-1])
	mustFlush(t, l)
	mustClose(t, m)
	if err := fsys.Remove(filepath.Join(testDir, cleanName)); err != nil {
		t.Fatal(err)
	}
	return fsys, 0, all
}

// TestB01TornTail: a crash leaves a message half written. The start cuts it,
// says so, and the log goes on exactly there (fault B01).
func TestB01TornTail(t *testing.T) {
	cases := []struct {
		name     string
		messages int
		begin    int // of the last message; 0: wherever it comes
		lastSize int
	}{
		{"100 messages of mixed size", 100, 0, 50},
		{"across a border of 4,096 bytes", 100, 4096 - 20, 60},
		{"the first of its segment", 1, 0, 40},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys, base, all := tornLog(t, c.messages, c.begin, c.lastSize)
			path := segmentPath(base)
			whole := content(t, fsys, path)
			kept := len(whole) - message.EntrySize(c.lastSize)
			if c.begin > 0 && kept != c.begin {
				t.Fatalf("last message begins at %d", kept)
			}
			for cut := kept + 1; cut < len(whole); cut++ {
				copied := fsys.Clone()
				put(t, copied, path, whole[:cut])
				before, err := Verify(testContext(t), testDir, WalkOptions{FS: copied})
				if err != nil || before.Partitions[0].Segments[0].Damage == nil || before.Partitions[0].Segments[0].Damage.Offset != int64(kept) {
					t.Fatalf("cut at %d: verify says %+v, %v", cut, before, err)
				}
				var logged logBuffer
				m, l := openTopic(t, copied, Config{Logger: logged.logger()})
				wantState(t, l, 0, int64(kept), int64(kept), 1)
				wantContains(t, logged.String(), fmt.Sprintf("offset=%d", kept), fmt.Sprintf("bytes=%d", cut-kept))
				if a := mustAppend(t, l, []byte("next")); a.Base != int64(kept) {
					t.Fatalf("next append went to %d, not %d", a.Base, kept)
				}
				mustFlush(t, l)
				wantPayloads(t, l, append(all[:len(all)-1:len(all)-1], []byte("next"))...)
				saved := content(t, copied, fmt.Sprintf("%s.cut-%d", path, kept))
				if string(saved) != string(whole[kept:cut]) {
					t.Fatalf("cut at %d: %d bytes saved, %d wanted", cut, len(saved), cut-kept)
				}
				mustClose(t, m)
			}
		})
	}
}

// TestB02Zeros: after a crash the tail is zeros, or the newest file is empty or
// nothing but zeros (fault B02).
func TestB02Zeros(t *testing.T) {
	first, second := payload(1, 600), payload(2, 600)
	entry := int64(message.EntrySize(600))
	cases := []struct {
		name   string
		damage func(t *testing.T, dir string)
		keep   [][]byte
		saved  int64 // bytes cut, 0: nothing
		newest int64 // base of the segment that is written to
	}{
		{"4 KiB behind", grow(0, 4<<10), [][]byte{first, second}, 4 << 10, 0},
		{"1 MiB behind", grow(0, 1<<20), [][]byte{first, second}, 1 << 20, 0},
		{"1 GiB, sparse, behind", grow(0, 1<<30), [][]byte{first, second}, 1 << 30, 0},
		{"the last 512 bytes", func(t *testing.T, dir string) {
			overwrite(t, dir, 2*entry-512, make([]byte, 512))
		}, [][]byte{first}, entry, 0},
		{"empty newest segment", grow(2*entry, 0), [][]byte{first, second}, 0, 2 * entry},
		{"newest segment of zeros", grow(2*entry, 8<<10), [][]byte{first, second}, 8 << 10, 2 * entry},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			m, err := Open(testContext(t), dir, Config{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := m.Ensure("t", 0)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, first, second)
			mustClose(t, m)
			if err := os.Remove(filepath.Join(dir, cleanName)); err != nil {
				t.Fatal(err)
			}
			c.damage(t, filepath.Join(dir, "t-0"))

			began := time.Now()
			if m, err = Open(testContext(t), dir, Config{}); err != nil {
				t.Fatal(err)
			}
			defer m.Close(testContext(t))
			t.Logf("start took %v", time.Since(began))
			l = m.Lookup([]byte("t"), 0)
			wantPayloads(t, l, c.keep...)
			end := l.State().LogEnd
			mustAppend(t, l, []byte("next"))
			mustFlush(t, l)
			wantPayloads(t, l, append(c.keep[:len(c.keep):len(c.keep)], []byte("next"))...)
			if size := fileSize(vfs.OS(), filepath.Join(dir, "t-0", segmentName(c.newest))); size != l.State().LogEnd-c.newest {
				t.Errorf("newest segment has %d bytes", size)
			}
			saved := filepath.Join(dir, "t-0", fmt.Sprintf("%s.cut-%d", segmentName(c.newest), end))
			if size := max(fileSize(vfs.OS(), saved), 0); size != c.saved {
				t.Errorf("%d bytes saved, %d wanted", size, c.saved)
			}
			if info, err := os.Stat(saved); err == nil && info.Sys().(*syscall.Stat_t).Blocks > 64 {
				t.Errorf("saved zeros take %d blocks", info.Sys().(*syscall.Stat_t).Blocks)
			}
		})
	}
}

// grow makes a segment of the given base, if it is not there, and adds zeros.
func grow(base, zeros int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		f, err := os.OpenFile(filepath.Join(dir, segmentName(base)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(info.Size() + zeros); err != nil {
			t.Fatal(err)
		}
	}
}

func overwrite(t *testing.T, dir string, position int64, b []byte) {
	f, err := os.OpenFile(filepath.Join(dir, segmentName(0)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, position); err != nil {
		t.Fatal(err)
	}
}

// TestRecoveryCutsAtDamage has a row for each kind of bad message.
func TestRecoveryCutsAtDamage(t *testing.T) {
	good := append(set([]byte("one")), message.Append1(nil, []byte("two"), message.CodecNone)...)
	flip := func(at int, b byte) []byte {
		bad := set([]byte("damaged"), []byte("behind"))
		bad[at] = b
		return bad
	}
	cases := []struct {
		name string
		tail []byte
		kind error
	}{
		{"length 0", flip(3, 0), message.ErrLength},
		{"length 4", flip(3, 4), message.ErrLength},
		{"length -1", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0}, message.ErrLength},
		{"length 2^31-1", []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0}, ErrTorn},
		{"magic 1 with length 5", []byte{0, 0, 0, 5, 1, 0, 0, 0, 0, 0}, message.ErrLength},
		{"magic 2", flip(4, 2), message.ErrMagic},
		{"codec 3", append([]byte{0, 0, 0, 6, 1, 3, 0, 0, 0, 0}, good...), message.ErrCodec},
		{"payload", flip(9, 'D'), message.ErrCRC},
		{"checksum", flip(5, 0x55), message.ErrCRC},
		{"1 byte", []byte{0}, ErrTorn},
		{"3 bytes", []byte{0, 0, 0}, ErrTorn},
		{"length alone", []byte{0, 0, 0, 9}, ErrTorn},
		{"text", []byte("garbage garbage"), ErrTorn},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys, _ := newTestFS()
			put(t, fsys, segmentPath(0), append(good[:len(good):len(good)], c.tail...))
			r, err := Verify(testContext(t), segmentPath(0), WalkOptions{FS: fsys})
			if err != nil || !errors.Is(r.Err(), c.kind) {
				t.Errorf("verify says %v, %v; %v wanted", r.Err(), err, c.kind)
			}
			_, l := openTopic(t, fsys, Config{})
			wantState(t, l, 0, int64(len(good)), int64(len(good)), 1)
			wantPayloads(t, l, []byte("one"), []byte("two"))
			if got := content(t, fsys, fmt.Sprintf("%s.cut-%d", segmentPath(0), len(good))); string(got) != string(c.tail) {
				t.Errorf("saved %x, %x wanted", got, c.tail)
			}
		})
	}
}

// TestRecoveryKeepsCompressed: recovery checks compressed messages as they are
// stored, although producers may not send them yet.
func TestRecoveryKeepsCompressed(t *testing.T) {
	fsys, _ := newTestFS()
	b := message.Append1(nil, []byte("as if compressed"), message.CodecGzip)
	put(t, fsys, segmentPath(0), b)
	_, l := openTopic(t, fsys, Config{})
	wantState(t, l, 0, int64(len(b)), int64(len(b)), 1)
}

// TestRecoveryOfLargeMessages: the scanner's memory does not depend on them.
func TestRecoveryOfLargeMessages(t *testing.T) {
	fsys, _ := newTestFS()
	large := payload(1, 3*scanBytes+17)
	b := set([]byte("a"), large, []byte("b"), large)
	put(t, fsys, segmentPath(0), b[:len(b)-1])
	_, l := openTopic(t, fsys, Config{})
	wantPayloads(t, l, []byte("a"), large, []byte("b"))
}

// TestB07RecoveryLeavesSoundFilesAlone: it must not make old segments look new
// (fault B07).
func TestB07RecoveryLeavesSoundFilesAlone(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1})
	mustAppend(t, l, []byte("a"))
	mustAppend(t, l, []byte("b"))
	mustFlush(t, l)
	killed := fsys.Clone()
	mustClose(t, m)
	c.Advance(24 * time.Hour)
	killed.SetHook(func(op vfs.Op) error {
		// A cut of the last one to its own size clears what is behind it.
		if op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate && op.Path != segmentPath(10) {
			t.Errorf("recovery did %s %s", op.Kind, op.Path)
		}
		return nil
	})
	open(t, killed, Config{})
	killed.SetHook(nil)
	for _, base := range []int64{0, 10} {
		info, err := killed.Stat(segmentPath(base))
		if err != nil || !info.ModTime().Equal(testStart) || info.Size() != 10 {
			t.Errorf("segment %d: %d bytes, time %v, %v", base, info.Size(), info.ModTime(), err)
		}
	}
}

// TestRecoverySyncsBeforeItShows: the recovered end is safe before it becomes
// the watermark. A process that was killed leaves data in the page cache alone.
func TestRecoverySyncsBeforeItShows(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{})
	mustAppend(t, l, []byte("a"), []byte("b"))
	// Opened once more on the same files, as after kill -9.
	again, err := openLog(testContext(t), l.cfg, "t", 0, l.dir, false)
	if err != nil {
		t.Fatal(err)
	}
	wantPayloads(t, again, []byte("a"), []byte("b"))
	crashed := fsys.CrashClone(nil)
	if size := fileSize(crashed, segmentPath(0)); size != again.State().Watermark {
		t.Errorf("%d bytes are safe, watermark %d", size, again.State().Watermark)
	}
	again.end(ErrClosed)
	again.close()
}

// TestRecoveryGivenUp: a start that is called off in the middle of a copy says
// so, and does not take the partition for one that cannot be served.
func TestRecoveryGivenUp(t *testing.T) {
	fsys, _ := newTestFS()
	torn := set([]byte("a"), []byte("b"))
	put(t, fsys, segmentPath(0), torn[:len(torn)-1])
	ctx, cancel := context.WithCancel(testContext(t))
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.Contains(op.Path, cutSuffix) {
			cancel()
		}
		return nil
	})
	if m, err := Open(ctx, testDir, Config{FS: fsys}); !errors.Is(err, context.Canceled) {
		t.Fatalf("open: %v, %v", m, err)
	}
	fsys.SetHook(nil)
	if size := fileSize(fsys, segmentPath(0)); size != int64(len(torn)-1) {
		t.Errorf("%d bytes left", size)
	}
}

// TestB05TooManyOpenFiles: the limit says nothing about the files, whichever of
// them it hits, so none is touched and the start fails as a whole (fault B05).
func TestB05TooManyOpenFiles(t *testing.T) {
	torn := set([]byte("a"), []byte("b"))
	for name, scarce := range map[string]func(vfs.Op) bool{
		"the segment":        func(op vfs.Op) bool { return op.Kind == vfs.OpOpen && op.Path == segmentPath(0) },
		"the copy of a tail": func(op vfs.Op) bool { return op.Kind == vfs.OpCreate && strings.Contains(op.Path, cutSuffix) },
		"its folder":         func(op vfs.Op) bool { return op.Kind == vfs.OpSyncDir && op.Path == filepath.Dir(segmentPath(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, _ := newTestFS()
			put(t, fsys, segmentPath(0), torn[:len(torn)-1])
			fsys.SetHook(func(op vfs.Op) error {
				if scarce(op) {
					return syscall.EMFILE
				}
				return nil
			})
			_, err := Open(testContext(t), testDir, Config{FS: fsys})
			if !errors.Is(err, syscall.EMFILE) {
				t.Fatalf("open: %v", err)
			}
			fsys.SetHook(nil)
			if size := fileSize(fsys, segmentPath(0)); size != int64(len(torn)-1) {
				t.Errorf("%d bytes left", size)
			}
			open(t, fsys, Config{}) // the lock was given up, and all is well now
		})
	}
}
