package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// putSegments makes the segments of partition 0 of topic t, one behind the other,
// and returns their base offsets.
func putSegments(t testing.TB, fsys vfs.FS, segments ...[]byte) (bases []int64) {
	t.Helper()
	base := int64(0)
	for _, b := range segments {
		put(t, fsys, segmentPath(base), b)
		bases = append(bases, base)
		base += int64(len(b))
	}
	put(t, fsys, filepath.Join(testDir, lockName), nil)
	return bases
}

// mustRepair repairs and returns what was told.
func mustRepair(t testing.TB, fsys vfs.FS, path string, opt RepairOptions) (RepairReport, []Mend) {
	t.Helper()
	var mends []Mend
	opt.FS = fsys
	r, err := Repair(testContext(t), path, opt, func(m Mend) { mends = append(mends, m) })
	if err != nil {
		t.Fatal(err)
	}
	if n := len(mends); n != r.Mended+r.Left {
		t.Errorf("%d told of, %+v counted", n, r)
	}
	return r, mends
}

// damaged returns b with one bit changed.
func damaged(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x20
	return b
}

// treeOf returns all files with their contents.
func treeOf(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			files[path] = string(content(t, fsys, path))
			continue
		}
		for name, b := range treeOf(t, fsys, path) {
			files[name] = b
		}
		files[path+"/"] = ""
	}
	return files
}

