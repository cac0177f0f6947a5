package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// The messages of the crash table: crashA and crashB are flushed, crashC is what
// the crash comes to.
var (
	crashA, crashB, crashC = payload(1, 700), payload(2, 600), payload(3, 500)
	crashAB, crashSetC     = set(crashA, crashB), set(crashC)
)

const crashABEnd = 700 + 600 + 2*message.Overhead0

// crashRow is a row of the table of crashes in the package's documentation.
type crashRow struct {
	name string
	// states are the disks that the crash may leave.
	states func(t *testing.T) []*vfs.Mem
	// kept are the messages that are there after the start; of maybe the first
	// ones may be.
	kept, maybe [][]byte
	segments    int // after the start
	// cuts says that the last segment is cut and the rest of it saved.
	cuts bool
	// then, if there is one, looks at what is special: m is open, l in service.
	then func(t *testing.T, fsys *vfs.Mem, m *Manager, l *Log)
	// special rows are tests of their own, instead of all this.
	special func(t *testing.T)
}

// disk returns a file system that has the files of partition 0 of topic t, safe.
func disk(t testing.TB, files map[string][]byte) *vfs.Mem {
	t.Helper()
	fsys, _ := newTestFS()
	mkdirAll(t, fsys, filepath.Join(testDir, "t-0"))
	for name, b := range files {
		put(t, fsys, filepath.Join(testDir, "t-0", name), b)
	}
	return fsys.Clone()
}

// lastSegment returns a state for each content that the only segment may have.
func lastSegment(contents ...[]byte) func(*testing.T) []*vfs.Mem {
	return func(t *testing.T) (states []*vfs.Mem) {
		for _, b := range contents {
			states = append(states, disk(t, map[string][]byte{segmentName(0): b}))
		}
		return states
	}
}

// behindAB returns crashA and crashB with something behind them.
func behindAB(tails ...[]byte) (contents [][]byte) {
	for _, tail := range tails {
		contents = append(contents, append(slices.Clone(crashAB), tail...))
	}
	return contents
}

// changedC returns the set of crashC with one byte changed.
func changedC(at int, to byte) []byte {
	b := slices.Clone(crashSetC)
	b[at] = to
	return b
}

// tornTails returns every proper beginning of the set of crashC.
func tornTails() (tails [][]byte) {
	for n := 1; n < len(crashSetC); n++ {
		tails = append(tails, crashSetC[:n])
	}
	return tails
}

