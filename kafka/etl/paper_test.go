package etl

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// job is a MapReduce job of the test, as Hadoop runs it: attempts at tasks, each in a
// folder of its own, of which the committer keeps one for each task.
type job struct {
	t    *testing.T
	f    *Folder
	plan *Plan
	root string
	kept map[int]Result
}

func newJob(t *testing.T, c *cluster, root string, splitBytes int64) *job {
	t.Helper()
	f, err := OpenFolder(root)
	must(t, err)
	f.now = func() time.Time { return noon }
	cfg := c.config("clicks").PlanConfig
	cfg.SplitBytes = splitBytes
	plan, err := f.Plan(testContext(t), cfg)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(f.Output(plan.ID), "_temporary"), 0o755))
	return &job{t, f, plan, root, map[int]Result{}}
}

func (j *job) attempt(task int, name string) string {
	return filepath.Join(j.f.Output(j.plan.ID), "_temporary", name)
}

// keep commits an attempt's folder: its files go into that of the job, and its output
// becomes a file part-*.
func (j *job) keep(task int, folder string, r Result) {
	j.t.Helper()
	out := j.f.Output(j.plan.ID)
	must(j.t, filepath.Walk(folder, func(name string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		below, err := filepath.Rel(folder, name)
		must(j.t, err)
		must(j.t, os.MkdirAll(filepath.Dir(filepath.Join(out, below)), 0o755))
		return os.Rename(name, filepath.Join(out, below))
	}))
	line, err := r.Line()
	must(j.t, err)
	must(j.t, os.WriteFile(filepath.Join(out, "part-"+strings.Repeat("0", 4)+string(rune('0'+task%10))+string(rune('a'+task/10))), []byte(line+"\t\n"), 0o644))
	j.kept[task] = r
}

// end ends the job well.
func (j *job) end() {
	out := j.f.Output(j.plan.ID)
	must(j.t, os.RemoveAll(filepath.Join(out, "_temporary")))
	must(j.t, os.WriteFile(filepath.Join(out, jobEnded), nil, 0o644))
}

// splits reads the lines that Hadoop hands to the tasks, with the key that it puts before
// them.
func (j *job) splits() []Split {
	j.t.Helper()
	b, err := os.ReadFile(j.f.Input(j.plan.ID))
	must(j.t, err)
	var splits []Split
	for line := range strings.Lines(string(b)) {
		s, err := ParseSplit("1234\t" + strings.TrimSuffix(line, "\n"))
		must(j.t, err)
		splits = append(splits, s)
	}
	if len(splits) != len(j.plan.Splits) {
		j.t.Fatalf("%d lines of %d splits", len(splits), len(j.plan.Splits))
	}
	return splits
}

// TestPaperR30TasksReadTheBrokersAndTheirFailuresChangeNothing: tasks of a MapReduce job
// read straight from the brokers, group and compress, and may fail and be started again
// at any point (NetDB'11 §4). Attempts die at random, others run twice at the same time,
// and the output is the same as without all that.
func TestPaperR30TasksReadTheBrokersAndTheirFailuresChangeNothing(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := startCluster(t, 2)
	c.create("clicks", 2)
	root := t.TempDir()
	failed, doubled := 0, 0
	for round := range 3 {
		for b := range 2 {
			for p := range int32(2) {
				c.publish(b, "clicks", p, 40, noon.Add(-time.Duration(p)*24*time.Hour), message.Codec(round))
			}
		}
		j := newJob(t, c, root, 1500)
		for i, s := range j.splits() {
			// Attempts that fail, as their disk does.
			for n := range rng.IntN(3) {
				dir := j.attempt(i, "failed-"+string(rune('a'+i))+string(rune('0'+n)))
				must(t, os.MkdirAll(dir, 0o755))
				if _, err := mapTo(testContext(t), s, newLocal(&failing{FS: vfs.OS(), left: rng.IntN(8)}, dir), "", MapConfig{}); err == nil {
					t.Fatal("an attempt without a disk is told to be well")
				}
				failed++
			}
			// Two attempts at once, one of which is kept.
			var wg sync.WaitGroup
			results, dirs := [2]Result{}, [2]string{}
			for n := range 2 {
				dirs[n] = j.attempt(i, "twin-"+string(rune('a'+i))+string(rune('0'+n)))
				wg.Go(func() {
					var err error
					if results[n], err = Map(testContext(t), s, "file://"+dirs[n], MapConfig{}); err != nil {
						t.Errorf("attempt %d at %v: %v", n, s, err)
					}
				})
			}
			wg.Wait()
			doubled++
			n := rng.IntN(2)
			j.keep(i, dirs[n], results[n])
		}
		j.end()
		m, err := j.f.Commit(testContext(t), j.plan.ID)
		must(t, err)
		if m.Messages != 160 || m.Splits != len(j.plan.Splits) {
			t.Errorf("round %d: %+v", round, m)
		}
		readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
		// The driver of the job does not know how far it came, and commits again.
		again, err := j.f.Commit(testContext(t), j.plan.ID)
		if err != nil || again.Run != m.Run {
			t.Errorf("committed again: %+v, %v", again, err)
		}
		readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
	}
	t.Logf("%d attempts failed, %d ran twice", failed, doubled)
	if failed == 0 {
		t.Error("no attempt has failed")
	}
}