// TestRepair: what is wrong, what is done about it, and what the log is then.
// Each row is also run dry, which says the same and changes nothing.
func TestRepair(t *testing.T) {
	one, two, three := set(payload(1, 40)), set(payload(2, 50)), set(payload(3, 60))
	small := set(payload(4, 5))
	join := func(sets ...[]byte) []byte { return bytes.Join(sets, nil) }
	p1, p2, p3 := payload(1, 40), payload(2, 50), payload(3, 60)
	all := RepairOptions{ReplaceDamaged: true, AcceptGaps: true}
	segments := func(list ...[]byte) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) { putSegments(t, fsys, list...) }
	}
	at := func(base int, b []byte) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) { put(t, fsys, segmentPath(int64(base)), b) }
	}
	both := func(steps ...func(*testing.T, vfs.FS)) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) {
			for _, step := range steps {
				step(t, fsys)
			}
		}
	}
	for name, test := range map[string]struct {
		given        func(*testing.T, vfs.FS)
		opt          RepairOptions
		mended, left int
		says         []string
		want         [][]byte // payloads that can be consumed then; nil: the log is not fit for service
		kept         map[string][]byte
	}{
		"nothing": {given: segments(one, two), opt: all, want: [][]byte{p1, p2}},
		"torn tail": {given: segments(one, join(two, three[:20])), mended: 1, says: []string{"20 bytes cut off the end of the log"},
			want: [][]byte{p1, p2}, kept: map[string][]byte{segmentPath(49) + ".cut-108": three[:20]}},
		"zeros behind": {given: segments(join(one, make([]byte, 9000))), opt: all, mended: 1, want: [][]byte{p1},
			kept: map[string][]byte{segmentPath(0) + ".cut-49": make([]byte, 9000)}},
		"damage in the last segment": {given: segments(join(one, damaged(two, 20), three)), left: 1,
			says: []string{"1 sound message lies behind the damage: --replace-damaged keeps them, --cut gives them up"}, want: [][]byte{p1}},
		"damage in the last segment, and a torn tail": {given: segments(join(one, damaged(two, 20), three, one[:5])), mended: 1, left: 1,
			says: []string{"1 sound message lies behind", "5 bytes cut off"}, want: [][]byte{p1},
			kept: map[string][]byte{segmentPath(0) + ".cut-177": one[:5]}},
		"damage in the last segment, cut": {given: segments(join(one, damaged(two, 20), three)), opt: RepairOptions{Cut: true}, mended: 1,
			says: []string{"128 bytes cut off"},
			want: [][]byte{p1}, kept: map[string][]byte{segmentPath(0) + ".cut-49": join(damaged(two, 20), three)}},
		"damage in the last segment, replaced": {given: segments(join(one, damaged(two, 20), three)), opt: all, mended: 1,
			says: []string{"59 bytes replaced by fillers: consumers pass over them"},
			want: [][]byte{p1, p3}, kept: map[string][]byte{segmentPath(0) + ".replaced-49": damaged(two, 20)}},
		"both, and a torn tail": {given: segments(join(one, damaged(two, 20), three, one[:5])), opt: all, mended: 2,
			want: [][]byte{p1, p3}, kept: map[string][]byte{segmentPath(0) + ".replaced-49": damaged(two, 20), segmentPath(0) + ".cut-177": one[:5]}},
		"damage in a closed segment": {given: segments(join(one, damaged(two, 20)), three), left: 1,
			says: []string{"checksum mismatch", "consumers stop there", "--replace-damaged"}, want: [][]byte{p1}},
		"damage in a closed segment, replaced": {given: segments(join(one, damaged(two, 20)), three), opt: all, mended: 1,
			want: [][]byte{p1, p3}, kept: map[string][]byte{segmentPath(0) + ".replaced-49": damaged(two, 20)}},
		"damage too short to be passed over": {given: segments(join(one, damaged(small, 10), two), three), opt: all, mended: 1,
			says: []string{"consumers get a message of 5 bytes, all zero"},
			want: [][]byte{p1, make([]byte, 5), p2, p3}, kept: map[string][]byte{segmentPath(0) + ".replaced-49": damaged(small, 10)}},
		"lengths destroyed": {given: segments(join(one, make([]byte, 100), two, three)), opt: all, mended: 1,
			want: [][]byte{p1, p2, p3}, kept: map[string][]byte{segmentPath(0) + ".replaced-49": make([]byte, 100)}},
		"damage in a closed segment is not cut": {given: segments(join(one, damaged(two, 20)), three), opt: RepairOptions{Cut: true}, left: 1,
			says: []string{"consumers stop there"}, want: [][]byte{p1}},
		"nothing sound behind two damages": {given: segments(join(one, damaged(two, 20), damaged(three, 20))), mended: 1,
			says: []string{"128 bytes cut off"}, want: [][]byte{p1}},
		"a compressed one, damaged inside": {given: segments(join(one, message.Append1(nil, []byte("this is not gzip, but the checksum fits"), message.CodecGzip), two)), opt: all, mended: 1,
			says: []string{"inside a compressed message"}, want: [][]byte{p1, p2}},
		"the same, left": {given: segments(join(one, message.Append1(nil, []byte("this is not gzip, but the checksum fits"), message.CodecGzip), two)), left: 1,
			want: [][]byte{p1}},
		"overlap, the same twice": {given: both(segments(join(one, two)), at(49, join(two, three))), mended: 1,
			says: []string{"59 bytes cut off the older segment at offset 49, which the newer one holds"}, want: [][]byte{p1, p2, p3}},
		"overlap, something else": {given: both(segments(join(one, small, small, small)), at(49, join(two, three))), mended: 1,
			want: [][]byte{p1, p2, p3}, kept: map[string][]byte{segmentPath(0) + ".cut-49": join(small, small, small)}},
		"overlap, and the newer one damaged": {given: both(segments(join(one, two)), at(49, damaged(two, 30))), left: 2,
			says: []string{"the newer one is damaged there", "decide first which one is right"}},
		"overlap behind the newer one": {given: both(segments(join(one, two, three)), at(49, two)), mended: 1,
			want: [][]byte{p1, p2}, kept: map[string][]byte{segmentPath(0) + ".cut-49": join(two, three)}},
		"a copy of a part in the middle": {given: both(segments(join(one, two, three), small), at(49, two)), mended: 1,
			says: []string{"put aside"}, want: [][]byte{p1, p2, p3, payload(4, 5)}, kept: map[string][]byte{segmentPath(49) + ".stale": two}},
		"something else in the middle": {given: both(segments(join(one, two, three), small), at(49, set(payload(5, 50)))), left: 2,
			says: []string{"they hold different messages for the same offsets"}},
		"an empty file in the way": {given: both(segments(join(one, two)), at(49, nil)), mended: 1,
			says: []string{"is empty, and"}, want: [][]byte{p1, p2}},
		"gap": {given: both(segments(one), at(200, two)), left: 1,
			says: []string{"151 bytes are missing", "put back " + segmentName(49) + " of 151 bytes", "--accept-gap", "the log begins there"}},
		"gap, accepted": {given: both(segments(one), at(200, two)), opt: all, mended: 1,
			says: []string{"fillers put in their place: consumers pass over them"}, want: [][]byte{p1, p2}},
		"gap behind a torn end, accepted": {given: both(segments(join(one, two[:20])), at(200, three)), opt: all, mended: 2,
			want: [][]byte{p1, p3}, kept: map[string][]byte{segmentPath(0) + ".cut-49": two[:20]}},
		"gap behind an empty one, accepted": {given: both(segments(one), at(49, nil), at(200, two)), opt: all, mended: 1, want: [][]byte{p1, p2}},
		"gap that is too small":             {given: both(segments(one), at(54, two)), opt: all, left: 1, says: []string{"too few for a message"}},
		"gap that is too large": {given: both(segments(one), at(1<<50, two)), opt: all, left: 1,
			says: []string{"more than 17179869184 bytes are not filled"}},
		"left-overs": {given: both(segments(one), func(t *testing.T, fsys vfs.FS) {
			put(t, fsys, segmentPath(0)+".cut-20.tmp", []byte("half"))
			put(t, fsys, segmentPath(49)+".tmp", []byte("half"))
			put(t, fsys, testDir+"/topics.tmp", []byte("half"))
			put(t, fsys, testDir+"/.3.deleted/"+segmentName(0), two)
		}), mended: 4, says: []string{"is left of an interrupted write", "is left of a deleted topic"}, want: [][]byte{p1}},
		"names that are none of ours": {given: both(segments(one), func(t *testing.T, fsys vfs.FS) {
			put(t, fsys, testDir+"/strange/x", nil)
			put(t, fsys, testDir+"/u-0/7.kafka", nil)
			put(t, fsys, testDir+"/topics", []byte("nonsense\n"))
		}), left: 3, says: []string{`"strange"`, "7.kafka", "topics"}},
		"a sync has failed": {given: both(segments(one, join(two, three[:20])), func(t *testing.T, fsys vfs.FS) {
			put(t, fsys, segmentPath(49)+unsyncedSuffix, nil)
		}), opt: all, left: 1, says: []string{"start a broker, which writes it anew"}},
		"an empty folder": {given: func(t *testing.T, fsys vfs.FS) { mkdirAll(t, fsys, testDir+"/t-0") }, opt: all, want: [][]byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys, _ := newTestFS()
			test.given(t, fsys)
			fsys = fsys.Clone() // with everything on the disk
			before := treeOf(t, fsys, testDir)
			dry := test.opt
			dry.DryRun = true
			r, _ := mustRepair(t, fsys, testDir, dry)
			if r.Mended != test.mended || r.Left != test.left {
				t.Errorf("dry: %+v", r)
			}
			if after := treeOf(t, fsys, testDir); !maps.Equal(before, after) {
				t.Errorf("dry run changed something: %q", after)
			}
			r, mends := mustRepair(t, fsys, testDir, test.opt)
			if r.Mended != test.mended || r.Left != test.left {
				t.Errorf("%+v: %+v", r, mends)
			}
			wantContains(t, fmt.Sprintf("%+v", mends), test.says...)
			for path, want := range test.kept {
				if got := content(t, fsys, path); !bytes.Equal(got, want) {
					t.Errorf("%s keeps %x", path, got)
				}
			}
			again, _ := mustRepair(t, fsys, testDir, test.opt)
			if again.Mended != 0 || again.Left != test.left {
				t.Errorf("once more: %+v", again)
			}
			if test.want == nil {
				return
			}
			wantConsumed(t, fsys, test.want...)
			if report, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys}); err != nil || (report.Err() != nil) != (test.left > 0) {
				t.Errorf("verify: %v, %v", report.Err(), err)
			}
		})
	}
}

