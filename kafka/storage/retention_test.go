package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

func mustRetain(t testing.TB, m *Manager) {
	t.Helper()
	if err := m.Retain(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// segmentFiles returns the bases of the segment files of topic t, partition 0.
func segmentFiles(t testing.TB, fsys vfs.FS) []int64 {
	t.Helper()
	files, err := listSegments(fsys, testDir+"/t-0")
	if err != nil {
		t.Fatal(err)
	}
	var bases []int64
	for _, f := range files {
		bases = append(bases, f.base)
	}
	return bases
}

func wantFiles(t testing.TB, fsys vfs.FS, bases ...int64) {
	t.Helper()
	if got := segmentFiles(t, fsys); !slices.Equal(got, bases) {
		t.Fatalf("segment files %v, want %v", got, bases)
	}
}

func ptr[T any](v T) *T { return &v }

// noTimer keeps the timer from what a test wants to do at a moment of its own.
const noTimer = 100 * 365 * day

// TestRetentionByAge: a segment goes when its last append is longer ago than the
// limit, the active one too; offsets never begin anew (Kafka 0.7 §3.7).
func TestRetentionByAge(t *testing.T) {
	fsys, c := newTestFS()
	cfg := Config{SegmentBytes: 1, RetentionAge: 7 * day, CleanupInterval: noTimer, Clock: c}
	m, l := openTopic(t, fsys, cfg)
	for _, p := range []string{"a", "b", "c"} { // on days 0, 1, 2
		mustAppend(t, l, []byte(p))
		c.Advance(day)
	}
	c.Advance(4 * day)
	mustRetain(t, m)
	wantState(t, l, 0, 20, 30, 3)
	c.Advance(1)
	mustRetain(t, m)
	wantState(t, l, 10, 20, 30, 2)
	wantFiles(t, fsys, 10, 20)
	if _, err := l.Read(9, 10); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("read what is deleted: %v", err)
	}
	if got := l.OffsetsBefore(timeEarliest, 9); !slices.Equal(got, []int64{10}) {
		t.Errorf("earliest offset %v", got)
	}
	mustFlush(t, l)
	wantPayloads(t, l, []byte("b"), []byte("c"))

	// All of them: offsets go on in an empty segment, which stays.
	for range 3 {
		c.Advance(30 * day)
		mustRetain(t, m)
		wantState(t, l, 30, 30, 30, 1)
		wantFiles(t, fsys, 30)
		mustClose(t, m)
		m, l = openTopic(t, fsys, cfg)
		wantState(t, l, 30, 30, 30, 1)
	}
	mustAppend(t, l, []byte("d"))
	mustFlush(t, l)
	mustRetain(t, m)
	wantPayloads(t, l, []byte("d"))
}

// TestRetentionOfWhatIsNotFlushed: when all segments go, the last one is rolled
// and so flushed first, as always.
func TestRetentionOfWhatIsNotFlushed(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{RetentionAge: day, CleanupInterval: noTimer, Clock: c})
	mustAppend(t, l, []byte("a"))
	c.Advance(2 * day)
	mustRetain(t, m)
	wantState(t, l, 10, 10, 10, 1)
	wantFiles(t, fsys, 10)

	// When it cannot be rolled it stays, and the next round succeeds.
	mustAppend(t, l, []byte("b"))
	mustFlush(t, l)
	c.Advance(2 * day)
	fsys.SetHook(vfs.FailNth(vfs.OpCreate, 1, syscall.ENOSPC))
	if err := m.Retain(testContext(t)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("retain without room for a new segment: %v", err)
	}
	wantState(t, l, 10, 20, 20, 1)
	mustRetain(t, m)
	wantState(t, l, 20, 20, 20, 1)
}