func crashTable() []crashRow {
	ab, abc := [][]byte{crashA, crashB}, [][]byte{crashA, crashB, crashC}
	tail := crashSetC[:300]
	return []crashRow{
		{name: "before a write", states: lastSegment(crashAB), kept: ab, segments: 1},
		{name: "in a write, torn at any byte", states: lastSegment(behindAB(tornTails()...)...), kept: ab, segments: 1, cuts: true},
		{name: "after a write, before its flush", states: crashesOf(2), kept: ab, maybe: abc[2:], segments: 1},
		{name: "after a flush", states: crashesOf(3), kept: abc, segments: 1},
		{name: "zeros behind the log, up to a GiB", // the GiB itself is in TestB02Zeros
			states: lastSegment(behindAB(make([]byte, 1), make([]byte, 4<<10), make([]byte, 1<<20))...), kept: ab, segments: 1, cuts: true},
		{name: "unknown magic", states: lastSegment(behindAB(changedC(4, 2), changedC(4, 0xff))...), kept: ab, segments: 1, cuts: true},
		{name: "length below the minimum", kept: ab, segments: 1, cuts: true,
			states: lastSegment(behindAB(append(make([]byte, 4), crashSetC[4:]...), changedC(0, 0xff), append([]byte{0, 0, 0, 4}, crashSetC...), []byte{0, 0, 0, 5, 1, 0, 0, 0, 0, 0})...)},
		{name: "checksum that does not match", states: lastSegment(behindAB(changedC(5, ^crashSetC[5]), changedC(508, ^crashSetC[508]))...),
			kept: ab, segments: 1, cuts: true},
		{name: "rolling, before the new file", states: lastSegment(crashAB), kept: ab, segments: 1,
			then: func(t *testing.T, _ *vfs.Mem, _ *Manager, l *Log) {
				mustAppend(t, l, crashC)
				wantState(t, l, 0, crashABEnd, crashABEnd+509, 2)
			}},
		{name: "between a roll and the first write", kept: ab, segments: 2, states: func(t *testing.T) []*vfs.Mem {
			return []*vfs.Mem{disk(t, map[string][]byte{segmentName(0): crashAB, segmentName(crashABEnd): nil})}
		}},
		{name: "newest segment of zeros only", kept: ab, segments: 2, cuts: true, states: func(t *testing.T) []*vfs.Mem {
			return []*vfs.Mem{disk(t, map[string][]byte{segmentName(0): crashAB, segmentName(crashABEnd): make([]byte, 8<<10)})}
		}},
		{name: "damage in a closed segment", special: testDamageInClosedSegment},
		{name: "gap between segments", special: testGapBetweenSegments},
		{name: "making a partition, before its file", segments: 1, states: func(t *testing.T) []*vfs.Mem {
			return []*vfs.Mem{disk(t, nil)}
		}},
		{name: "recovery, saving a tail", kept: ab, segments: 1, cuts: true, states: func(t *testing.T) []*vfs.Mem {
			return []*vfs.Mem{disk(t, map[string][]byte{segmentName(0): behindAB(tail)[0],
				segmentName(0) + cutSuffix + "1318.tmp": tail[:100]})}
		}, then: wantNo(temporarySuffix)},
		{name: "recovery, before the cut", kept: ab, segments: 1, cuts: true, states: func(t *testing.T) []*vfs.Mem {
			return []*vfs.Mem{disk(t, map[string][]byte{segmentName(0): behindAB(tail)[0], segmentName(0) + cutSuffix + "1318": tail})}
		}, then: func(t *testing.T, fsys *vfs.Mem, _ *Manager, _ *Log) {
			if got := content(t, fsys, segmentPath(0)+cutSuffix+"1318.2"); !bytes.Equal(got, tail) {
				t.Errorf("the second copy holds %d bytes", len(got))
			}
		}},
		{name: "recovery, no room to save", special: testRecoveryNoRoomToSave},
		{name: "recovery, its sync fails", special: testRecoverySyncFails},
		{name: "rewriting, before the new name", kept: abc, segments: 1, states: func(t *testing.T) []*vfs.Mem {
			return []*vfs.Mem{disk(t, map[string][]byte{segmentName(0): append(slices.Clone(crashAB), crashSetC...),
				segmentName(crashABEnd) + temporarySuffix: crashSetC[:100]})}
		}, then: wantNo(temporarySuffix)},
		{name: "rewriting, after the new name", kept: abc, segments: 2, states: func(t *testing.T) (states []*vfs.Mem) {
			// What the old file shows there after a crash is anything.
			for _, twice := range [][]byte{crashSetC, crashSetC[:400], append(slices.Clone(crashSetC), "torn"...), make([]byte, 509), payload(9, 600)} {
				states = append(states, disk(t, map[string][]byte{segmentName(0): behindAB(twice)[0], segmentName(crashABEnd): crashSetC}))
			}
			return states
		}, then: func(t *testing.T, fsys *vfs.Mem, _ *Manager, _ *Log) {
			if size := fileSize(fsys, segmentPath(0)); size != crashABEnd {
				t.Errorf("the old segment has %d bytes", size)
			}
		}},
		{name: "rewriting a whole segment", special: testRewritingWholeSegment},
		{name: "killed after a failed sync", special: TestB04KilledAfterFailedSync},
		{name: "rewriting the topics file", kept: ab, segments: 1, states: func(t *testing.T) []*vfs.Mem {
			fsys := disk(t, map[string][]byte{segmentName(0): crashAB})
			put(t, fsys, filepath.Join(testDir, topicsName), []byte(topicsHeader+"\n3 t\nend 1\n"))
			put(t, fsys, filepath.Join(testDir, topicsName+temporarySuffix), []byte(topicsHeader+"\n4 "))
			return []*vfs.Mem{fsys}
		}, then: func(t *testing.T, _ *vfs.Mem, m *Manager, _ *Log) {
			if n := m.Partitions([]byte("t")); n != 3 {
				t.Errorf("%d partitions", n)
			}
			if err := m.CreateTopic("other", 2); err != nil {
				t.Error(err)
			}
		}},
		{name: "retention, between two files", kept: abc[2:], segments: 1, states: func(t *testing.T) []*vfs.Mem {
			return []*vfs.Mem{disk(t, map[string][]byte{segmentName(crashABEnd): crashSetC})}
		}, then: func(t *testing.T, _ *vfs.Mem, _ *Manager, l *Log) {
			wantState(t, l, crashABEnd, crashABEnd+509, crashABEnd+509, 1)
		}},
		{name: "deleting a topic", kept: ab, segments: 1, states: func(t *testing.T) []*vfs.Mem {
			fsys := disk(t, map[string][]byte{segmentName(0): crashAB})
			put(t, fsys, filepath.Join(testDir, ".1"+deletedSuffix, segmentName(0)), crashSetC)
			put(t, fsys, filepath.Join(testDir, ".2"+deletedSuffix, segmentName(7)), crashSetC)
			return []*vfs.Mem{fsys}
		}, then: func(t *testing.T, fsys *vfs.Mem, m *Manager, _ *Log) {
			if len(m.Topics()) != 1 || fileSize(fsys, filepath.Join(testDir, ".1"+deletedSuffix)) >= 0 {
				t.Errorf("topics %v, or the folder is still there", m.Topics())
			}
		}},
	}
}