// wantConsumed opens the log and reads it from its beginning to its end, or to
// where consumers stop.
func wantConsumed(t testing.TB, fsys *vfs.Mem, want ...[]byte) {
	t.Helper()
	_, l := openTopic(t, fsys.Clone(), Config{})
	s := l.State()
	it := message.Set(read(t, l, s.First, 1<<20)).Iterate(s.First)
	var got [][]byte
	for it.Next() {
		got = append(got, it.Message().Payload)
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d messages are consumed, %d wanted: %.40x…", len(got), len(want), got)
	}
}

// TestRepairKeepsTimes: retention goes by them.
func TestRepairKeepsTimes(t *testing.T) {
	fsys, clock := newTestFS()
	one, two := set(payload(1, 40)), set(payload(2, 50))
	putSegments(t, fsys, bytes.Join([][]byte{damaged(one, 12), two}, nil), append(bytes.Clone(two), 1, 2, 3))
	fsys = fsys.Clone()
	clock.Advance(time.Hour)
	if r, _ := mustRepair(t, fsys, testDir, RepairOptions{ReplaceDamaged: true}); r.Mended != 2 {
		t.Errorf("%+v", r)
	}
	for _, base := range []int64{0, int64(len(one) + len(two))} {
		info, err := fsys.Stat(segmentPath(base))
		if err != nil || !info.ModTime().Equal(testStart) {
			t.Errorf("segment %d: %v, %v", base, info.ModTime(), err)
		}
	}
}