// TestRetentionBySize: the oldest segments go as long as what is left, of what is
// flushed, is not below the limit (Kafka 0.7 §3.7).
func TestRetentionBySize(t *testing.T) {
	sizes := []int{100, 200, 300, 100}
	bases := []int64{0, 100, 300, 600}
	for _, tc := range []struct {
		limit int64
		first int // index of the first segment that stays
	}{
		{math.MaxInt64, 0}, {700, 0}, {601, 0}, {600, 1}, {599, 1}, {401, 1}, {400, 2}, {101, 2}, {100, 3}, {99, 3}, {1, 3}, {0, 0},
	} {
		fsys, _ := newTestFS()
		m, l := openTopic(t, fsys, Config{SegmentBytes: 1, RetentionBytes: tc.limit})
		for i, size := range sizes {
			mustAppend(t, l, payload(i, size-9))
		}
		mustFlush(t, l)
		for range 2 {
			mustRetain(t, m)
			wantState(t, l, bases[tc.first], 700, 700, 4-tc.first)
			wantFiles(t, fsys, bases[tc.first:]...)
		}
	}

	// What is not flushed is not counted.
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1, RetentionBytes: 600})
	for i, size := range sizes {
		mustAppend(t, l, payload(i, size-9))
	}
	mustRetain(t, m)
	wantState(t, l, 0, 600, 700, 4)
	mustFlush(t, l)
	mustRetain(t, m)
	wantState(t, l, 100, 700, 700, 3)
}

// TestRetentionByAgeAndSize: both rules hold at once.
func TestRetentionByAgeAndSize(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1, RetentionAge: day, RetentionBytes: 25, CleanupInterval: noTimer, Clock: c})
	mustAppend(t, l, []byte("a"))
	c.Advance(2 * day)
	for range 4 {
		mustAppend(t, l, []byte("b"))
	}
	mustFlush(t, l)
	mustRetain(t, m) // 0 is too old; of the other 40 bytes one segment is too many
	wantState(t, l, 20, 50, 50, 3)
	c.Advance(2 * day)
	mustRetain(t, m)
	wantState(t, l, 50, 50, 50, 1)
}

