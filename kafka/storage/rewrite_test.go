package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// failSync lets the next flush of a log fail.
func failSync(t testing.TB, fsys *vfs.Mem, l *Log) {
	t.Helper()
	fsys.SetHook(vfs.FailNth(vfs.OpSync, 1, syscall.EIO))
	defer fsys.SetHook(nil)
	if err := l.Flush(testContext(t)); !errors.Is(err, ErrOutOfService) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("flush: %v", err)
	}
}

// failedLog returns a log whose last flush has failed: with flushed the messages
// before it are safe, and so the segment goes on, else all of it is suspect.
func failedLog(t testing.TB, cfg Config, flushed bool) (*vfs.Mem, *Manager, *Log, [][]byte) {
	t.Helper()
	fsys, c := newTestFS()
	cfg.noRestorer = true
	if cfg.Clock == nil {
		cfg.Clock = c
	}
	m, l := openTopic(t, fsys, cfg)
	var all [][]byte
	if flushed {
		all = append(all, payload(1, 700), payload(2, 20))
		mustAppend(t, l, all...)
		mustFlush(t, l)
	}
	for i := range 3 {
		all = append(all, payload(10+i, 600))
		mustAppend(t, l, all[len(all)-1])
	}
	failSync(t, fsys, l)
	return fsys, m, l, all
}

// folderNames returns the names of what is in the folder of partition 0 of topic
// t.
func folderNames(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	entries, err := fsys.ReadDir(filepath.Join(testDir, "t-0"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestB04FailedSync: what a failed sync has dropped never becomes visible because
// a later one succeeds; the partition is out of service and says so, and the rest
// goes on (fault B04).
func TestB04FailedSync(t *testing.T) {
	fsys, c := newTestFS()
	var logged logBuffer
	m := open(t, fsys, Config{SegmentBytes: 50, Logger: logged.logger(), Clock: c, noRestorer: true})
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := m.Ensure("other", 0)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, []byte("safe"))
	mustFlush(t, l)
	a := mustAppend(t, l, payload(1, 60))
	woken := make(chan struct{}, 1)
	defer l.Watch(woken)()

	fsys.SetHook(vfs.FailNth(vfs.OpSync, 1, syscall.EIO))
	if err := l.WaitFlushed(testContext(t), a.Next); !errors.Is(err, ErrOutOfService) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("flush: %v", err)
	}
	<-woken
	for what, try := range map[string]func() error{
		"flush":              func() error { return l.Flush(testContext(t)) },
		"append and roll":    func() error { _, err := l.Append(set([]byte("x")), 1); return err },
		"the log's error":    l.Err,
		"why out of service": l.OutOfService,
		"wait for a flush":   func() error { return l.WaitFlushed(testContext(t), a.Next) },
		"wait for an append": func() error { return l.WaitAppended(testContext(t), a) },
	} {
		if err := try(); !errors.Is(err, ErrOutOfService) {
			t.Errorf("%s: %v", what, err)
		}
	}
	m.flushDirty(testContext(t), 0) // what the timer does
	wantState(t, l, 0, 13, a.Next, 1)
	wantPayloads(t, l, []byte("safe"))
	wantContains(t, logged.String(), "partition out of service", "topic=t", "partition=0", "flushed=13", "log_end=82", "input/output error")
	if n := strings.Count(logged.String(), "out of service"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	mustAppend(t, other, []byte("goes on"))
	mustFlush(t, other)
	wantPayloads(t, other, []byte("goes on"))

	crashed := fsys.CrashClone(nil)
	m2, l2 := openTopic(t, crashed, Config{noRestorer: true})
	mustRestore(t, m2)
	wantPayloads(t, l2, []byte("safe"))

	mustRestore(t, m)
	<-woken
	wantState(t, l, 0, a.Next, a.Next, 2)
	wantPayloads(t, l, []byte("safe"), payload(1, 60))
	wantContains(t, logged.String(), "partition back in service", "rewritten_from=13", "log_end=82", "read_back_from_disk=true")
	if err := l.WaitAppended(testContext(t), a); err != nil {
		t.Errorf("after the rewriting: %v", err)
	}
	if got, want := folderNames(t, fsys), segmentName(0)+" "+segmentName(13); got != want {
		t.Errorf("the folder has %s", got)
	}
	b := mustAppend(t, l, []byte("and on"))
	mustFlush(t, l)
	if b.Base != a.Next {
		t.Errorf("next append went to %d, not %d", b.Base, a.Next)
	}
	_, l2 = openTopic(t, fsys.CrashClone(nil), Config{})
	wantPayloads(t, l2, []byte("safe"), payload(1, 60), []byte("and on"))
	mustClose(t, m)
}

// TestB04CloseOutOfService: what is not safe at the end is said, and the next
// start does not take the stop for a clean one.
func TestB04CloseOutOfService(t *testing.T) {
	fsys, m, _, all := failedLog(t, Config{}, true)
	if err := m.Close(testContext(t)); !errors.Is(err, ErrOutOfService) {
		t.Errorf("close: %v", err)
	}
	if fileSize(fsys, testDir+"/"+cleanName) >= 0 {
		t.Error("marked as cleanly stopped")
	}
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	mustRestore(t, m)
	wantPayloads(t, l, all...)
}

// TestB04KilledAfterFailedSync: the next process finds the messages in the page
// cache, and does not take them for safe.
func TestB04KilledAfterFailedSync(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		fsys, _, _, all := failedLog(t, Config{}, flushed)
		killed := fsys.KillClone()
		killed.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite {
				return syscall.ENOSPC
			}
			return nil
		})
		m, l := openTopic(t, killed, Config{noRestorer: true})
		if err := l.OutOfService(); err == nil {
			t.Fatal("in service")
		}
		s := l.State()
		if s.Watermark != 0 || s.LogEnd == 0 {
			t.Errorf("%+v", s)
		}
		// The messages are not gone, and whoever asks for them must not think so.
		for _, offset := range []int64{1, s.LogEnd} {
			if _, err := l.Read(offset, 100); !errors.Is(err, ErrOutOfService) || errors.Is(err, ErrOffsetOutOfRange) {
				t.Errorf("read at offset %d: %v", offset, err)
			}
		}
		if _, err := l.Read(s.LogEnd+1, 100); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("read beyond the end: %v", err)
		}
		killed.SetHook(nil)
		mustRestore(t, m)
		wantPayloads(t, l, all...)
		m2, l2 := openTopic(t, killed.CrashClone(nil), Config{noRestorer: true})
		if len(m2.outOfService()) > 0 {
			t.Errorf("after a crash: %v", l2.OutOfService())
		}
		wantPayloads(t, l2, all...)
	}
}

