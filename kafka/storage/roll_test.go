package storage

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
)

const day = 24 * time.Hour

// TestRollByAge: a segment is rolled by the append that comes more than the
// interval after its first one, however little it holds, and flushed first.
func TestRollByAge(t *testing.T) {
	fsys, c := newTestFS()
	_, l := openTopic(t, fsys, Config{RollInterval: time.Hour, Clock: c})
	c.Advance(10 * time.Hour)
	mustAppend(t, l, []byte("a")) // the age begins here, not with the file
	c.Advance(time.Hour)
	mustAppend(t, l, []byte("b"))
	wantState(t, l, 0, 0, 20, 1)
	c.Advance(1)
	mustAppend(t, l, []byte("c"))
	wantState(t, l, 0, 20, 30, 2)
	for i := range 5 { // low traffic
		c.Advance(time.Hour + 1)
		mustAppend(t, l, []byte("d"))
		wantState(t, l, 0, 30+10*int64(i), 40+10*int64(i), 3+i)
	}
}

// TestAppendFailure: a log that cannot roll says so while it is in service and
// until an append succeeds, or none is tried any more; an append of nothing proves
// nothing.
func TestAppendFailure(t *testing.T) {
	fsys, c := newTestFS()
	_, l := openTopic(t, fsys, Config{SegmentBytes: 5, Clock: c})
	want := func(at time.Time, text string) {
		t.Helper()
		f := l.AppendFailure()
		if text == "" && f == nil {
			return
		}
		if text == "" || f == nil || !f.At.Equal(at) {
			t.Fatalf("got %+v, want %v of %v", f, text, at)
		}
		wantContains(t, f.Err.Error(), `topic "t" partition 0`, text)
	}
	want(time.Time{}, "")
	mustAppend(t, l, []byte("a"))
	want(time.Time{}, "")
	began := c.Now()
	for _, cause := range []error{syscall.EACCES, syscall.ENOSPC} {
		fsys.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpCreate {
				return cause
			}
			return nil
		})
		if _, err := l.Append(set([]byte("b")), 1); !errors.Is(err, cause) {
			t.Fatalf("append: %v, want %v", err, cause)
		}
		want(began, cause.Error())
		c.Advance(time.Minute)
	}
	if _, err := l.Append(nil, 0); err != nil {
		t.Fatal(err)
	}
	want(began, syscall.ENOSPC.Error())
	c.Advance(5 * time.Minute)
	want(time.Time{}, "") // who wrote to it has given up
	if _, err := l.Append(set([]byte("b")), 1); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	want(began, syscall.ENOSPC.Error())
	fsys.SetHook(nil)
	mustAppend(t, l, []byte("b"))
	want(time.Time{}, "")
}

// TestRollNeverEmpty: a segment without a message is not rolled, neither by age
// nor by an append of nothing (KAFKA-292).
func TestRollNeverEmpty(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{RollInterval: time.Hour, Clock: c})
	for range 3 {
		c.Advance(2 * time.Hour)
		if _, err := l.Append(nil, 0); err != nil {
			t.Fatal(err)
		}
		wantState(t, l, 0, 0, 0, 1)
		mustClose(t, m)
		m, l = openTopic(t, fsys, Config{RollInterval: time.Hour, Clock: c})
	}
	c.Advance(2 * time.Hour)
	mustAppend(t, l, []byte("a"))
	wantState(t, l, 0, 0, 10, 1)
	mustFlush(t, l)
	c.Advance(2 * time.Hour)
	if _, err := l.Append(nil, 0); err != nil {
		t.Fatal(err)
	}
	wantState(t, l, 0, 10, 10, 1)
}

// TestRollByAgeOverRestarts: a broker that is restarted more often than its
// segments are to be rolled rolls them nevertheless (KAFKA-475), and not before
// their time.
func TestRollByAgeOverRestarts(t *testing.T) {
	for _, how := range []string{"close", "kill", "crash"} {
		t.Run(how, func(t *testing.T) {
			fsys, c := newTestFS()
			cfg := Config{RollInterval: time.Hour, Clock: c}
			m, l := openTopic(t, fsys, cfg)
			mustAppend(t, l, []byte("x"))
			mustFlush(t, l)
			var rolled []int64 // minutes after the first append
			for minute := int64(20); minute <= 240; minute += 20 {
				c.Advance(10 * time.Minute)
				switch how {
				case "kill":
					fsys = fsys.Clone()
				case "crash":
					fsys = fsys.CrashClone(nil)
				}
				mustClose(t, m)
				m, l = openTopic(t, fsys, cfg)
				c.Advance(10 * time.Minute)
				before := l.State().Segments
				mustAppend(t, l, []byte("x"))
				mustFlush(t, l)
				if l.State().Segments > before {
					rolled = append(rolled, minute)
				}
			}
			if want := []int64{80, 160, 240}; !slices.Equal(rolled, want) {
				t.Errorf("rolled after %v minutes, want %v", rolled, want)
			}
		})
	}
}

// TestRollByAgeAfterCut: what recovery cuts off takes its age with it
// (KAFKA-596).
func TestRollByAgeAfterCut(t *testing.T) {
	fsys, c := newTestFS()
	put(t, fsys, segmentPath(0), []byte("no message at all"))
	c.Advance(2 * time.Hour)
	_, l := openTopic(t, fsys, Config{RollInterval: time.Hour, Clock: c})
	wantState(t, l, 0, 0, 0, 1)
	mustAppend(t, l, []byte("x"))
	c.Advance(time.Hour)
	mustAppend(t, l, []byte("x"))
	wantState(t, l, 0, 0, 20, 1)
	c.Advance(1)
	mustAppend(t, l, []byte("x"))
	wantState(t, l, 0, 20, 30, 2)
}

