package storage

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// Special times of a request (Kafka 0.7 §1.5).
const latest, earliest = -1, -2

func wantOffsets(t *testing.T, l *Log, timeMs int64, max int, want ...int64) {
	t.Helper()
	if got := l.OffsetsBefore(timeMs, max); !slices.Equal(got, want) {
		t.Errorf("offsets before %d, at most %d: %v, want %v", timeMs, max, got, want)
	}
}

// magic1 returns an entry of magic 1 with a payload of two bytes: 12 bytes.
func magic1() []byte {
	return []byte{0, 0, 0, 8, 1, 0, 0x79, 0xdc, 0xdd, 0x47, 'o', 'k'}
}

// TestOffsetsWorkedExample is the example of Kafka 0.7 §1.5: messages of 12
// bytes, a roll size of 100, twenty appended one by one and flushed.
func TestOffsetsWorkedExample(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 100, Clock: c})
	for range 20 {
		if _, err := l.Append(magic1(), 1); err != nil {
			t.Fatal(err)
		}
		mustFlush(t, l)
	}
	written := testStart.UnixMilli()
	for range 2 { // and again after a restart
		wantState(t, l, 0, 240, 240, 3)
		wantOffsets(t, l, latest, 10, 240, 216, 108, 0)
		wantOffsets(t, l, written, 10, 240, 216, 108, 0) // now, the end's time, is not after it
		c.Advance(time.Second)
		wantOffsets(t, l, written, 10, 216, 108, 0)
		wantOffsets(t, l, written, 2, 216, 108)
		wantOffsets(t, l, written-1, 10)
		wantOffsets(t, l, earliest, 10, 0)
		wantOffsets(t, l, latest, 1, 240)
		wantOffsets(t, l, latest, 0)
		mustClose(t, m)
		c.Step(-time.Second) // back to when it was written
		m, l = openTopic(t, fsys, Config{SegmentBytes: 100, Clock: c})
	}
}

// TestOffsetsBySegmentTimes: a segment qualifies when its last append is not
// after the time.
func TestOffsetsBySegmentTimes(t *testing.T) {
	fsys, c := newTestFS()
	_, l := openTopic(t, fsys, Config{SegmentBytes: 15, Clock: c})
	for range 6 { // two messages a segment, a minute apart: at 0 1, 2 3, 4 5
		mustAppend(t, l, []byte("x"))
		c.Advance(time.Minute)
	}
	mustFlush(t, l)
	at := func(minute int64) int64 { return testStart.UnixMilli() + minute*60_000 }
	wantOffsets(t, l, at(0), 10)
	wantOffsets(t, l, at(1)-1, 10)
	wantOffsets(t, l, at(1), 10, 0)
	wantOffsets(t, l, at(3)-1, 10, 0)
	wantOffsets(t, l, at(3), 10, 20, 0)
	wantOffsets(t, l, at(5), 10, 40, 20, 0)
	wantOffsets(t, l, at(6)-1, 10, 40, 20, 0)
	wantOffsets(t, l, at(6), 10, 60, 40, 20, 0) // now
	wantOffsets(t, l, -3, 10)                   // no special time: before the epoch
}

// TestOffsetsOfWhatIsNotFlushed: the log end and the watermark are two things;
// what is not visible is not there.
func TestOffsetsOfWhatIsNotFlushed(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 15, Clock: c})
	now := c.Now().UnixMilli()
	wantOffsets(t, l, latest, 10, 0) // the empty segment alone
	wantOffsets(t, l, earliest, 10, 0)
	wantOffsets(t, l, now, 10, 0)
	wantOffsets(t, l, now-1, 10)

	mustAppend(t, l, []byte("a"))
	wantState(t, l, 0, 0, 10, 1)
	wantOffsets(t, l, latest, 10, 0)
	mustFlush(t, l)
	wantOffsets(t, l, latest, 10, 10, 0)
	mustAppend(t, l, []byte("b"))
	mustAppend(t, l, []byte("c")) // in the next segment; the first one was flushed
	wantState(t, l, 0, 20, 30, 2)
	wantOffsets(t, l, latest, 10, 20, 0)
	mustFlush(t, l)
	wantOffsets(t, l, latest, 10, 30, 20, 0)
	mustClose(t, m)
	wantOffsets(t, l, latest, 10)

	_, l = openTopic(t, fsys, Config{Visible: VisibleAppended, Clock: c})
	mustAppend(t, l, []byte("d"))
	wantOffsets(t, l, latest, 10, 40, 20, 0)
}

// noStat is a file system that cannot describe one file.
type noStat struct {
	*vfs.Mem
	path string
	err  error
}

func (n *noStat) Stat(name string) (fs.FileInfo, error) {
	if name == n.path {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: n.err}
	}
	return n.Mem.Stat(name)
}

// TestOffsetsWithoutTime: a segment whose time is unknown does not qualify.
func TestOffsetsWithoutTime(t *testing.T) {
	mem, c := newTestFS()
	var logged logBuffer
	fsys := &noStat{Mem: mem}
	_, l := openTopic(t, fsys, Config{SegmentBytes: 1, Clock: c, Logger: logged.logger()})
	mustAppend(t, l, []byte("a"))
	mustAppend(t, l, []byte("b"))
	mustFlush(t, l)
	at := testStart.UnixMilli()
	c.Advance(time.Minute)
	wantOffsets(t, l, at, 10, 10, 0)
	fsys.path, fsys.err = segmentPath(10), errors.New("no stat")
	wantOffsets(t, l, at, 10, 0)
	wantContains(t, logged.String(), "no stat", segmentPath(10))
	wantOffsets(t, l, latest, 10, 20, 10, 0)
}
