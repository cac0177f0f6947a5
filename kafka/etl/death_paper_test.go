package etl

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// errDead is what the file system says to a process after its death.
var errDead = errors.New("the process is dead")

// dieAt returns a hook that lets fewer than n changes happen and no more, and died, which
// tells whether it was asked for another one. A write that is the last is torn.
func dieAt(n int) (hook vfs.Hook, died func() bool) {
	var mu sync.Mutex
	asked := 0
	hook = func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		asked++
		switch {
		case asked == n && op.Kind == vfs.OpWrite && op.Size > 1:
			return &vfs.TornWrite{Bytes: op.Size / 2, Err: errDead}
		case asked >= n:
			return errDead
		}
		return nil
	}
	return hook, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return asked >= n
	}
}

// loadedTo returns the number of the last run of a folder, and up to where it has loaded
// each partition.
func loadedTo(t *testing.T, f *Folder) (run int64, at map[Partition]int64) {
	t.Helper()
	run, offsets, err := f.Offsets(testContext(t))
	must(t, err)
	at = map[Partition]int64{}
	for _, o := range offsets {
		at[o.Partition] = o.Next
	}
	return run, at
}

// TestPaperR30DataAndOffsetsArePublishedTogether: data and offsets of a load are stored
// in HDFS together, when the job is done (NetDB'11 §4). A load dies at every single
// change that it makes to the file system: in every write, before every sync and rename.
// Its process alone dies, or the machine, which then has what was synced. What is found
// then is the load before it or this one, whole; and the next load makes good for it, so
// that each message is there once.
func TestPaperR30DataAndOffsetsArePublishedTogether(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.create("clicks", 1)
	const root = "/out"
	mem := vfs.NewMem(nil)
	c.publish(0, "clicks", 0, 25, noon, message.CodecNone)
	c.publish(1, "clicks", 0, 25, noon, message.CodecGzip)
	must(t, loadAll(t, testFolder(mem, root), c))
	before := maps.Clone(c.sent)
	_, atBefore := loadedTo(t, testFolder(mem, root))
	c.publish(0, "clicks", 0, 25, noon.Add(-24*time.Hour), message.CodecNone)
	c.publish(0, "clicks", 0, 25, noon, message.CodecNone)
	c.publish(1, "clicks", 0, 25, noon, message.CodecSnappy)

	deaths, unpublished, unlaid := 0, 0, 0
	for n := 1; ; n++ {
		fsys := mem.Clone()
		hook, died := dieAt(n)
		fsys.SetHook(hook)
		cfg := c.config("clicks")
		cfg.Attempts = 1
		cfg.Tasks = 1 // the same steps each time
		_, err := testFolder(fsys, root).Run(testContext(t), cfg)
		if !died() {
			must(t, err)
			break
		}
		if err == nil {
			t.Fatalf("step %d: it is told to be well, and was dead", n)
		}
		deaths++
		for name, found := range map[string]*vfs.Mem{"process": fsys.KillClone(), "machine": fsys.CrashClone(nil)} {
			found.SetHook(nil)
			f := testFolder(found, root)
			run, at := loadedTo(t, f)
			out := readOutput(t, found, root)
			switch run {
			case 1:
				if !maps.Equal(at, atBefore) || !maps.Equal(out.payloads, before) {
					t.Errorf("step %d, the %s dies: run 1 is the last, offsets %v, were %v; files %v", n, name, at, atBefore, out.files)
				}
				unpublished++
			case 2:
				if maps.Equal(at, atBefore) {
					t.Errorf("step %d, the %s dies: run 2 has the offsets of run 1", n, name)
				}
				for p, k := range out.payloads {
					if k > c.sent[p] {
						t.Errorf("step %d, the %s dies: %d of a message that was sent %d times", n, name, k, c.sent[p])
					}
				}
				if !maps.Equal(out.payloads, c.sent) {
					unlaid++
				}
			default:
				t.Errorf("step %d, the %s dies: run %d", n, name, run)
			}
			// A second death, of the machine, right after the next load, takes nothing back.
			must(t, loadAll(t, f, c))
			again := found.CrashClone(nil)
			readOutput(t, again, root).holdsEach(t, c.sent)
			if t.Failed() {
				t.Fatalf("after the death of the %s at step %d of %s", name, n, err)
			}
			left, err := found.ReadDir(root + "/" + outputFolder)
			if err == nil && len(left) != 0 {
				t.Fatalf("step %d: the output of %d plans is left", n, len(left))
			}
		}
	}
	t.Logf("%d deaths; the load was not published %d times, and published but not laid out %d times", deaths, unpublished, unlaid)
	if deaths < 40 || unpublished == 0 || unlaid == 0 {
		t.Errorf("%d deaths, %d before and %d right after the publication: the test tries too little", deaths, unpublished, unlaid)
	}
}

