package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

func TestTopics(t *testing.T) {
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{DefaultPartitions: 2})
	for _, name := range []string{"created", "with space", "a-1"} {
		if err := m.CreateTopic(name, 4); err != nil {
			t.Fatal(err)
		}
	}
	for _, tp := range []struct {
		topic     string
		partition int32
	}{{"created", 3}, {"made", 1}, {"a-1", 0}, {"a", 1}} {
		l, err := m.Ensure(tp.topic, tp.partition)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, []byte(tp.topic))
		if again, err := m.Ensure(tp.topic, tp.partition); again != l || err != nil {
			t.Errorf("ensured twice: %p and %p, %v", l, again, err)
		}
	}
	for range 2 { // and again after a restart
		if got, want := m.Topics(), []string{"a", "a-1", "created", "made", "with space"}; !slices.Equal(got, want) {
			t.Errorf("topics %q, %q wanted", got, want)
		}
		for name, want := range map[string]int32{"created": 4, "with space": 4, "made": 2, "unknown": 2} {
			if got := m.Partitions([]byte(name)); got != want {
				t.Errorf("%s has %d partitions, %d wanted", name, got, want)
			}
		}
		if m.Lookup([]byte("created"), 0) != nil || m.Lookup([]byte("unknown"), 0) != nil || m.Lookup([]byte("created"), -1) != nil {
			t.Error("a log that was never written to is there")
		}
		for _, l := range m.Logs() {
			mustFlush(t, l)
			wantPayloads(t, l, []byte(l.Topic()))
		}
		if n := len(m.Logs()); n != 4 {
			t.Errorf("%d logs", n)
		}
		mustClose(t, m)
		m = open(t, fsys, Config{DefaultPartitions: 2})
	}
	mustClose(t, m)

	// With fewer partitions than are on disk, those beyond are not served.
	var logged logBuffer
	m = open(t, fsys, Config{DefaultPartitions: 1, Logger: logged.logger()})
	if m.Lookup([]byte("made"), 1) != nil {
		t.Error("partition beyond the count is served")
	}
	if _, err := m.Ensure("made", 1); !errors.Is(err, ErrWrongPartition) {
		t.Errorf("partition beyond the count: %v", err)
	}
	wantContains(t, logged.String(), "topic=made", "partition=1")
}

func TestTopicErrors(t *testing.T) {
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{DefaultPartitions: 2})
	if _, err := m.Ensure("made", 0); err != nil {
		t.Fatal(err)
	}
	ensure := func(topic string, partition int32) error { _, err := m.Ensure(topic, partition); return err }
	cases := []struct {
		what string
		err  error
		want error
		says string
	}{
		{"partition 2 of 2", ensure("made", 2), ErrWrongPartition, `"made" partition 2`},
		{"partition -1", ensure("made", -1), ErrWrongPartition, "-1"},
		{"path", ensure("../x", 0), ErrTopicName, "../x"},
		{"empty", ensure("", 0), ErrTopicName, "empty"},
		{"dot", m.CreateTopic(".", 1), ErrTopicName, `"."`},
		{"newline", m.CreateTopic("a\nb", 1), ErrTopicName, "U+000A"},
		{"250 bytes", m.CreateTopic(strings.Repeat("x", 250), 1), ErrTopicName, "250"},
		{"249 bytes, last partition", m.CreateTopic(strings.Repeat("x", 249), MaxPartitions), nil, ""},
		{"made before", m.CreateTopic("made", 1), ErrTopicExists, "2 partitions"},
		{"0 partitions", m.CreateTopic("new", 0), ErrWrongPartition, "0 partitions"},
		{"too many partitions", m.CreateTopic("new", MaxPartitions+1), ErrWrongPartition, "100001"},
		{"delete what is not there", m.DeleteTopic("new"), ErrNoSuchTopic, "new"},
		{"the folder name of that", ensure(strings.Repeat("x", 249), MaxPartitions-1), nil, ""},
	}
	for _, c := range cases {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, %v wanted", c.what, c.err, c.want)
		} else if c.want != nil {
			wantContains(t, c.err.Error(), c.says)
		}
	}
}