// TestRepairOnePath: a segment file and a partition's folder, alone.
func TestRepairOnePath(t *testing.T) {
	one := set(payload(1, 40))
	torn := append(bytes.Clone(one), 0, 0)
	for _, path := range []string{testDir + "/t-0/" + segmentName(49), testDir + "/t-0", "/copy/" + segmentName(0), "/copy"} {
		fsys, _ := newTestFS()
		putSegments(t, fsys, one, torn)
		put(t, fsys, testDir+"/u-0/"+segmentName(0), torn)
		put(t, fsys, "/copy/"+segmentName(0), torn)
		fsys = fsys.Clone()
		r, mends := mustRepair(t, fsys, path, RepairOptions{})
		if r.Mended != 1 || r.Left != 0 || mends[0].Offset == 0 {
			t.Errorf("%s: %+v, %+v", path, r, mends)
		}
		if wantTopic := map[bool]string{true: "t"}[strings.HasPrefix(path, testDir)]; mends[0].Topic != wantTopic {
			t.Errorf("%s: topic %q", path, mends[0].Topic)
		}
		if fileSize(fsys, testDir+"/u-0/"+segmentName(0)) != 51 {
			t.Errorf("%s: another log was cut", path)
		}
		if _, err := fsys.Stat("/" + lockName); err == nil {
			t.Errorf("%s: made a lock file where no log folder is", path)
		}
	}
	fsys, _ := newTestFS()
	putSegments(t, fsys, one)
	for _, path := range []string{"/missing", testDir + "/t-0/other", "/"} { // the root holds no partition
		if _, err := Repair(testContext(t), path, RepairOptions{FS: fsys}, nil); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// TestRepairBesideBroker: it refuses, whatever the path, and says who has the
// folder.
func TestRepairBesideBroker(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(testContext(t), dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, []byte("x"))
	for _, path := range []string{dir, filepath.Join(dir, "t-0"), filepath.Join(dir, "t-0", segmentName(0))} {
		for _, dry := range []bool{true, false} {
			_, err := Repair(testContext(t), path, RepairOptions{DryRun: dry}, func(m Mend) { t.Errorf("did %+v", m) })
			if !errors.Is(err, ErrLocked) {
				t.Errorf("%s: %v", path, err)
				continue
			}
			wantContains(t, err.Error(), dir, fmt.Sprintf("(process %d)", syscall.Getpid()))
		}
	}
	mustClose(t, m)
	if _, err := Repair(testContext(t), dir, RepairOptions{}, nil); err != nil {
		t.Error(err)
	}
}

// TestRepairHoldsTheLock: no broker starts while a repair is at work.
func TestRepairHoldsTheLock(t *testing.T) {
	fsys, _ := newTestFS()
	putSegments(t, fsys, append(set(payload(1, 40)), 0))
	fsys = fsys.Clone()
	_, err := Repair(testContext(t), testDir, RepairOptions{FS: fsys}, func(Mend) {
		if _, err := Open(testContext(t), testDir, Config{FS: fsys}); !errors.Is(err, ErrLocked) {
			t.Errorf("start: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, open(t, fsys, Config{}))
}

// TestRepairOneOfTwo: what is cut cannot be replaced.
func TestRepairOneOfTwo(t *testing.T) {
	fsys, _ := newTestFS()
	putSegments(t, fsys, set(payload(1, 40)))
	if _, err := Repair(testContext(t), testDir, RepairOptions{FS: fsys, Cut: true, ReplaceDamaged: true}, nil); err == nil {
		t.Error("no error")
	}
}

func TestRepairIsCancelled(t *testing.T) {
	fsys, _ := newTestFS()
	putSegments(t, fsys, append(set(payload(1, 40)), 0))
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := Repair(ctx, testDir, RepairOptions{FS: fsys}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// brokenLog is a log with everything that repair mends, and what consumers can
// read of it then.
func brokenLog(t testing.TB) (fsys *vfs.Mem, want [][]byte) {
	fsys, _ = newTestFS()
	p := func(i int) []byte { return payload(i, 600+100*i) }
	first := bytes.Join([][]byte{set(p(1)), damaged(set(p(2)), 300), set(p(3)), set(p(4))[:500]}, nil)
	putSegments(t, fsys, first)
	second := int64(len(first) + 70_000) // behind a gap
	put(t, fsys, segmentPath(second), bytes.Join([][]byte{set(p(5)), set(p(6))}, nil))
	third := second + int64(len(set(p(5)))) // an overlap of one message, with another content
	put(t, fsys, segmentPath(third), bytes.Join([][]byte{set(p(7)), set(p(8)), make([]byte, 1200), set(p(9))[:333]}, nil))
	put(t, fsys, segmentPath(third)+".cut-1.tmp", []byte("half"))
	put(t, fsys, testDir+"/.1.deleted/"+segmentName(0), set(p(10)))
	put(t, fsys, testDir+"/u-0/"+segmentName(0), append(set(p(11)), 7))
	return fsys.Clone(), [][]byte{p(1), p(3), p(5), p(7), p(8)}
}

// everyByte makes sure that each byte of the segments that were there is still in
// the log at its offset, or in a file that is kept.
func everyByte(t testing.TB, before, after *vfs.Mem) error {
	t.Helper()
	type piece struct {
		start int64
		b     string
	}
	var pieces []piece
	for path, b := range treeOf(t, after, testDir+"/t-0") {
		name := filepath.Base(path)
		if start, ok, _ := parseSegmentName(name); ok {
			pieces = append(pieces, piece{start, b})
		} else if _, start, ok := parseCutName(name); ok {
			pieces = append(pieces, piece{start, b})
		}
	}
	for path, b := range treeOf(t, before, testDir+"/t-0") {
		base, ok, _ := parseSegmentName(filepath.Base(path))
		for i := 0; ok && i < len(b); i++ {
			if !slices.ContainsFunc(pieces, func(p piece) bool {
				at := base + int64(i) - p.start
				return at >= 0 && at < int64(len(p.b)) && p.b[at] == b[i]
			}) {
				return fmt.Errorf("byte %d of %s, at offset %d, is nowhere any more", i, path, base+int64(i))
			}
		}
	}
	return nil
}

// checkRepaired repairs what a crash or an error has left of a repair, and looks
// whether all is well then.
func checkRepaired(t testing.TB, before, fsys *vfs.Mem, want [][]byte) error {
	t.Helper()
	opt := RepairOptions{FS: fsys, ReplaceDamaged: true, AcceptGaps: true}
	r, err := Repair(testContext(t), testDir, opt, nil)
	if err != nil || r.Left != 0 {
		return fmt.Errorf("%+v, %w", r, err)
	}
	report, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
	if err := errors.Join(err, report.Err()); err != nil {
		return err
	}
	// What the machine would have after a crash now is the same.
	wantConsumed(t, fsys.CrashClone(nil), want...)
	return everyByte(t, before, fsys)
}

// TestCrashInRepair crashes before each operation of a repair: what is left can
// be repaired, to the same log, and nothing is lost.
func TestCrashInRepair(t *testing.T) {
	rng := newRand(t)
	before, want := brokenLog(t)
	fsys := before.Clone()
	steps := 0
	fsys.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		steps++
		for i := range 6 {
			crashed := crashClone(fsys, i, rng)
			if err := checkRepaired(t, before, crashed, want); err != nil {
				t.Errorf("crash %d before step %d, %s %s: %v", i, steps, op.Kind, op.Path, err)
			}
		}
		return nil
	})
	// Without a time limit of its own: what the hook does takes longer.
	if _, err := Repair(t.Context(), testDir, RepairOptions{FS: fsys, ReplaceDamaged: true, AcceptGaps: true}, nil); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	if err := checkRepaired(t, before, fsys, want); err != nil {
		t.Error(err)
	}
	if steps < 30 {
		t.Errorf("only %d steps: the hook misses some", steps)
	}
}

// TestKillInRepair ends a repair before each of its operations, repairs again,
// and crashes the machine: nothing that the first one did comes undone.
func TestKillInRepair(t *testing.T) {
	p := func(i int) []byte { return payload(i, 600+100*i) }
	fsys, _ := newTestFS()
	putSegments(t, fsys, set(p(1), p(2)))
	second := int64(len(set(p(1)))) // an overlap that is not with the last segment
	put(t, fsys, segmentPath(second), set(p(2), p(3)))
	put(t, fsys, segmentPath(second+int64(len(set(p(2), p(3))))), set(p(4)))
	before := fsys.Clone()
	fsys = before.Clone()
	fsys.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		killed := fsys.KillClone()
		if err := checkRepaired(t, before, killed, [][]byte{p(1), p(2), p(3), p(4)}); err != nil {
			t.Errorf("before %s %s: %v", op.Kind, op.Path, err)
		}
		report, err := Verify(testContext(t), testDir, WalkOptions{FS: killed.CrashClone(nil)})
		if err := errors.Join(err, report.Err()); err != nil {
			t.Errorf("killed before %s %s, repaired, crashed: %v", op.Kind, op.Path, err)
		}
		return nil
	})
	// Without a time limit of its own: what the hook does takes longer.
	if _, err := Repair(t.Context(), testDir, RepairOptions{FS: fsys}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestErrorInRepair makes each operation of a repair fail once. It says so, goes
// on with the rest, and can be repeated.
func TestErrorInRepair(t *testing.T) {
	rng := newRand(t)
	before, want := brokenLog(t)
	for n := 1; ; n++ {
		fsys := before.Clone()
		count, failed := 0, vfs.Op{}
		fsys.SetHook(func(op vfs.Op) error {
			if count++; count != n {
				return nil
			}
			failed = op
			if op.Kind == vfs.OpWrite {
				return &vfs.TornWrite{Bytes: rng.IntN(op.Size + 1), Err: syscall.EIO}
			}
			return syscall.EIO
		})
		said := ""
		r, err := Repair(testContext(t), testDir, RepairOptions{FS: fsys, ReplaceDamaged: true, AcceptGaps: true},
			func(m Mend) { said += fmt.Sprintf("%v %s\n", m.Err, m.Problem) })
		fsys.SetHook(nil)
		if failed.Kind == "" {
			if err != nil || r.Left > 0 {
				t.Errorf("without a failure: %+v, %v", r, err)
			}
			return // past the last operation
		}
		if err == nil && r.Left == 0 {
			t.Errorf("%s %s failed, and nothing is left: %s", failed.Kind, failed.Path, said)
		}
		if err == nil && !strings.Contains(said, "input/output error") {
			t.Errorf("%s %s failed: %s", failed.Kind, failed.Path, said)
		}
		crashed := fsys.CrashClone(rng)
		for _, left := range []*vfs.Mem{fsys, crashed} {
			if err := checkRepaired(t, before, left, want); err != nil {
				t.Errorf("after %s %s failed: %v", failed.Kind, failed.Path, err)
			}
		}
	}
}

// TestRepairOfUnsafeTail: the sync with which a repair begins fails, and with it
// the tail of the log is lost on the disk, but not in the page cache (fault B04).
// The repair says that it must be repeated, and then sees what the disk has.
func TestRepairOfUnsafeTail(t *testing.T) {
	for _, path := range []string{testDir, filepath.Join(testDir, "t-0"), segmentPath(0)} {
		fsys, _ := newTestFS()
		put(t, fsys, segmentPath(0), set([]byte("safe")))
		file, err := fsys.OpenWrite(segmentPath(0))
		if err != nil {
			t.Fatal(err)
		}
		safe := int64(len(set([]byte("safe"))))
		err = errors.Join(file.Sync(), fsys.SyncDir(filepath.Dir(segmentPath(0))), fsys.SyncDir(testDir), fsys.SyncDir(filepath.Dir(testDir)),
			writeFull(file, set([]byte("lost")), safe), file.Close())
		if err != nil {
			t.Fatal(err)
		}
		fsys.SetHook(vfs.FailNth(vfs.OpSync, 1, syscall.EIO))
		said := ""
		tell := func(m Mend) { said += m.Problem + ": " + m.Advice }
		r, err := Repair(testContext(t), path, RepairOptions{FS: fsys}, tell)
		if err != nil || r.Left != 1 || !strings.Contains(said, "repair again before a broker is started") {
			t.Errorf("%s: %+v, %v, %q", path, r, err, said)
		}
		fsys.SetHook(nil)
		if r, err := Repair(testContext(t), path, RepairOptions{FS: fsys}, nil); err != nil || r.Left > 0 {
			t.Errorf("%s, again: %+v, %v", path, r, err)
		}
		for _, left := range []*vfs.Mem{fsys, fsys.CrashClone(nil)} {
			_, l := openTopic(t, left, Config{})
			wantState(t, l, 0, safe, safe, 1)
		}
	}
}