// TestTopicSettings: each topic can have rules of its own, and switch one off.
func TestTopicSettings(t *testing.T) {
	fsys, c := newTestFS()
	m := open(t, fsys, Config{
		SegmentBytes: 25, RollInterval: day, RetentionAge: 7 * day, FlushMessages: 2, CleanupInterval: noTimer, Clock: c,
		Topics: map[string]TopicConfig{
			"short": {RetentionAge: ptr(day)},
			"ever":  {RetentionAge: ptr(time.Duration(0)), RollInterval: ptr(time.Duration(0)), FlushMessages: ptr(0)},
			"large": {SegmentBytes: 1000},
			"small": {RetentionBytes: ptr(int64(5))},
			"quick": {RollInterval: ptr(time.Hour), FlushMessages: ptr(1)},
		},
	})
	logs := map[string]*Log{}
	for _, name := range []string{"plain", "short", "ever", "large", "small", "quick"} {
		l, err := m.Ensure(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		logs[name] = l
	}
	each := func(do func(name string, l *Log)) {
		for name, l := range logs {
			do(name, l)
		}
	}
	want := func(what string, wants map[string]State) {
		t.Helper()
		each(func(name string, l *Log) {
			s, ok := wants[name]
			if !ok {
				s = wants[""]
			}
			if got := l.State(); got.First != s.First || got.Segments != s.Segments {
				t.Errorf("%s: %s begins at %d with %d segments, want %d with %d", what, name, got.First, got.Segments, s.First, s.Segments)
			}
		})
	}
	each(func(name string, l *Log) {
		due := 0
		for i := range 2 {
			if a := mustAppend(t, l, []byte("x")); a.FlushDue && due == 0 {
				due = i + 1
			}
		}
		if wants := map[string]int{"plain": 2, "short": 2, "ever": 0, "large": 2, "small": 2, "quick": 1}; due != wants[name] {
			t.Errorf("%s: flush due after %d messages, want %d", name, due, wants[name])
		}
		mustFlush(t, l)
	})
	c.Advance(time.Hour + 1)
	each(func(_ string, l *Log) { mustAppend(t, l, []byte("x")) })
	want("by age", map[string]State{"": {Segments: 1}, "quick": {Segments: 2}})
	each(func(_ string, l *Log) { mustAppend(t, l, []byte("x")); mustFlush(t, l) })
	want("by size", map[string]State{"": {Segments: 2}, "large": {Segments: 1}, "quick": {Segments: 2}})
	mustRetain(t, m)
	want("retention by size", map[string]State{"": {Segments: 2}, "large": {Segments: 1}, "small": {First: 30, Segments: 1},
		"quick": {Segments: 2}})
	c.Advance(day + 1)
	mustRetain(t, m)
	want("retention after a day", map[string]State{"": {Segments: 2}, "large": {Segments: 1}, "small": {First: 30, Segments: 1},
		"quick": {Segments: 2}, "short": {First: 40, Segments: 1}})
	c.Advance(7 * day)
	mustRetain(t, m)
	want("retention after a week", map[string]State{"": {First: 40, Segments: 1}, "ever": {Segments: 2}})
}

// TestPartitionsOfATopic: the number that a topic was created with comes before
// its own in the configuration, and that before the general one.
func TestPartitionsOfATopic(t *testing.T) {
	fsys, _ := newTestFS()
	cfg := Config{DefaultPartitions: 2, Topics: map[string]TopicConfig{"wide": {Partitions: 4}, "made": {Partitions: 8}, "other": {}}}
	m := open(t, fsys, cfg)
	if err := m.CreateTopic("made", 3); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int32{"wide": 4, "made": 3, "other": 2, "plain": 2} {
		if _, err := m.Ensure(name, n-1); err != nil {
			t.Error(err)
		}
		if _, err := m.Ensure(name, n); !errors.Is(err, ErrWrongPartition) {
			t.Errorf("partition %d of %s: %v", n, name, err)
		}
	}
	for range 2 { // and again after a restart
		for name, n := range map[string]int32{"wide": 4, "made": 3, "other": 2, "plain": 2, "not there": 2} {
			if got := m.Partitions([]byte(name)); got != n {
				t.Errorf("%s has %d partitions, want %d", name, got, n)
			}
		}
		mustClose(t, m)
		m = open(t, fsys, cfg)
	}
	if err := m.DeleteTopic("made"); err != nil {
		t.Fatal(err)
	}
	if got := m.Partitions([]byte("made")); got != 8 {
		t.Errorf("after its deletion the topic has %d partitions", got)
	}
	mustClose(t, m)

	// With fewer than are on disk those beyond are not served, but looked after.
	cfg.Topics["wide"] = TopicConfig{Partitions: 1}
	cfg.RetentionBytes = 1
	cfg.SegmentBytes = 1
	var logged logBuffer
	cfg.Logger = logged.logger()
	m = open(t, fsys, cfg)
	if m.Lookup([]byte("wide"), 3) != nil {
		t.Error("partition 3 of 1 is served")
	}
	wantContains(t, logged.String(), "topic=wide", "partition=3", "partitions=1")
}

// TestCleanupTimer: retention works by itself, for the first time one interval
// after the start.
func TestCleanupTimer(t *testing.T) {
	fsys, c := newTestFS()
	put(t, fsys, segmentPath(0), set([]byte("a")))
	put(t, fsys, segmentPath(10), set([]byte("b")))
	c.Advance(10 * day)
	var hooked sync.WaitGroup
	hooked.Add(1)
	var deleted [2]int64
	m, l := openTopic(t, fsys, Config{RetentionAge: day, CleanupInterval: time.Minute, Clock: c, Hooks: Hooks{
		Deleted: func(l *Log, segments int, bytes int64) {
			deleted = [2]int64{int64(segments), bytes}
			hooked.Done()
		},
	}})
	c.WaitTimers(1)
	c.Advance(time.Minute - 1)
	wantState(t, l, 0, 20, 20, 2)
	c.Advance(1)
	hooked.Wait()
	wantState(t, l, 20, 20, 20, 1)
	if deleted != [2]int64{2, 20} {
		t.Errorf("deleted segments and bytes: %v", deleted)
	}
	mustClose(t, m)
}

// TestFlushIntervalsOfTopics: each topic is flushed at its own interval.
func TestFlushIntervalsOfTopics(t *testing.T) {
	fsys, c := newTestFS()
	m := open(t, fsys, Config{FlushInterval: time.Minute, Clock: c, Topics: map[string]TopicConfig{
		"quick": {FlushInterval: ptr(time.Second)}, "never": {FlushInterval: ptr(time.Duration(0))}, "other": {FlushInterval: ptr(time.Second)},
	}})
	ends := map[string]bool{"plain": false, "quick": false, "never": false, "other": false}
	logs := map[string]*Log{}
	for name := range ends {
		l, err := m.Ensure(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		logs[name] = l
		mustAppend(t, l, []byte("x"))
	}
	visible := func(name string) bool { return logs[name].State().Watermark > 0 }
	c.WaitTimers(2)
	c.Advance(time.Second)
	eventually(t, "the quick ones are flushed", func() bool { return visible("quick") && visible("other") })
	if visible("plain") {
		t.Error("plain was flushed before its time")
	}
	c.WaitTimers(2)
	c.Advance(time.Minute)
	eventually(t, "plain is flushed", func() bool { return visible("plain") })
	if visible("never") {
		t.Error("what is not flushed by time was")
	}
	mustClose(t, m)
}

// TestRetentionBesideAFailedLog: what is wrong with one log does not keep another
// from being cleaned, and its own closed segments go too.
func TestRetentionBesideAFailedLog(t *testing.T) {
	fsys, c := newTestFS()
	m := open(t, fsys, Config{SegmentBytes: 1, RetentionAge: day, CleanupInterval: noTimer, Clock: c})
	var logs []*Log
	for _, name := range []string{"failed", "sound"} {
		l, err := m.Ensure(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
		mustAppend(t, l, []byte("a"))
		mustAppend(t, l, []byte("b"))
	}
	// For good: no new file can be made either.
	fsys.SetHook(func(op vfs.Op) error {
		if strings.Contains(op.Path, "failed-0") && op.Kind != vfs.OpRemove && op.Kind != vfs.OpSyncDir {
			return syscall.EIO
		}
		return nil
	})
	defer fsys.SetHook(nil)
	if err := logs[0].Flush(testContext(t)); !errors.Is(err, ErrOutOfService) {
		t.Fatalf("flush: %v", err)
	}
	c.Advance(2 * day)
	mustRetain(t, m)
	wantState(t, logs[0], 10, 10, 20, 1) // what was not flushed stays
	wantState(t, logs[1], 20, 20, 20, 1)
}

// fileTime returns when a file was written to.
func fileTime(t testing.TB, fsys vfs.FS, path string) time.Time {
	t.Helper()
	info, err := fsys.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// TestClockPutForward: a clock that jumps ahead by years while the broker runs
// deletes nothing before its time, nor does the next start.
func TestClockPutForward(t *testing.T) {
	fsys, c := newTestFS()
	cfg := Config{SegmentBytes: 1, RetentionAge: 7 * day, CleanupInterval: noTimer, Clock: c}
	m, l := openTopic(t, fsys, cfg)
	mustAppend(t, l, []byte("a"))
	mustClose(t, m)
	c.Advance(3 * day)
	m, l = openTopic(t, fsys, cfg)
	mustAppend(t, l, []byte("b"))
	c.Advance(time.Hour)
	mustRetain(t, m) // a is looked at: three days old
	c.Step(30 * 365 * day)
	mustRetain(t, m)
	wantState(t, l, 0, 10, 20, 2)
	if got, want := fileTime(t, fsys, segmentPath(10)), c.Now().Add(-time.Hour); !got.Equal(want) {
		t.Errorf("the time of b is %v, want %v", got, want)
	}
	c.Advance(3 * day)
	mustRetain(t, m)
	wantState(t, l, 0, 10, 20, 2)
	c.Advance(day)
	mustRetain(t, m)
	wantState(t, l, 10, 10, 20, 1)

	// b is known to be four days old by the next start too.
	mustClose(t, m)
	m, l = openTopic(t, fsys, cfg)
	c.Advance(2 * day)
	mustRetain(t, m)
	mustFlush(t, l)
	wantPayloads(t, l, []byte("b"))
	c.Advance(2 * day)
	mustRetain(t, m)
	wantState(t, l, 20, 20, 20, 1)
}

// TestClockBehindAtStart: a machine without a battery starts in 1970, and its
// clock is put right while the broker runs, or just before it stops.
func TestClockBehindAtStart(t *testing.T) {
	for _, mended := range []string{"by retention", "by the stop"} {
		t.Run(mended, func(t *testing.T) {
			right := testStart
			c := clock.NewManual(time.Unix(100, 0))
			fsys := vfs.NewMem(c.Now)
			for i, age := range []time.Duration{8 * day, 3 * day} {
				put(t, fsys, segmentPath(int64(10*i)), set([]byte("x")))
				if err := fsys.SetTime(segmentPath(int64(10*i)), right.Add(-age)); err != nil {
					t.Fatal(err)
				}
			}
			cfg := Config{SegmentBytes: 1, RetentionAge: 7 * day, CleanupInterval: noTimer, Clock: c}
			m, l := openTopic(t, fsys, cfg)
			mustAppend(t, l, []byte("y"))
			mustFlush(t, l)
			mustRetain(t, m)
			wantState(t, l, 0, 30, 30, 3)
			c.Step(right.Sub(c.Now()))
			if mended == "by retention" {
				mustRetain(t, m)
				wantState(t, l, 10, 30, 30, 2)
			}
			mustClose(t, m)
			if got := fileTime(t, fsys, segmentPath(20)); !got.Equal(right) {
				t.Errorf("the time of the new segment is %v, want %v", got, right)
			}
			m, l = openTopic(t, fsys, cfg)
			mustRetain(t, m)
			wantState(t, l, 10, 30, 30, 2)
			mustClose(t, m)
		})
	}
}

// TestClockPutBack: a clock that was ahead and is put right takes the days back
// that it had added.
func TestClockPutBack(t *testing.T) {
	fsys, c := newTestFS()
	put(t, fsys, segmentPath(0), set([]byte("x")))
	c.Advance(3 * day)
	c.Step(3 * day) // looks like 6 days
	m, l := openTopic(t, fsys, Config{RetentionAge: 7 * day, CleanupInterval: noTimer, Clock: c})
	mustRetain(t, m)
	c.Step(-3 * day)
	c.Advance(4 * day)
	mustRetain(t, m) // 7 days
	wantState(t, l, 0, 10, 10, 1)
	c.Advance(1)
	mustRetain(t, m)
	wantState(t, l, 10, 10, 10, 1)

	// Back to before anything was written: nothing goes, offsets go on.
	mustAppend(t, l, []byte("y"))
	mustFlush(t, l)
	c.Step(-20 * 365 * day)
	c.Advance(7 * day)
	mustRetain(t, m)
	wantState(t, l, 10, 20, 20, 1)
	c.Advance(1)
	mustRetain(t, m)
	wantState(t, l, 20, 20, 20, 1)
}

// sixSegments returns a file system with a log of six flushed segments of 10
// bytes, and the manager that has it open.
func sixSegments(t *testing.T) (*vfs.Mem, *Manager, *Log) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1, RetentionBytes: 15})
	for i := range 6 {
		mustAppend(t, l, []byte{'a' + byte(i)})
	}
	mustFlush(t, l)
	return fsys, m, l
}

// TestCrashInRetention crashes before each operation of a deletion: what is left
// is always a log that opens, without a gap, with everything that is to stay.
func TestCrashInRetention(t *testing.T) {
	rng := newRand(t)
	fsys, m, _ := sixSegments(t)
	steps := 0
	fsys.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		steps++
		for i := range 20 {
			crashed := fsys.CrashClone(nil)
			if i > 0 {
				crashed = fsys.CrashClone(rng)
			}
			m, l := openTopic(t, crashed, Config{})
			if err := l.Err(); err != nil {
				t.Fatalf("crash before %s %s: %v", op.Kind, op.Path, err)
			}
			if s := l.State(); s.First > 40 || s.Watermark != 60 {
				t.Errorf("crash before %s %s: %+v", op.Kind, op.Path, s)
			}
			payloads(t, l)
			mustClose(t, m)
		}
		return nil
	})
	mustRetain(t, m)
	fsys.SetHook(nil)
	wantFiles(t, fsys, 40, 50)
	wantFiles(t, fsys.CrashClone(nil), 40, 50)
	if steps != 8 {
		t.Errorf("%d steps, want a removal and a sync of the folder for each of four segments", steps)
	}
}