// TestDeleteTopic: everything of the topic goes, and its name can be used again.
func TestDeleteTopic(t *testing.T) {
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{})
	if err := m.CreateTopic("t", 2); err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 1)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, []byte("old"))
	if err := m.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(set([]byte("x")), 1); !errors.Is(err, ErrNoSuchTopic) {
		t.Errorf("append: %v", err)
	}
	if err := l.Flush(testContext(t)); !errors.Is(err, ErrNoSuchTopic) {
		t.Errorf("flush: %v", err)
	}
	if l.State() != (State{}) || l.OffsetsBefore(-1, 10) != nil {
		t.Errorf("a deleted log has a state: %+v", l.State())
	}
	if m.Lookup([]byte("t"), 1) != nil || len(m.Topics()) > 0 || m.Partitions([]byte("t")) != 1 {
		t.Error("the topic is still known")
	}
	entries, err := fsys.ReadDir(testDir)
	if err != nil || len(entries) != 2 { // .lock and topics
		t.Errorf("left: %v, %v", entries, err)
	}
	if l, err = m.Ensure("t", 0); err != nil {
		t.Fatal(err)
	}
	if a := mustAppend(t, l, []byte("new")); a.Base != 0 {
		t.Errorf("the new log begins at %d", a.Base)
	}
}

// TestEnsureWhileDeleting: a log that is being deleted is not handed out; the
// caller gets the one that comes after it.
func TestEnsureWhileDeleting(t *testing.T) {
	fsys, _ := newTestFS()
	m, old := openTopic(t, fsys, Config{})
	mustAppend(t, old, []byte("x"))
	ensured := make(chan *Log, 1)
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRename && strings.HasSuffix(op.Path, "/t-0") {
			go func() {
				l, err := m.Ensure("t", 0)
				if err != nil {
					t.Error(err)
				}
				ensured <- l
			}()
			select {
			case l := <-ensured: // and it must not
				ensured <- l
			case <-time.After(20 * time.Millisecond):
			}
		}
		return nil
	})
	if err := m.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	l := <-ensured
	fsys.SetHook(nil)
	if l == old {
		t.Fatal("the log that is being deleted was handed out")
	}
	mustAppend(t, l, []byte("y"))
}

// TestDeleteTopicRepeated: a deletion that failed at any step can be repeated.
func TestDeleteTopicRepeated(t *testing.T) {
	for n := 1; ; n++ {
		fsys, _ := newTestFS()
		m := open(t, fsys, Config{})
		if err := m.CreateTopic("t", 2); err != nil {
			t.Fatal(err)
		}
		for p := range int32(2) {
			if _, err := m.Ensure("t", p); err != nil {
				t.Fatal(err)
			}
		}
		count := 0
		fsys.SetHook(func(vfs.Op) error {
			if count++; count == n {
				return syscall.EIO
			}
			return nil
		})
		first := m.DeleteTopic("t")
		fsys.SetHook(nil)
		if first != nil {
			if err := m.DeleteTopic("t"); err != nil && !errors.Is(err, ErrNoSuchTopic) {
				t.Errorf("step %d failed with %v; again: %v", n, first, err)
			}
		}
		mustClose(t, m)
		m = open(t, fsys, Config{})
		if len(m.Topics()) > 0 {
			t.Errorf("step %d: after a restart there are %q", n, m.Topics())
		}
		entries, err := fsys.ReadDir(testDir)
		if err != nil || len(entries) != 2 {
			t.Errorf("step %d: left %v, %v", n, entries, err)
		}
		if count < n {
			return
		}
	}
}