// failing is a file system that fails after so many changes.
type failing struct {
	vfs.FS
	left int
}

func (f *failing) step() error {
	if f.left--; f.left < 0 {
		return errors.New("no disk")
	}
	return nil
}

func (f *failing) Create(name string) (vfs.File, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.FS.Create(name)
}

func (f *failing) OpenWrite(name string) (vfs.File, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.FS.OpenWrite(name)
}

func (f *failing) Mkdir(name string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.FS.Mkdir(name)
}

// A job whose output is not complete, or holds what two attempts have made, is refused,
// whatever it is that is wrong, and then published when that is mended.
func TestPaperR30IncompleteJobsAreRefused(t *testing.T) {
	c := startCluster(t, 1)
	c.publish(0, "clicks", 0, 60, noon, message.CodecNone)
	root := t.TempDir()
	j := newJob(t, c, root, 1500)
	out := j.f.Output(j.plan.ID)
	commit := func(what string, wants ...string) {
		t.Helper()
		_, err := j.f.Commit(testContext(t), j.plan.ID)
		if err == nil {
			t.Fatalf("%s: it is published", what)
		}
		contains(t, err.Error(), wants...)
		if run, _, err := j.f.Offsets(testContext(t)); run != 0 || err != nil {
			t.Fatalf("%s: run %d, %v", what, run, err)
		}
	}
	commit("before the job", "_SUCCESS", "has not ended well")
	splits := j.splits()
	for i, s := range splits {
		dir := j.attempt(i, "a"+string(rune('a'+i)))
		r, err := Map(testContext(t), s, dir, MapConfig{})
		must(t, err)
		if i > 0 {
			j.keep(i, dir, r)
			continue
		}
		defer func() {
			j.keep(0, dir, r)
			m, err := j.f.Commit(testContext(t), j.plan.ID)
			must(t, err)
			if m.Messages != 60 {
				t.Errorf("%+v", m)
			}
			readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
		}()
	}
	must(t, os.WriteFile(filepath.Join(out, jobEnded), nil, 0o644))
	commit("without task 0", "split 0: clicks 0-0 offsets 0 to", "has no result")

	extra := filepath.Join(out, "part-99999")
	write := func(text string) { t.Helper(); must(t, os.WriteFile(extra, []byte(text), 0o644)) }
	line := func(change func(r *Result)) string {
		r := j.kept[1]
		r.Files = append([]Made{}, r.Files...)
		change(&r)
		text, err := r.Line()
		must(t, err)
		return text + "\n"
	}
	write(line(func(*Result) {}))
	commit("two results of task 1", "split 1", "more than one result")
	write(line(func(r *Result) { r.Number = 0 }))
	commit("a result of another split", "split 0", "the result is of split")
	write(line(func(r *Result) { r.Number = 1000 }))
	commit("a result of no split", "split 1000")
	write("{\"plan\":1}\n")
	commit("nonsense", "is not the result of a task")
	must(t, os.Remove(extra))

	name := filepath.Join(out, filesFolder, filepath.FromSlash(j.kept[1].Files[0].Name))
	whole, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, whole[:len(whole)-1], 0o644))
	dir0 := j.attempt(0, "aa")
	r0, err := Map(testContext(t), splits[0], dir0, MapConfig{})
	must(t, err)
	text, err := r0.Line()
	must(t, err)
	write(text)
	commit("a file is short", "split 0", "file")
	must(t, os.Remove(extra))
	must(t, os.WriteFile(name, whole, 0o644))
}