// TestRetentionFails: what cannot be removed now is removed later, in order, and
// never shown again while the broker runs.
func TestRetentionFails(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpRemove, vfs.OpSyncDir} {
		for n := 1; n <= 4; n++ {
			fsys, m, l := sixSegments(t)
			fsys.SetHook(vfs.FailNth(kind, n, syscall.EIO))
			err := m.Retain(testContext(t))
			fsys.SetHook(nil)
			if !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s %d fails: %v", kind, n, err)
			}
			wantContains(t, err.Error(), `topic "t" partition 0`, "/log/t-0")
			wantState(t, l, 40, 60, 60, 2)
			if got := segmentFiles(t, fsys); got[0] != int64(10*n)-10 && got[0] != int64(10*n) {
				t.Errorf("%s %d failed: files %v are left", kind, n, got)
			}
			_, reopened := openTopic(t, fsys.CrashClone(nil), Config{})
			if err := reopened.Err(); err != nil {
				t.Errorf("%s %d failed, crash: %v", kind, n, err)
			}
			mustRetain(t, m)
			wantFiles(t, fsys, 40, 50)
			wantFiles(t, fsys.CrashClone(nil), 40, 50)
			mustClose(t, m)
		}
	}
}

// TestRetentionAndDeleteTopic: retention at work on the files of a topic that is
// deleted never removes one of the topic that comes after it.
func TestRetentionAndDeleteTopic(t *testing.T) {
	fsys, m, old := sixSegments(t)
	made := make(chan *Log, 1)
	var once sync.Once
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind != vfs.OpRemove || op.Path != segmentPath(0) {
			return nil
		}
		once.Do(func() {
			go func() {
				if err := m.DeleteTopic("t"); err != nil {
					t.Error(err)
				}
				l, err := m.Ensure("t", 0)
				if err != nil {
					t.Error(err)
				}
				made <- l
			}()
			eventually(t, "the topic is about to be deleted", func() bool { return old.ended.Load() != nil })
			select {
			case l := <-made: // and it must not
				t.Error("deleted while retention works on the files")
				made <- l
			case <-time.After(20 * time.Millisecond):
			}
		})
		return nil
	})
	mustRetain(t, m)
	l := <-made
	fsys.SetHook(nil)
	mustAppend(t, l, []byte("new"))
	mustFlush(t, l)
	if err := old.retain(testContext(t), true); err != nil {
		t.Error(err)
	}
	wantFiles(t, fsys, 0)
	wantPayloads(t, l, []byte("new"))
}