func TestFolderErrors(t *testing.T) {
	cases := []struct {
		name string
		make func(t *testing.T, fsys *vfs.Mem)
		says []string
	}{
		{"no dash", folder("nodash"), []string{"nodash", "'-'"}},
		{"no number", folder("topic-x"), []string{"topic-x", `"x"`}},
		{"leading zero", folder("topic-01"), []string{"topic-01"}},
		{"plus", folder("topic-+1"), []string{"topic-+1"}},
		{"beyond the last partition", folder("topic-100000"), []string{"topic-100000", "99999"}},
		{"bad topic name", folder("a\x01-0"), []string{"U+0001"}},
		{"empty topics file", file(topicsName, ""), []string{"/log/topics", "line 1"}},
		{"cut topics file", file(topicsName, topicsHeader+"\n4 t\n"), []string{"last line"}},
		{"topics file with more", file(topicsName, topicsHeader+"\n4 t\nend 1\nx\n"), []string{"line 3"}},
		{"wrong count of topics", file(topicsName, topicsHeader+"\n4 t\nend 2\n"), []string{"line 3"}},
		{"bad partition count", file(topicsName, topicsHeader+"\n0 t\nend 1\n"), []string{"line 2", `"0"`}},
		{"bad topic in the file", file(topicsName, topicsHeader+"\n1 a/b\nend 1\n"), []string{"line 2", "a/b"}},
		{"topic twice", file(topicsName, topicsHeader+"\n1 a\n2 a\nend 2\n"), []string{"line 3", "twice"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys, _ := newTestFS()
			put(t, fsys, testDir+"/t-0/"+segmentName(0), set([]byte("x")))
			c.make(t, fsys)
			m, err := Open(testContext(t), testDir, Config{FS: fsys})
			if err == nil {
				mustClose(t, m)
				t.Fatal("opened")
			}
			wantContains(t, err.Error(), append(c.says, testDir)...)
			if locked, err := fsys.Locked(testDir + "/" + lockName); locked || err != nil {
				t.Errorf("locked %v, %v", locked, err)
			}
		})
	}
}

func folder(name string) func(*testing.T, *vfs.Mem) {
	return func(t *testing.T, fsys *vfs.Mem) {
		mkdirAll(t, fsys, filepath.Join(testDir, name))
	}
}

func file(name, text string) func(*testing.T, *vfs.Mem) {
	return func(t *testing.T, fsys *vfs.Mem) { put(t, fsys, filepath.Join(testDir, name), []byte(text)) }
}

// TestUnfitLog: what is wrong with one partition does not stop the others.
func TestUnfitLog(t *testing.T) {
	cases := []struct {
		name string
		make func(t *testing.T, fsys *vfs.Mem)
		says []string
	}{
		{"gap", func(t *testing.T, fsys *vfs.Mem) {
			put(t, fsys, testDir+"/bad-0/"+segmentName(50), set([]byte("x")))
		}, []string{segmentName(0), segmentName(50), "40 bytes are missing"}},
		{"overlap", func(t *testing.T, fsys *vfs.Mem) {
			put(t, fsys, testDir+"/bad-0/"+segmentName(9), []byte("not what a rewriting leaves"))
		}, []string{segmentName(0), segmentName(9), "1 bytes are there twice"}},
		{"segment name", file("bad-0/10.kafka", ""), []string{"10.kafka", "20 digits"}},
		{"negative segment name", file("bad-0/-0000000000000000001.kafka", ""), []string{"-0000000000000000001.kafka"}},
		{"a folder for a segment", folder("bad-0/" + segmentName(10)), []string{segmentName(10), "folder"}},
		{"offsets overflow", file("bad-0/09223372036854775807.kafka", "x"), []string{"09223372036854775807"}},
		{"unreadable", func(t *testing.T, fsys *vfs.Mem) {
			fsys.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpRead && strings.Contains(op.Path, "bad-0") {
					return syscall.EIO
				}
				return nil
			})
		}, []string{"input/output error"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys, _ := newTestFS()
			put(t, fsys, testDir+"/bad-0/"+segmentName(0), set([]byte("x")))
			put(t, fsys, testDir+"/good-0/"+segmentName(0), set([]byte("y")))
			put(t, fsys, testDir+"/good-0/unknown.file", []byte("?"))
			put(t, fsys, testDir+"/unknown.file", []byte("?"))
			folder(lostAndFoundName)(t, fsys)
			c.make(t, fsys)
			m := open(t, fsys, Config{})
			bad, err := m.Ensure("bad", 0)
			if err != nil {
				t.Fatal(err)
			}
			_, appendErr := bad.Append(set([]byte("z")), 1)
			_, readErr := bad.Read(0, 10)
			for _, err := range []error{bad.Err(), appendErr, readErr} {
				if !errors.Is(err, ErrOutOfService) {
					t.Fatalf("%v", err)
				}
				wantContains(t, err.Error(), append(c.says, `"bad" partition 0`)...)
			}
			wantPayloads(t, m.Lookup([]byte("good"), 0), []byte("y"))
			if err := m.Close(testContext(t)); !errors.Is(err, ErrOutOfService) {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "with", "parents")
	m, err := Open(testContext(t), dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testContext(t), dir, Config{}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: %v", err)
	} else {
		wantContains(t, err.Error(), dir)
	}
	mustClose(t, m)
	if m, err = Open(testContext(t), dir, Config{}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, m)
	mustClose(t, m) // again does nothing
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testContext(t), blocked, Config{}); err == nil {
		t.Error("opened a file as a log folder")
	} else {
		wantContains(t, err.Error(), blocked)
	}
}