// Of two jobs that were planned from the same offsets one is published, and the other
// is told so; its messages are all there.
func TestPaperR30AnOvertakenPlanIsRefused(t *testing.T) {
	c := startCluster(t, 1)
	c.publish(0, "clicks", 0, 20, noon, message.CodecNone)
	root := t.TempDir()
	first, second := newJob(t, c, root, 1<<20), newJob(t, c, root, 1<<20)
	for _, j := range []*job{first, second} {
		dir := j.attempt(0, "a")
		r, err := Map(testContext(t), j.splits()[0], dir, MapConfig{})
		must(t, err)
		j.keep(0, dir, r)
		j.end()
	}
	if _, err := second.f.Commit(testContext(t), second.plan.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := first.f.Commit(testContext(t), first.plan.ID); !errors.Is(err, ErrOvertaken) {
		t.Fatalf("the other one: %v", err)
	}
	readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
	if _, err := os.Stat(first.f.Output(first.plan.ID)); !os.IsNotExist(err) {
		t.Errorf("its output is left: %v", err)
	}
}

// TestPaperR30RetentionBeforeTheLoad: what retention took before it was planned, or
// between the plan and its tasks, is a gap with its offsets, in the manifest, and the
// load goes on behind it.
func TestPaperR30RetentionBeforeTheLoad(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, func(cfg *broker.Config) { cfg.Storage.SegmentBytes = 1000 })
	c.publish(0, "clicks", 0, 100, noon, message.CodecNone)
	root := t.TempDir()
	f := testFolder(vfs.OS(), root)
	must(t, loadAll(t, f, c))
	loaded := endOf0(t, f, "clicks")
	c.publish(0, "clicks", 0, 100, noon, message.CodecNone)

	// Before the plan.
	first := c.retain(loaded + 2000)
	var planned *Plan
	cfg := c.config("clicks")
	cfg.SplitBytes = 3000
	later := int64(0)
	cfg.Planned = func(p *Plan) { // and again before its tasks
		planned = p
		later = c.retain(first + 4000)
	}
	m, err := f.Run(testContext(t), cfg)
	must(t, err)
	want := []Gap{{Partition{Topic: "clicks"}, loaded, first}}
	at := first
	for _, s := range planned.Splits {
		if s.Start < later {
			want = append(want, Gap{s.Partition, s.Start, min(s.End, later)})
			at = min(s.End, later)
		}
	}
	if len(planned.Gaps) != 1 || len(m.Gaps) != len(want) || len(want) < 3 || at != later {
		t.Fatalf("gaps %v, want %v", m.Gaps, want)
	}
	for i := range want {
		if m.Gaps[i] != want[i] {
			t.Errorf("gap %v, want %v", m.Gaps[i], want[i])
		}
	}
	out := readOutput(t, vfs.OS(), root)
	got := 0
	for p, n := range out.payloads {
		if n != 1 || c.sent[p] != 1 {
			t.Errorf("%d of a message", n)
		}
		got++
	}
	if int64(got) != 100+m.Messages || m.Messages == 0 || m.Messages >= 100 {
		t.Errorf("%d messages in files, %d of them in the manifest", got, m.Messages)
	}
	// All of it gone, also what the load has not seen.
	c.publish(0, "clicks", 0, 30, noon, message.CodecNone)
	cfg = c.config("clicks")
	cfg.Planned = func(p *Plan) { c.retain(p.Splits[len(p.Splits)-1].End) }
	c2 := cfg
	ctx, cancel := context.WithTimeout(testContext(t), 30*time.Second)
	defer cancel()
	m, err = f.Run(ctx, c2)
	must(t, err)
	if len(m.Gaps) != 1 || m.Gaps[0].End != endOf0(t, f, "clicks") || m.Messages != 0 {
		t.Errorf("%+v", m)
	}
	contains(t, m.Gaps[0].String(), "clicks 0-0", "are gone from the log")
}

// retain does what retention does: the segments that end at or below an offset go, but
// for the newest, which a new one takes the place of first if need be. It returns the
// first offset that is left.
func (c *cluster) retain(below int64) int64 {
	c.t.Helper()
	b := c.brokers[0]
	b.Stop()
	dir := filepath.Join(b.Config.LogDir, "clicks-0")
	segments, err := filepath.Glob(filepath.Join(dir, "*.kafka"))
	must(c.t, err)
	for i, name := range segments {
		begin := segmentBegin(c.t, name)
		info, err := os.Stat(name)
		must(c.t, err)
		end := begin + info.Size()
		if end > below {
			break
		}
		if i == len(segments)-1 {
			must(c.t, os.WriteFile(segmentName(dir, end), nil, 0o644))
		}
		must(c.t, os.Remove(name))
	}
	b.Restart()
	conn := dial(c.t, b.HostPort())
	defer conn.Close()
	states, err := conn.Topics(testContext(c.t), "clicks")
	must(c.t, err)
	return states[0].First
}