// Two deaths in a row: the second in what makes good for the first.
func TestDeathInRecovery(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	const root = "/out"
	mem := vfs.NewMem(nil)
	c.publish(0, "clicks", 0, 15, noon, message.CodecNone)
	c.publish(0, "clicks", 0, 15, noon.Add(-24*time.Hour), message.CodecNone)
	// The first dies right behind the rename.
	renamed := false
	mem.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRename && strings.Contains(op.Path, outputFolder) {
			renamed = true
			return nil
		}
		if renamed && op.Kind.Changes() {
			return errDead
		}
		return nil
	})
	if err := loadAll(t, testFolder(mem, root), c); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	c.publish(0, "clicks", 0, 15, noon, message.CodecNone)
	for n := 1; ; n++ {
		fsys := mem.KillClone()
		hook, died := dieAt(n)
		fsys.SetHook(hook)
		err := loadAll(t, testFolder(fsys, root), c)
		if !died() {
			must(t, err)
			break
		}
		for _, found := range []*vfs.Mem{fsys.KillClone(), fsys.CrashClone(nil)} {
			must(t, loadAll(t, testFolder(found, root), c))
			readOutput(t, found.CrashClone(nil), root).holdsEach(t, c.sent)
		}
		if t.Failed() {
			t.Fatalf("second death at step %d", n)
		}
	}
}

// A disk that is full at any step fails the load with a word of where, and no message is
// lost: when there is room again the next load takes them.
func TestFullDisk(t *testing.T) {
	c := startCluster(t, 1)
	const root = "/out"
	mem := vfs.NewMem(nil)
	c.publish(0, "clicks", 0, 15, noon, message.CodecNone)
	must(t, loadAll(t, testFolder(mem, root), c))
	c.publish(0, "clicks", 0, 40, noon, message.CodecNone)
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpCreate, vfs.OpSync, vfs.OpMkdir} {
		for from := 1; ; from++ {
			fsys := mem.Clone()
			var mu sync.Mutex
			n := 0
			fsys.SetHook(func(op vfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if op.Kind != kind {
					return nil
				}
				if n++; n >= from {
					return syscall.ENOSPC
				}
				return nil
			})
			cfg := c.config("clicks")
			cfg.Attempts = 2
			_, err := testFolder(fsys, root).Run(testContext(t), cfg)
			if err == nil {
				if n >= from {
					t.Fatalf("%s %d fails, and nobody is told", kind, from)
				}
				break
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%s %d: %v", kind, from, err)
			}
			if strings.Contains(err.Error(), "split 0") {
				contains(t, err.Error(), "clicks 0-0", "at offset", "attempts have failed")
			}
			// What the failed load has made takes no room any more.
			fsys.SetHook(nil)
			for name := range must1(newLocal(fsys, root).tree(testContext(t), outputFolder)) {
				t.Errorf("%s %d: %s is left", kind, from, name)
			}
			must(t, loadAll(t, testFolder(fsys, root), c))
			readOutput(t, fsys, root).holdsEach(t, c.sent)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return v
}