// crashesOf returns crashes of the machine with all three messages appended and
// the first so many flushed.
func crashesOf(flushed int) func(*testing.T) []*vfs.Mem {
	return func(t *testing.T) []*vfs.Mem {
		rng := newRand(t)
		fsys, _ := newTestFS()
		_, l := openTopic(t, fsys, Config{})
		for i, p := range [][]byte{crashA, crashB, crashC} {
			mustAppend(t, l, p)
			if i+1 == flushed {
				mustFlush(t, l)
			}
		}
		states := []*vfs.Mem{fsys.CrashClone(nil)}
		for range 20 {
			states = append(states, fsys.CrashClone(rng))
		}
		return states
	}
}

// wantNo makes sure that no file of the partition's folder ends in a suffix.
func wantNo(suffix string) func(*testing.T, *vfs.Mem, *Manager, *Log) {
	return func(t *testing.T, fsys *vfs.Mem, _ *Manager, _ *Log) {
		for name := range strings.FieldsSeq(folderNames(t, fsys)) {
			if strings.HasSuffix(name, suffix) {
				t.Errorf("%s is still there", name)
			}
		}
	}
}

// TestCrashTable has the rows of the table in the package's documentation: each
// state that a crash leaves opens, everything flushed is there, what was cut is
// saved, the log goes on where it ends, and so does the start after that.
func TestCrashTable(t *testing.T) {
	for _, row := range crashTable() {
		t.Run(row.name, func(t *testing.T) {
			if row.special != nil {
				row.special(t)
				return
			}
			for i, fsys := range row.states(t) {
				if row.run(t, fsys); t.Failed() {
					t.Fatalf("state %d: the folder has %s", i, folderNames(t, fsys))
				}
			}
		})
	}
}

