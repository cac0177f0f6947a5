package etl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// One load after the other, of two brokers, with plain and compressed sets: each takes
// what came since the last, and all together hold each message once.
func TestLoads(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.create("clicks", 2)
	root := t.TempDir()
	f := testFolder(vfs.OS(), root)
	cfg := c.config("clicks")
	cfg.SplitBytes = 700
	for round := range 3 {
		for broker := range 2 {
			for p := range int32(2) {
				codec := []message.Codec{message.CodecNone, message.CodecGzip, message.CodecSnappy}[round]
				c.publish(broker, "clicks", p, 30, noon.Add(-time.Duration(round)*24*time.Hour), codec)
			}
		}
		m, err := f.Run(testContext(t), cfg)
		must(t, err)
		if m == nil || m.Run != int64(round+1) || m.Messages != 120 || len(m.Gaps) != 0 {
			t.Fatalf("round %d: %+v", round, m)
		}
		if m.Splits < 8 {
			t.Errorf("round %d: %d splits of at most 700 bytes", round, m.Splits)
		}
		readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
		if m, err := f.Run(testContext(t), cfg); m != nil || err != nil {
			t.Fatalf("with nothing to load: %+v, %v", m, err)
		}
	}
	files, err := Files(root)
	must(t, err)
	days := map[string]bool{}
	for _, f := range files {
		days[f.Date.Format(time.DateOnly)] = true
		if f.End-f.Start > 700 && f.Start == 0 && f.Date.Day() == 29 {
			t.Errorf("%s: the split has %d bytes", f.Path, f.End-f.Start)
		}
	}
	if len(days) != 3 || !days["2026-11-27"] || !days["2026-11-29"] {
		t.Errorf("days %v", days)
	}
	run, offsets, err := f.Offsets(testContext(t))
	if run != 3 || len(offsets) != 4 || err != nil || !slices.IsSortedFunc(offsets, func(a, b Offset) int { return a.Compare(b.Partition) }) {
		t.Errorf("run %d, offsets %v, %v", run, offsets, err)
	}
}

// Another load in the same folder is turned away, and so is a second commit.
func TestOneLoadAtATime(t *testing.T) {
	c := startCluster(t, 1)
	c.publish(0, "clicks", 0, 5, noon, message.CodecNone)
	root := t.TempDir()
	f, other := testFolder(vfs.OS(), root), testFolder(vfs.OS(), root)
	cfg := c.config("clicks")
	cfg.Planned = func(*Plan) {
		if _, err := other.Run(testContext(t), c.config("clicks")); !errors.Is(err, ErrBusy) {
			t.Errorf("a second load: %v", err)
		}
		if _, err := other.Commit(testContext(t), newPlanID(1, noon, false)); !errors.Is(err, ErrBusy) {
			t.Errorf("a commit meanwhile: %v", err)
		}
	}
	if _, err := f.Run(testContext(t), cfg); err != nil {
		t.Fatal(err)
	}
	readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
}

// A broker that is down keeps its own partitions out, and no others; they come later.
func TestBrokerDown(t *testing.T) {
	c := startCluster(t, 2)
	c.create("clicks", 1)
	c.publish(0, "clicks", 0, 5, noon, message.CodecNone)
	root := t.TempDir()
	f := testFolder(vfs.OS(), root)
	cfg := c.config("clicks")
	if _, err := f.Run(testContext(t), cfg); err != nil {
		t.Fatal(err)
	}
	first := sum(c.sent)
	c.publish(1, "clicks", 0, 7, noon, message.CodecNone)
	c.brokers[1].Stop()
	m, err := f.Run(testContext(t), cfg)
	if m != nil || err != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	var problems []string
	cfg.Planned = func(p *Plan) { problems = p.Problems }
	c.publish(0, "clicks", 0, 3, noon, message.CodecNone)
	m, err = f.Run(testContext(t), cfg)
	must(t, err)
	if m.Messages != 3 || len(problems) != 1 || len(m.Problems) != 1 {
		t.Fatalf("%+v, %q", m, problems)
	}
	contains(t, problems[0], "broker 1 at", "its partitions wait")
	if got := sum(readOutput(t, vfs.OS(), root).payloads); got != first+3 {
		t.Errorf("%d messages, want %d", got, first+3)
	}
	// Not even registered: its partition is known by what was loaded of it.
	c.brokers[1].Restart()
	must(t, loadAll(t, f, c))
	cfg = c.config("clicks")
	cfg.Brokers = cfg.Brokers[:1]
	cfg.Planned = func(p *Plan) { problems = p.Problems }
	if _, err := f.Run(testContext(t), cfg); err != nil {
		t.Fatal(err)
	}
	if len(problems) != 1 {
		t.Fatalf("problems %q", problems)
	}
	contains(t, problems[0], "clicks 1-0", "broker 1 is not registered")
	readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)

	// No broker at all is an error.
	c.brokers[0].Stop()
	c.brokers[1].Stop()
	_, err = f.Run(testContext(t), c.config("clicks"))
	if err == nil {
		t.Fatal("no error without brokers")
	}
	contains(t, err.Error(), "no broker could be asked")
}

// loadAll loads what there is of the topic clicks.
func loadAll(t testing.TB, f *Folder, c *cluster) error {
	t.Helper()
	_, err := f.Run(testContext(t), c.config("clicks"))
	return err
}