// TestB04VisibleAppended: what consumers have seen stays visible, unless it is
// lost.
func TestB04VisibleAppended(t *testing.T) {
	fsys, m, l, all := failedLog(t, Config{Visible: VisibleAppended}, true)
	wantPayloads(t, l, all...)
	mustRestore(t, m)
	wantPayloads(t, l, all...)
	if s := l.State(); s.Flushed != s.LogEnd {
		t.Errorf("%+v", s)
	}
	mustAppend(t, l, []byte("seen"))
	failSync(t, fsys, l)
	wantPayloads(t, l, append(all, []byte("seen"))...)
	list := *l.segments.Load()
	if err := fsys.DropCache(list[len(list)-1].path); err != nil {
		t.Fatal(err)
	}
	mustRestore(t, m)
	wantPayloads(t, l, all...)
	if s := l.State(); s.Watermark != s.LogEnd {
		t.Errorf("%+v", s)
	}
}

// osFaults is the real file system, on which the next sync of a segment can be
// made to fail.
type osFaults struct {
	vfs.FS
	failSync atomic.Bool
}

type osFaultsFile struct {
	vfs.File
	fs *osFaults
}

func (o *osFaults) Create(name string) (vfs.File, error)    { return o.wrap(o.FS.Create(name)) }
func (o *osFaults) OpenWrite(name string) (vfs.File, error) { return o.wrap(o.FS.OpenWrite(name)) }

func (o *osFaults) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return osFaultsFile{f, o}, nil
}

func (f osFaultsFile) Sync() error {
	if f.fs.failSync.Swap(false) {
		return syscall.EIO
	}
	return f.File.Sync()
}

// TestB04OnRealFiles: the restorer brings a log back on a real file system, which
// is read past its page cache where it lets us.
func TestB04OnRealFiles(t *testing.T) {
	dir := t.TempDir()
	fsys := &osFaults{FS: vfs.OS()}
	var logged logBuffer
	m, err := Open(testContext(t), dir, Config{FS: fsys, Logger: logged.logger()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for round := range 3 {
		for i := range 20 {
			all = append(all, payload(100*round+i, 40_000+i))
			mustAppend(t, l, all[len(all)-1])
		}
		fsys.failSync.Store(round > 0)
		err := l.Flush(testContext(t))
		if (err == nil) != (round == 0) {
			t.Fatalf("flush: %v", err)
		}
		if round > 0 {
			eventually(t, "back in service", func() bool { return l.OutOfService() == nil })
		}
		wantPayloads(t, l, all...)
	}
	t.Log(logged.String())
	if s := l.State(); s.Segments != 3 {
		t.Errorf("%+v", s)
	}
	mustClose(t, m)
	entries, err := vfs.OS().ReadDir(filepath.Join(dir, "t-0"))
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	r, err := Verify(testContext(t), dir, WalkOptions{})
	if err != nil || r.Err() != nil {
		t.Errorf("verify: %v, %v", err, r.Err())
	}
}