// TestClose: nothing goes after it, and what readers hold stays.
func TestClose(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{FlushInterval: time.Hour})
	mustAppend(t, l, []byte("x"))
	mustFlush(t, l)
	s, err := l.Read(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	a := mustAppend(t, l, []byte("y"))
	mustClose(t, m)
	if l.flushed.Load() != a.Next {
		t.Error("not flushed")
	}
	for what, err := range map[string]error{
		"append": func() error { _, err := l.Append(set([]byte("z")), 1); return err }(),
		"read":   func() error { _, err := l.Read(0, 1); return err }(),
		"ensure": func() error { _, err := m.Ensure("new", 0); return err }(),
		"create": m.CreateTopic("new", 1),
		"delete": m.DeleteTopic("t"),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.Flush(testContext(t)); err != nil { // all is flushed
		t.Error(err)
	}
	if n, err := s.ReadAt(make([]byte, 10), 0); n != 10 || err != nil {
		t.Errorf("read from a held slice: %d, %v", n, err)
	}
	file := s.segment.file
	s.Release()
	s.Release()
	if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("file is open: %v", err)
	}
}

// TestCloseIsBounded: a disk that hangs does not hold it up for ever, and it
// says what was not flushed.
func TestCloseIsBounded(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{})
	mustAppend(t, l, []byte("x"))
	g := newSyncGate(t, fsys)
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		<-g.arrived
		cancel()
	}()
	err := m.Close(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("close: %v", err)
	}
	wantContains(t, err.Error(), `topic "t" partition 0`, "from offset 0 to 10")
	g.pass(t, nil)
	if fileSize(fsys, testDir+"/"+cleanName) >= 0 {
		t.Error("marked as cleanly stopped")
	}
	eventually(t, "the sync is over", func() bool {
		l.roundMu.Lock()
		defer l.roundMu.Unlock()
		return l.runner == nil
	})
}

// TestCloseBesideChange: neither a deletion that waits for a sync nor the making
// of a topic that hangs in the disk holds Close up for ever.
func TestCloseBesideChange(t *testing.T) {
	t.Run("delete", func(t *testing.T) {
		fsys, _ := newTestFS()
		m, l := openTopic(t, fsys, Config{})
		mustAppend(t, l, []byte("x"))
		g := newSyncGate(t, fsys)
		go func() { _ = l.Flush(testContext(t)) }()
		<-g.arrived
		deleted := make(chan error, 1)
		go func() { deleted <- m.DeleteTopic("t") }()
		eventually(t, "the deletion waits for the sync", func() bool {
			l.roundMu.Lock()
			defer l.roundMu.Unlock()
			return l.roundsOver
		})
		ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
		defer cancel()
		if err := m.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if err := <-deleted; !errors.Is(err, ErrClosed) {
			t.Errorf("delete: %v", err)
		}
		g.pass(t, nil)
	})
	t.Run("make", func(t *testing.T) {
		fsys, _ := newTestFS()
		m := open(t, fsys, Config{})
		arrived, release := make(chan struct{}), make(chan struct{})
		fsys.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpMkdir {
				close(arrived)
				<-release
			}
			return nil
		})
		made := make(chan error, 1)
		go func() {
			_, err := m.Ensure("t", 0)
			made <- err
		}()
		<-arrived
		ctx, cancel := context.WithCancel(testContext(t))
		cancel()
		err := m.Close(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("close: %v", err)
		}
		wantContains(t, err.Error(), "still being made or deleted")
		close(release)
		<-made
		if _, err := m.Ensure("u", 0); !errors.Is(err, ErrClosed) {
			t.Errorf("a topic is made after Close: %v", err)
		}
	})
}