// A topic that was deleted and made again has offsets that were used before: it is left
// alone, each time with a word, and other topics are loaded.
func TestTopicMadeAgain(t *testing.T) {
	c := startCluster(t, 1)
	c.publish(0, "clicks", 0, 50, noon, message.CodecNone)
	root := t.TempDir()
	f := testFolder(vfs.OS(), root)
	must(t, loadAll(t, f, c))
	conn := dial(t, c.brokers[0].HostPort())
	must(t, conn.DeleteTopic(testContext(t), "clicks"))
	must(t, conn.Close())
	before := fmt.Sprint(readOutput(t, vfs.OS(), root).files)
	payload := []byte("again")
	c.send(0, "clicks", 0, message.CodecNone, payload)
	c.publish(0, "views", 0, 5, noon, message.CodecNone)
	var problems []string
	cfg := c.config("clicks", "views")
	cfg.Planned = func(p *Plan) { problems = p.Problems }
	for range 2 {
		if _, err := f.Run(testContext(t), cfg); err != nil {
			t.Fatal(err)
		}
		if len(problems) != 1 {
			t.Fatalf("problems %q", problems)
		}
		contains(t, problems[0], "clicks 0-0", "is left out", "deleted and made again")
	}
	delete(c.sent, string(payload))
	out := readOutput(t, vfs.OS(), root)
	out.holdsEach(t, c.sent)
	delete(out.files, "views/2026/11/29/0-0-0-"+fmt.Sprint(endOf0(t, f, "views"))+".gz")
	if got := fmt.Sprint(out.files); got != before {
		t.Errorf("files %s, were %s", got, before)
	}
}

// endOf0 returns up to where partition 0 of broker 0 is loaded.
func endOf0(t testing.TB, f *Folder, topic string) int64 {
	t.Helper()
	_, offsets, err := f.Offsets(testContext(t))
	must(t, err)
	for _, o := range offsets {
		if o.Partition == (Partition{Topic: topic}) {
			return o.Next
		}
	}
	t.Fatalf("no offset of %s", topic)
	return 0
}

// Of old runs, only so many stay; what dead loads, and plans that were overtaken, have
// left is removed, and a job that is under way is left alone.
func TestWhatIsOldIsRemoved(t *testing.T) {
	c := startCluster(t, 1)
	root := t.TempDir()
	f := testFolder(vfs.OS(), root)
	f.keepRuns = 2
	for _, name := range []string{
		planOutput(newPlanID(1, noon, true)) + "/00000-0/files", // a load that has died
		planOutput(newPlanID(4, noon, false)) + "/_temporary",   // a job under way
		planOutput(newPlanID(3, noon, false)),                   // one that is overtaken soon
		plansFolder + "/" + newPlanID(3, noon, false),
		outputFolder + "/notes of a user",
	} {
		must(t, os.MkdirAll(filepath.Join(root, name), 0o755))
	}
	for range 3 {
		c.publish(0, "clicks", 0, 3, noon, message.CodecNone)
		must(t, loadAll(t, f, c))
	}
	l := newLocal(vfs.OS(), root)
	for folder, want := range map[string]int{runsFolder: 2, outputFolder: 2, plansFolder: 0} {
		names, err := l.folders(testContext(t), folder)
		must(t, err)
		if len(names) != want {
			t.Errorf("%s holds %q, want %d", folder, names, want)
		}
	}
	readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
}

// A plan is bounded: what does not go into it is loaded by the next ones.
func TestPlanIsBounded(t *testing.T) {
	c := startCluster(t, 1)
	c.create("clicks", 2)
	c.publish(0, "clicks", 0, 40, noon, message.CodecNone)
	c.publish(0, "clicks", 1, 40, noon, message.CodecNone)
	root := t.TempDir()
	f := testFolder(vfs.OS(), root)
	f.maxSplits = 3
	cfg := c.config("clicks")
	cfg.SplitBytes = 500
	loads := 0
	for {
		m, err := f.Run(testContext(t), cfg)
		must(t, err)
		if m == nil {
			break
		}
		if loads++; m.Splits > 3 {
			t.Errorf("%d splits", m.Splits)
		}
	}
	if loads < 4 {
		t.Errorf("%d loads", loads)
	}
	readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
}

// Who uses the output may remove or move what is in it, also all of it, while loads go on
// in one process: files come to lie where they belong.
func TestOutputIsRemovedMeanwhile(t *testing.T) {
	c := startCluster(t, 1)
	root := filepath.Join(t.TempDir(), "out")
	f := testFolder(vfs.OS(), root)
	load := func(n int) {
		t.Helper()
		c.publish(0, "clicks", 0, n, noon, message.CodecNone)
		must(t, loadAll(t, f, c))
	}
	load(3)
	for _, gone := range []string{"clicks/2026/11/29", "clicks"} {
		must(t, os.RemoveAll(filepath.Join(root, gone)))
		load(4)
		if got := sum(readOutput(t, vfs.OS(), root).payloads); got != 4 {
			t.Errorf("%d messages after %s was removed", got, gone)
		}
	}
	must(t, os.RemoveAll(root)) // with the offsets: all is loaded anew, under numbers that were there before
	for range 4 {
		load(2)
		readOutput(t, vfs.OS(), root).holdsEach(t, c.sent)
	}
}