func (row crashRow) run(t *testing.T, fsys *vfs.Mem) {
	t.Helper()
	before := map[string][]byte{}
	for name := range strings.FieldsSeq(folderNames(t, fsys)) {
		before[name] = content(t, fsys, filepath.Join(testDir, "t-0", name))
	}
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1000, noRestorer: true})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	got := payloads(t, l)
	all := append(row.kept[:len(row.kept):len(row.kept)], row.maybe...)
	if len(got) < len(row.kept) || len(got) > len(all) || !slices.EqualFunc(got, all[:len(got)], bytes.Equal) {
		t.Fatalf("%d messages are there, %d wanted and perhaps %d more", len(got), len(row.kept), len(row.maybe))
	}
	s := l.State()
	if s.LogEnd != s.Watermark || s.Segments != row.segments {
		t.Errorf("state %+v, %d segments wanted", s, row.segments)
	}
	list := *l.segments.Load()
	last := segmentName(list[len(list)-1].base)
	left := content(t, fsys, filepath.Join(testDir, "t-0", last))
	cut := fmt.Sprintf("%s%s%d", last, cutSuffix, s.LogEnd)
	switch saved := fileSize(fsys, filepath.Join(testDir, "t-0", cut)); {
	case row.cuts && saved < 0:
		t.Errorf("there is no %s", cut)
	case row.cuts:
		left = append(left, content(t, fsys, filepath.Join(testDir, "t-0", cut))...)
		fallthrough
	case row.maybe == nil:
		if !bytes.Equal(left, before[last]) {
			t.Errorf("of %d bytes in the last segment %d are left or saved", len(before[last]), len(left))
		}
	}
	if row.then != nil {
		row.then(t, fsys, m, l)
	}
	a := mustAppend(t, l, []byte("next"))
	mustFlush(t, l)
	want := payloads(t, l)
	m, l = openTopic(t, fsys.CrashClone(nil), Config{noRestorer: true})
	wantPayloads(t, l, want...)
	if s := l.State(); s.LogEnd != a.Next {
		t.Errorf("after the next crash the log ends at %d, not %d", s.LogEnd, a.Next)
	}
	mustClose(t, m)
}

// TestCrashTableIsDocumented: the table in the package's documentation has the
// rows of the test, no more and no less.
func TestCrashTableIsDocumented(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	inTable := false
	for line := range strings.Lines(string(source)) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		switch {
		case ok && strings.HasPrefix(text, "crash ") && strings.Contains(text, "next start"):
			inTable = true
		case !ok:
			inTable = false
		case inTable && !strings.HasPrefix(text, " "):
			name, _, _ := strings.Cut(text, "  ")
			documented = append(documented, name)
		}
	}
	var tested []string
	for _, row := range crashTable() {
		tested = append(tested, row.name)
	}
	if !slices.Equal(documented, tested) {
		t.Errorf("documented:\n%s\ntested:\n%s", strings.Join(documented, "\n"), strings.Join(tested, "\n"))
	}
}

// testDamageInClosedSegment: it neither stops the start nor is handed out.
func testDamageInClosedSegment(t *testing.T) {
	damaged := slices.Clone(crashAB)
	damaged[len(crashAB)-1]++
	fsys := disk(t, map[string][]byte{segmentName(0): damaged, segmentName(crashABEnd): crashSetC})
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	wantState(t, l, 0, crashABEnd+509, crashABEnd+509, 2)
	it := message.Set(read(t, l, 0, 1<<20)).Iterate(0)
	if !it.Next() || !bytes.Equal(it.Message().Payload, crashA) {
		t.Error("what is before the damage is not there")
	}
	if it.Next() || !errors.Is(it.Err(), message.ErrCRC) {
		t.Errorf("read over the damage: %v", it.Err())
	}
	r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
	if err != nil || !errors.Is(r.Err(), message.ErrCRC) {
		t.Errorf("verify says %v, %v", r.Err(), err)
	}
	it = message.Set(read(t, l, crashABEnd, 1<<20)).Iterate(crashABEnd)
	if !it.Next() || !bytes.Equal(it.Message().Payload, crashC) {
		t.Error("what is behind the damage is not there")
	}
	if !bytes.Equal(content(t, fsys, segmentPath(0)), damaged) {
		t.Error("the closed segment was written to")
	}
	mustClose(t, m)
}