// TestCleanMarker: it is gone for good before anything else happens.
func TestCleanMarker(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{})
	mustAppend(t, l, []byte("x"))
	mustClose(t, m)
	path := testDir + "/" + cleanName
	if fileSize(fsys.CrashClone(nil), path) <= 0 {
		t.Error("the marker is not safe from a crash")
	}
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen && op.Path != path && fileSize(fsys.CrashClone(nil), path) >= 0 {
			t.Errorf("%s is opened while the marker can come back", op.Path)
		}
		return nil
	})
	open(t, fsys, Config{})
	fsys.SetHook(nil)
}

// TestCleanMarkerAfterFailedDeletion: the stop does not vouch for a log that it
// did not flush, as its topic was about to be deleted.
func TestCleanMarkerAfterFailedDeletion(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{})
	end := mustAppend(t, l, []byte("x")).Next
	fsys.SetHook(vfs.FailNth(vfs.OpRename, 1, syscall.EIO))
	if err := m.DeleteTopic("t"); !errors.Is(err, syscall.EIO) {
		t.Fatalf("delete: %v", err)
	}
	fsys.SetHook(nil)
	mustClose(t, m)
	m, l = openTopic(t, fsys, Config{})
	wantState(t, l, 0, end, end, 1)
	if size := fileSize(fsys.CrashClone(nil), segmentPath(0)); size != end {
		t.Errorf("visible up to %d, but %d bytes are safe", end, size)
	}
	mustClose(t, m)
}

// TestCleanMarkerOfAChangedLog: what was changed after a clean stop is recovered
// as after a crash, and what was not is trusted.
func TestCleanMarkerOfAChangedLog(t *testing.T) {
	first := message.EntrySize(1)
	changes := []struct {
		name   string
		change func(fsys *vfs.Mem, segment vfs.File, size int64) error
	}{
		{"cut", func(_ *vfs.Mem, f vfs.File, size int64) error { return f.Truncate(size - 1) }},
		{"zeros behind it", func(_ *vfs.Mem, f vfs.File, size int64) error { return f.Truncate(size + 4096) }},
		{"zeros in it", func(_ *vfs.Mem, f vfs.File, size int64) error {
			_, err := f.WriteAt(make([]byte, 5), size-5)
			return err
		}},
		{"marker of Kafka 0.7", func(fsys *vfs.Mem, f vfs.File, size int64) error {
			marker, err := fsys.OpenWrite(testDir + "/" + cleanName)
			if err != nil {
				return err
			}
			return errors.Join(marker.Truncate(0), marker.Close(), f.Truncate(size-1))
		}},
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			fsys, clk := newTestFS()
			m, l := openTopic(t, fsys, Config{})
			mustAppend(t, l, []byte("x"))
			mustAppend(t, l, payload(1, 100))
			other, err := m.Ensure("with blanks in it", 0)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, other, []byte("x"))
			mustClose(t, m)
			clk.Advance(time.Second)
			path := segmentPath(0)
			f, err := fsys.OpenWrite(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.change(fsys, f, int64(fileSize(fsys, path))), f.Close()); err != nil {
				t.Fatal(err)
			}
			trusted := true
			fsys.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpSync && strings.Contains(op.Path, "with blanks") {
					trusted = false // recovery syncs what it has read
				}
				return nil
			})
			m, l = openTopic(t, fsys, Config{})
			fsys.SetHook(nil)
			want := int64(first)
			if c.name == "zeros behind it" {
				want += int64(message.EntrySize(100))
			}
			if got := l.State().LogEnd; got != want {
				t.Errorf("the log ends at %d, want %d", got, want)
			}
			if strings.Contains(c.name, "0.7") == trusted {
				t.Errorf("the log that was left alone was trusted: %v", trusted)
			}
			mustClose(t, m)
		})
	}
}