// TestRetentionBesideEverything: appends, flushes, retention and readers at the
// same time. Whoever reads gets what was written there, or is told that it is
// out of range, and then it is.
func TestRetentionBesideEverything(t *testing.T) {
	const size = 50 // of an entry; the i-th is at size * i
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 500, RetentionBytes: 3000, OpenSegments: 2})
	rng, ctx := newRand(t), testContext(t)
	written := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		defer close(written)
		for i := range 3000 {
			a, err := l.Append(set(payload(i, size-9)), 1)
			if err == nil && i%10 == 0 {
				err = l.WaitFlushed(ctx, a.Next)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	until := func(do func()) {
		work.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
					do()
				}
			}
		})
	}
	until(func() {
		if err := m.Retain(ctx); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		readerRng := rand.New(rand.NewPCG(rng.Uint64(), 3))
		until(func() {
			s := l.State()
			if s.Watermark-s.First < size {
				return
			}
			i := s.First/size + readerRng.Int64N((s.Watermark-s.First)/size)
			slice, err := l.Read(i*size, size)
			if errors.Is(err, ErrOffsetOutOfRange) {
				if l.State().First <= i*size {
					t.Errorf("offset %d: %v", i*size, err)
				}
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer slice.Release()
			b := make([]byte, size)
			if _, err := slice.ReadAt(b, 0); err != nil || !bytes.Equal(b, set(payload(int(i), size-9))) {
				t.Errorf("offset %d: not what was written, %v", i*size, err)
			}
		})
	}
	work.Wait()
	mustFlush(t, l)
	mustRetain(t, m)
	if s := l.State(); s.LogEnd != 3000*size || s.Bytes < 3000 || s.Bytes >= 3000+550 {
		t.Errorf("at the end: %+v", s)
	}
	if n := len(segmentFiles(t, fsys)); n != l.State().Segments {
		t.Errorf("%d files for %d segments", n, l.State().Segments)
	}
	mustClose(t, m)
}

// TestRetentionEndsWithItsContext: what is left is done the next time.
func TestRetentionEndsWithItsContext(t *testing.T) {
	fsys, m, l := sixSegments(t)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove {
			cancel()
		}
		return nil
	})
	if err := m.Retain(ctx); err != nil {
		t.Error(err) // it came to the end of the only log
	}
	wantFiles(t, fsys, 10, 20, 30, 40, 50)
	if err := m.Retain(ctx); err == nil {
		t.Error("retained with a context that has ended")
	}
	fsys.SetHook(nil)
	mustRetain(t, m)
	wantFiles(t, fsys, 40, 50)
	wantState(t, l, 40, 60, 60, 2)
}

// TestDamageInAClosedSegment: it neither stops the start nor is it handed out as
// a message: whoever reads checks the CRC, as a fetch goes from file to socket.
func TestDamageInAClosedSegment(t *testing.T) {
	fsys, m, _ := sixSegments(t)
	mustClose(t, m)
	b := content(t, fsys, segmentPath(20))
	b[len(b)-1] ^= 1
	for _, clean := range []bool{true, false} {
		name := fmt.Sprintf("clean %v", clean)
		put(t, fsys, segmentPath(20), b)
		if !clean {
			if err := fsys.Remove(testDir + "/" + cleanName); err != nil {
				t.Fatal(err)
			}
		}
		m, l := openTopic(t, fsys, Config{})
		if err := l.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantState(t, l, 0, 60, 60, 6)
		if got := read(t, l, 20, 10)[:10]; !bytes.Equal(got, b) {
			t.Errorf("%s: read %x", name, got)
		}
		it := message.Set(read(t, l, 0, 1<<20)).Iterate(0)
		n := 0
		for it.Next() {
			n++
		}
		if n != 2 || it.Err() == nil {
			t.Errorf("%s: %d messages before the damage, %v", name, n, it.Err())
		}
		mustClose(t, m)
	}
}