// testGapBetweenSegments: one log is out of service, and back when the file is.
func testGapBetweenSegments(t *testing.T) {
	fsys := disk(t, map[string][]byte{segmentName(0): set(crashA), segmentName(crashABEnd): crashSetC})
	put(t, fsys, filepath.Join(testDir, "other-0", segmentName(0)), crashSetC)
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	var gap Gap
	if err := l.OutOfService(); !errors.Is(err, ErrOutOfService) || !errors.As(err, &gap) || gap.End != 709 || gap.Next != crashABEnd {
		t.Fatalf("out of service: %v", err)
	}
	if err := restoreAll(t, m); !errors.As(err, &gap) {
		t.Errorf("restored: %v", err)
	}
	other := m.Lookup([]byte("other"), 0)
	wantPayloads(t, other, crashC)
	mustAppend(t, other, []byte("goes on"))
	put(t, fsys, segmentPath(709), set(crashB))
	mustRestore(t, m)
	wantState(t, l, 0, crashABEnd+509, crashABEnd+509, 3)
	wantPayloads(t, l, crashA, crashB, crashC)
	mustAppend(t, l, []byte("next"))
	mustClose(t, m)
}

// testRecoveryNoRoomToSave: what cannot be saved is not cut. The log can be read,
// and written to when there is room.
func testRecoveryNoRoomToSave(t *testing.T) {
	torn := behindAB(crashSetC[:300])[0]
	fsys := disk(t, map[string][]byte{segmentName(0): torn})
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && strings.Contains(op.Path, cutSuffix) {
			return syscall.ENOSPC
		}
		return nil
	})
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	for range 2 {
		_, err := l.Append(set([]byte("c")), 1)
		if !errors.Is(err, ErrOutOfService) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("append: %v", err)
		}
		wantPayloads(t, l, crashA, crashB)
		if size := fileSize(fsys, segmentPath(0)); size != int64(len(torn)) {
			t.Errorf("%d bytes left", size)
		}
		if got := folderNames(t, fsys); got != segmentName(0) {
			t.Errorf("the folder has %s", got)
		}
		if err := restoreAll(t, m); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("restored: %v", err)
		}
	}
	fsys.SetHook(nil)
	mustRestore(t, m)
	if got := content(t, fsys, segmentPath(0)+cutSuffix+"1318"); !bytes.Equal(got, torn[crashABEnd:]) {
		t.Errorf("%d bytes saved", len(got))
	}
	mustAppend(t, l, []byte("next"))
	mustFlush(t, l)
	wantPayloads(t, l, crashA, crashB, []byte("next"))
	mustClose(t, m)
}

// testRecoverySyncFails: what reads show then may not be on the disk, and a later
// sync proves nothing. Only closed segments are visible until the last one is
// written anew.
func testRecoverySyncFails(t *testing.T) {
	for _, fault := range []vfs.OpKind{vfs.OpSync, vfs.OpSyncDir} {
		// The process was killed before it had flushed the second segment.
		before, _ := newTestFS()
		_, l := openTopic(t, before, Config{SegmentBytes: 1})
		mustAppend(t, l, crashA, crashB)
		mustAppend(t, l, crashC)
		fsys := before.KillClone()
		put(t, fsys, segmentPath(crashABEnd), append(slices.Clone(crashSetC), "torn"...))

		fsys.SetHook(func(op vfs.Op) error {
			if op.Kind == fault && strings.HasPrefix(op.Path, filepath.Join(testDir, "t-0")) && !strings.Contains(op.Path, cutSuffix) {
				return syscall.EIO
			}
			return nil
		})
		m, l := openTopic(t, fsys, Config{noRestorer: true})
		if err := l.OutOfService(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("%s: out of service: %v", fault, err)
		}
		wantPayloads(t, l, crashA, crashB)
		fsys.SetHook(nil)
		mustRestore(t, m)
		wantPayloads(t, l, crashA, crashB, crashC)
		wantState(t, l, 0, crashABEnd+509, crashABEnd+509, 2)
		crashed := fsys.CrashClone(nil)
		if got := content(t, crashed, segmentPath(crashABEnd)); !bytes.Equal(got, crashSetC) {
			t.Errorf("%s: a crash leaves %d bytes", fault, len(got))
		}
		mustClose(t, m)
	}
}