// caseless is a file system that does not tell upper from lower case in the
// names of new folders.
type caseless struct{ *vfs.Mem }

func (c caseless) Mkdir(name string) error {
	entries, err := c.ReadDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), filepath.Base(name)) {
			return &os.PathError{Op: "mkdir", Path: name, Err: os.ErrExist}
		}
	}
	return c.Mem.Mkdir(name)
}

// TestB17Names: topics whose names fall together on disk never share a folder
// (fault B17).
func TestB17Names(t *testing.T) {
	mem, _ := newTestFS()
	m := open(t, caseless{mem}, Config{})
	for _, name := range []string{"a.b", "a_b", "A", "a-1", "ä", "a b"} {
		l, err := m.Ensure(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, []byte(name))
		mustFlush(t, l)
	}
	if _, err := m.Ensure("a", 0); !errors.Is(err, ErrTopicName) {
		t.Errorf("a beside A: %v", err)
	}
	for _, l := range m.Logs() {
		wantPayloads(t, l, []byte(l.Topic()))
	}
}

// TestEnsureAfterHalfAttempt: an attempt that failed half-way does not stand in
// the way of the next.
func TestEnsureAfterHalfAttempt(t *testing.T) {
	for n := 1; n <= 4; n++ {
		fsys, _ := newTestFS()
		m := open(t, fsys, Config{})
		count := 0
		fsys.SetHook(func(op vfs.Op) error {
			if count++; count == n {
				return fmt.Errorf("%s: %w", op.Kind, syscall.ENOSPC)
			}
			return nil
		})
		if _, err := m.Ensure("t", 0); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("step %d: %v", n, err)
		}
		l, err := m.Ensure("t", 0)
		if err != nil {
			t.Fatalf("after step %d failed: %v", n, err)
		}
		mustAppend(t, l, []byte("x"))
		mustClose(t, m)
	}
}

func TestConfigErrors(t *testing.T) {
	fsys, _ := newTestFS()
	_, err := Open(testContext(t), testDir, Config{FS: fsys, SegmentBytes: -1, FlushMessages: -2, FlushInterval: -3,
		Visible: 4, DefaultPartitions: -5, RollInterval: -6, RetentionAge: -7, RetentionBytes: -8, CleanupInterval: -9, OpenSegments: -10,
		Topics: map[string]TopicConfig{
			"no/name": {},
			"a": {SegmentBytes: -11, RollInterval: ptr(time.Duration(-12)), RetentionAge: ptr(time.Duration(-13)), RetentionBytes: ptr(int64(-14)),
				FlushMessages: ptr(-15), FlushInterval: ptr(time.Duration(-16)), Partitions: -17},
			"b": {Partitions: MaxPartitions + 1},
			"c": {RetentionAge: ptr(time.Duration(0))},
		}})
	if err == nil {
		t.Fatal("opened")
	}
	wantContains(t, err.Error(), "segment size -1:", "-2", "-3ns", "unknown(4)", "-5", "-6ns", "-7ns", "-8", "-9ns", "-10", `topic "no/name"`,
		`topic "a": segment size -11`, "-12ns", "-13ns", "-14", "-15", "-16ns", "-17", `topic "b": 100001`)
	if strings.Contains(err.Error(), `topic "c"`) {
		t.Errorf("a rule switched off is refused: %v", err)
	}
	if _, err := fsys.Stat(testDir); err == nil {
		t.Error("a folder was made")
	}
}

// TestOpenManyInParallel: recovery of many logs, and its end with the context.
func TestOpenManyInParallel(t *testing.T) {
	fsys, _ := newTestFS()
	for i := range 200 {
		put(t, fsys, fmt.Sprintf("%s/t-%d/%s", testDir, i, segmentName(0)), set(payload(i, i)))
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := Open(ctx, testDir, Config{FS: fsys}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	m := open(t, fsys, Config{DefaultPartitions: 200})
	for i, l := range m.Logs() {
		wantPayloads(t, l, payload(i, i))
	}
}