// TestRollOverStaleFile: a file in the way of a roll is used when it is empty,
// and put aside when it is not (KAFKA-654).
func TestRollOverStaleFile(t *testing.T) {
	for _, stale := range []string{"", "not ours"} {
		fsys, _ := newTestFS()
		var logged logBuffer
		m, l := openTopic(t, fsys, Config{SegmentBytes: 1, Logger: logged.logger()})
		mustAppend(t, l, []byte("a"))
		put(t, fsys, segmentPath(10), []byte(stale))
		put(t, fsys, segmentPath(10)+".stale", []byte("an older one"))
		mustAppend(t, l, []byte("b"))
		mustFlush(t, l)
		wantPayloads(t, l, []byte("a"), []byte("b"))
		if stale != "" {
			if got := content(t, fsys, segmentPath(10)+".stale.2"); string(got) != stale {
				t.Errorf("put aside: %q", got)
			}
			wantContains(t, logged.String(), "topic=t", "partition=0", segmentPath(10)+".stale.2")
		}
		if got := content(t, fsys, segmentPath(10)+".stale"); string(got) != "an older one" {
			t.Errorf("the older one holds %q now", got)
		}
		mustClose(t, m)
		_, l = openTopic(t, fsys, Config{})
		wantPayloads(t, l, []byte("a"), []byte("b"))
	}
}

// TestB05RollAtFileLimit: too many open files are no reason to take a partition out
// of service (fault B05). The next attempt succeeds, with the file that the
// failed one has left.
func TestB05RollAtFileLimit(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpSyncDir} {
		fsys, _ := newTestFS()
		m, l := openTopic(t, fsys, Config{SegmentBytes: 1})
		mustAppend(t, l, []byte("a"))
		fsys.SetHook(vfs.FailNth(kind, 1, syscall.EMFILE))
		if _, err := l.Append(set([]byte("b")), 1); !errors.Is(err, syscall.EMFILE) || errors.Is(err, ErrOutOfService) {
			t.Fatalf("%s fails: %v", kind, err)
		}
		fsys.SetHook(nil)
		if err := l.Err(); err != nil {
			t.Fatalf("%s failed: %v", kind, err)
		}
		mustAppend(t, l, []byte("c"))
		mustFlush(t, l)
		wantPayloads(t, l, []byte("a"), []byte("c"))
		mustClose(t, m)
	}
}

// TestMoment: what a step of the clock does to ages.
func TestMoment(t *testing.T) {
	const year = 365 * day
	file := testStart.Add(-3 * day) // the time of a file: 3 days ago
	cases := []struct {
		name  string
		steps string // look; forward and back by a year; hour goes by; right
		first moment
		start time.Time // what the clock shows first
		want  time.Duration
	}{
		{"nothing appended", "hour", moment{}, testStart, 0},
		{"appended, an hour later", "hour", seenAt(0), testStart, time.Hour},
		{"appended, clock put forward", "hour forward", seenAt(0), testStart, time.Hour},
		{"appended, clock put back", "hour back back", seenAt(0), testStart, time.Hour},
		{"file", "", toldOf(file, 0), testStart, 3 * day},
		{"file, an hour later", "look hour", toldOf(file, 0), testStart, 3*day + time.Hour},
		{"file, clock put forward", "look forward hour", toldOf(file, 0), testStart, 3*day + time.Hour},
		{"file, clock put forward before anybody looks", "forward", toldOf(file, 0), testStart, 3*day + year},
		{"file, clock put back before the file", "look back hour", toldOf(file, 0), testStart, 0},
		{"and an hour later", "look back look hour", toldOf(file, 0), testStart, time.Hour},
		{"and put right", "look back look hour right hour", toldOf(file, 0), testStart, 3*day + 2*time.Hour},
		{"clock ahead, put right", "look hour right hour", toldOf(file, 0), testStart.Add(2 * day), 3*day + 2*time.Hour},
		{"clock behind", "look hour", toldOf(file, 0), testStart.Add(-year), time.Hour},
		{"clock behind, put right", "look hour right hour", toldOf(file, 0), testStart.Add(-year), 3*day + 2*time.Hour},
		{"a file of the year 1", "look hour", toldOf(time.Time{}.Add(1), 0), testStart, longAgo},
	}
	for _, tc := range cases {
		c := clock.NewManual(tc.start)
		right := testStart // what the clock ought to show
		m := tc.first
		for _, step := range strings.Fields(tc.steps) {
			switch step {
			case "look":
				m.age(c, c.Elapsed())
			case "forward":
				c.Step(year)
			case "back":
				c.Step(-year)
			case "hour":
				c.Advance(time.Hour)
				right = right.Add(time.Hour)
			case "right":
				c.Step(right.Sub(c.Now()))
			}
		}
		if got := m.age(c, c.Elapsed()); got != tc.want {
			t.Errorf("%s: age %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestFirstAppend: what is taken for the first append to the last segment file.
func TestFirstAppend(t *testing.T) {
	at := func(minute int) time.Time { return testStart.Add(time.Duration(minute) * time.Minute) }
	cases := []struct {
		name    string
		folder  int
		written []int
		want    int
	}{
		{"only segment", 5, []int{60}, 5},
		{"rolled", 50, []int{40, 60}, 50},
		{"an older one was deleted since", 55, []int{40, 60}, 55},
		{"folder was changed after the last append", 70, []int{40, 60}, 60},
		{"folder is older: a copy", 3, []int{40, 60}, 40},
		{"files out of order", 3, []int{80, 60}, 60},
	}
	for _, c := range cases {
		var files []segmentFile
		for _, minute := range c.written {
			files = append(files, segmentFile{written: at(minute)})
		}
		if got := firstAppend(at(c.folder), files); !got.Equal(at(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, got, at(c.want))
		}
	}
}