// testRewritingWholeSegment: the new file has taken the old one's name, or not.
func testRewritingWholeSegment(t *testing.T) {
	rng := newRand(t)
	fsys, m, l, all := failedLog(t, Config{}, false)
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSyncDir {
			for range 10 {
				if err := checkRewritten(t, fsys.CrashClone(rng), all, 0); err != nil {
					t.Error(err)
				}
			}
			if err := checkRewritten(t, fsys.KillClone(), all, len(all)); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	mustRestore(t, m)
	fsys.SetHook(nil)
	wantState(t, l, 0, l.State().LogEnd, l.State().LogEnd, 1)
	wantPayloads(t, l, all...)
}

// TestRecoveryV27: what vector V27 of the Kafka 0.7 reference is cut to.
func TestRecoveryV27(t *testing.T) {
	whole, err := hex.DecodeString("00000015004f673ce474657374206d65737361676520737472" + "0000001601004f673ce474657374206d65737361676520737472" +
		"0000003f01014539a0731f8b0800000000000000636060e06464a8ca69fb989f97ca00e6089eea4a2b29cf0772b81919dc8edef85a9251949a0a000da421ea29000000" +
		"0000000a01004adba9a06c617374")
	if err != nil || len(whole) != 132 {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	flipped := func(at int) []byte {
		b := slices.Clone(whole)
		b[at] ^= 0x20
		return b
	}
	for _, c := range []struct {
		name string
		file []byte
		end  int64
	}{
		{"whole", whole, 132},
		{"cut to 130 bytes", whole[:130], 118},
		{"byte 40 flipped", flipped(40), 25},
		{"byte 60 flipped", flipped(60), 51},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := disk(t, map[string][]byte{segmentName(0): c.file})
			_, l := openTopic(t, fsys, Config{})
			wantState(t, l, 0, c.end, c.end, 1)
			if got := content(t, fsys, segmentPath(0)); !bytes.Equal(got, whole[:c.end]) {
				t.Errorf("%d bytes are left", len(got))
			}
			if c.end == int64(len(c.file)) {
				return
			}
			if got := content(t, fsys, fmt.Sprintf("%s%s%d", segmentPath(0), cutSuffix, c.end)); !bytes.Equal(got, c.file[c.end:]) {
				t.Errorf("%d bytes are saved", len(got))
			}
		})
	}
}

// TestOverlapThatIsNotOurs: a file that no rewriting has left is not trusted more
// than the one that it stands in the way of.
func TestOverlapThatIsNotOurs(t *testing.T) {
	for name, next := range map[string][]byte{"empty": nil, "damaged": changedC(5, ^crashSetC[5]), "zeros": make([]byte, 100)} {
		t.Run(name, func(t *testing.T) {
			old := behindAB(crashSetC)[0]
			fsys := disk(t, map[string][]byte{segmentName(0): old, segmentName(crashABEnd): next})
			_, l := openTopic(t, fsys, Config{noRestorer: true})
			var gap Gap
			if err := l.OutOfService(); !errors.As(err, &gap) {
				t.Errorf("out of service: %v", err)
			}
			if got := content(t, fsys, segmentPath(0)); !bytes.Equal(got, old) {
				t.Errorf("%d bytes are left", len(got))
			}
			if got := content(t, fsys, segmentPath(crashABEnd)); !bytes.Equal(got, next) {
				t.Errorf("%d bytes are left of the next one", len(got))
			}
		})
	}
}
