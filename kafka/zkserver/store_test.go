package zkserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// seed returns that of a random test, which KAFKALAB_SEED sets.
func seed(t testing.TB) uint64 {
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("KAFKALAB_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
	}
	t.Logf("KAFKALAB_SEED=%d", n)
	return n
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// randomTxn makes a transaction that fits st, and applies it.
func randomTxn(st *state, rng *rand.Rand) *txn {
	t := &txn{zxid: st.tree.zxid + 1, time: int64(rng.Uint32())}
	must := func(c change) {
		if err := st.apply(t, c); err != nil {
			panic(err)
		}
	}
	for range rng.IntN(4) { // none is a request that failed
		path := fmt.Sprintf("/%c", 'a'+rng.IntN(6))
		data := bytes.Repeat([]byte{'x'}, rng.IntN(20))
		n := st.tree.get(path)
		switch {
		case n == nil:
			must(change{kind: changeCreate, path: path, data: data, acl: openACL})
		case rng.IntN(3) == 0 && len(n.children) == 0:
			must(change{kind: changeDelete, path: path})
		case rng.IntN(3) == 0:
			must(change{kind: changeSetACL, path: path, acl: readACL})
		case rng.IntN(2) == 0:
			must(change{kind: changeCreate, path: fmt.Sprintf("%s/%010d", path, n.cversion), acl: openACL})
		default:
			must(change{kind: changeSetData, path: path, data: data})
		}
	}
	if len(t.changes) == 0 && rng.IntN(2) == 0 {
		id := int64(1 + rng.IntN(3))
		if x := st.sessions[id]; x == nil {
			must(change{kind: changeOpenSession, session: &session{id: id, timeout: time.Second, patience: time.Second}})
		} else {
			must(change{kind: changeEndSession, session: x})
		}
	}
	for id := range st.sessions {
		path := fmt.Sprintf("/e%d", id)
		if len(t.changes) > 0 && t.changes[0].kind < changeOpenSession && st.tree.get(path) == nil {
			must(change{kind: changeCreate, path: path, acl: openACL, owner: id})
		}
	}
	st.tree.zxid = t.zxid
	return t
}

// image is the state as bytes.
func image(st *state) string { return string(appendSnapshot(nil, st)) }

// TestLogCutAtEveryByte: wherever a crash has cut the log off, the next start
// finds the state after some transaction, and not one of those that were safe is
// missing.
func TestLogCutAtEveryByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	st := newState()
	images, ends := []string{image(st)}, []int{len(logMagic)}
	b := []byte(logMagic)
	for range 30 {
		b = appendRecord(b, int64(len(b)), randomTxn(st, rng))
		images, ends = append(images, image(st)), append(ends, len(b))
	}
	for cut := range len(b) + 1 {
		fs := vfs.NewMem(nil)
		writeFile(t, fs, "/d/log.0000000000000001", b[:cut])
		want := 0
		for want+1 < len(ends) && ends[want+1] <= cut {
			want++
		}
		for again := range 2 { // the second start finds what the first has left
			s, got, err := openStore(fs, "/d", quiet())
			if err != nil {
				t.Fatalf("cut at %d, start %d: %v", cut, again, err)
			}
			if image(got) != images[want] {
				t.Fatalf("cut at %d, start %d: state %#x, want that of transaction %d", cut, again, got.tree.zxid, want)
			}
			if again == 1 { // and goes on
				s.append(randomTxn(got, rng))
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
		}
		s, got, err := openStore(fs, "/d", quiet())
		if err != nil || got.tree.zxid != int64(want+1) {
			t.Fatalf("cut at %d: transaction written behind it: %v", cut, err)
		}
		s.close()
	}
}

func writeFile(t testing.TB, fs *vfs.Mem, name string, b []byte) {
	t.Helper()
	if err := makeFolder(fs, filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close(), fs.SyncDir(filepath.Dir(name))); err != nil {
		t.Fatal(err)
	}
}

// TestLogDamage: a bit that has changed in what was safe stops the start and is
// named; it is not taken for a torn end, but in the last record, where there is
// no witness.
func TestLogDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 2))
	st := newState()
	b := []byte(logMagic)
	last := 0
	for range 8 {
		last = len(b)
		b = appendRecord(b, int64(len(b)), randomTxn(st, rng))
	}
	for at := range last {
		fs := vfs.NewMem(nil)
		bad := bytes.Clone(b)
		bad[at] ^= 1 << rng.IntN(8)
		writeFile(t, fs, "/d/log.0000000000000001", bad)
		_, _, err := openStore(fs, "/d", quiet())
		if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "log.0000000000000001") {
			t.Fatalf("bit changed at %d: %v", at, err)
		}
	}
}

// TestStoreCrashes: a store that crashes anywhere, with any mixture of what was
// not safe left on the disk, goes on with a state that it had, and that has all
// that was flushed.
func TestStoreCrashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 3))
	for range 60 {
		fs := vfs.NewMem(nil)
		var crashed *vfs.Mem
		history := map[int64]string{0: image(newState())}
		for crash := range 6 {
			s, st, err := openStore(fs, "/d", quiet())
			if err != nil {
				t.Fatalf("start %d: %v", crash, err)
			}
			if history[st.tree.zxid] != image(st) {
				t.Fatalf("start %d: a state %#x that never was", crash, st.tree.zxid)
			}
			safe, left := st.tree.zxid, 1+rng.IntN(40)
			crashed = nil
			var during int64 // flushed when the crash was
			fs.SetHook(func(op vfs.Op) error {
				if !op.Kind.Changes() || crashed != nil {
					return nil
				}
				if left--; left == 0 {
					crashed, during = fs.CrashClone(rng), safe
				}
				return nil
			})
			for crashed == nil {
				for range 1 + rng.IntN(3) {
					s.append(randomTxn(st, rng))
					history[st.tree.zxid] = image(st)
				}
				if err := s.flush(); err != nil {
					t.Fatal(err)
				}
				if crashed == nil {
					safe = st.tree.zxid
				}
				if rng.IntN(4) == 0 {
					if err := errors.Join(s.roll(), s.writeSnapshot(st.tree.zxid, appendSnapshot(nil, st))); err != nil {
						t.Fatal(err)
					}
				}
			}
			fs.SetHook(nil)
			s.close()
			fs = crashed
			check, got, err := openStore(fs, "/d", quiet())
			if err != nil {
				t.Fatalf("after crash %d: %v", crash, err)
			}
			if got.tree.zxid < during {
				t.Fatalf("crash %d: transactions up to %#x were flushed, up to %#x are left", crash, during, got.tree.zxid)
			}
			for zxid := range history {
				if zxid > got.tree.zxid {
					delete(history, zxid) // these never were
				}
			}
			check.close()
		}
	}
}

// TestSnapshotRotation: old files go, and a damaged snapshot is made good by an
// older one and the log since.
func TestSnapshotRotation(t *testing.T) {
	fs := vfs.NewMem(nil)
	s, st, err := openStore(fs, "/d", quiet())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed(t), 4))
	for range 6 {
		for range 10 {
			s.append(randomTxn(st, rng))
		}
		if err := errors.Join(s.flush(), s.roll(), s.writeSnapshot(st.tree.zxid, appendSnapshot(nil, st))); err != nil {
			t.Fatal(err)
		}
	}
	s.append(randomTxn(st, rng))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	snapshots, _ := s.list(snapshotPrefix)
	logs, _ := s.list(logPrefix)
	if len(snapshots) != keptSnapshots || len(logs) != 3 || logs[0].zxid != snapshots[0].zxid+1 {
		t.Fatalf("snapshots %v, logs %v", snapshots, logs)
	}
	damageFile(t, fs, snapshots[2].name, 30)
	again, got, err := openStore(fs, "/d", quiet())
	if err != nil || image(got) != image(st) {
		t.Fatalf("with a damaged snapshot: %v", err)
	}
	again.close()
	for _, damaged := range snapshots[:2] {
		damageFile(t, fs, damaged.name, 30)
	}
	if _, _, err := openStore(fs, "/d", quiet()); err == nil {
		t.Fatal("a state out of nothing")
	}
}

func damageFile(t *testing.T, fs *vfs.Mem, name string, at int64) {
	t.Helper()
	f, err := fs.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestNothingBeforeTheSync: while a change is not on the disk, nobody is told of
// it: neither who made it, nor who reads it, nor who watches.
func TestNothingBeforeTheSync(t *testing.T) {
	fs := vfs.NewMem(nil)
	var armed atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	s := start(t, Config{DataDir: "/d", fs: fs})
	writer, reader, watcher := open(t, s), open(t, s), open(t, s)
	watcher.fails(codeNoNode, opExists, pathWatch("/n", true))
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && armed.CompareAndSwap(true, false) {
			close(reached)
			<-release
		}
		return nil
	})
	armed.Store(true)
	writer.send(opCreate, createBody("/n", "", 0))
	<-reached
	reader.send(opExists, pathWatch("/n", false))
	var early atomic.Int32
	var group sync.WaitGroup
	for _, c := range []*client{writer, reader, watcher} {
		group.Add(1)
		go func() {
			defer group.Done()
			r, err := c.read()
			select {
			case <-release:
			default:
				early.Add(1)
			}
			if err != nil || r.code != codeOK {
				t.Errorf("answer %+v, %v", r, err)
			}
		}()
	}
	// They have had the time for a round trip of their own: what is sent at once
	// would be here.
	roundTrip(t)
	close(release)
	group.Wait()
	if n := early.Load(); n > 0 {
		t.Errorf("%d clients were told before the change was on the disk", n)
	}
}

// roundTrip takes what it takes to ask another server something a few times.
func roundTrip(t *testing.T) {
	c := open(t, start(t, Config{}))
	for range 20 {
		c.must(opPing, nil)
	}
}

// TestGroupCommit: what gathers while a sync runs is made safe by one sync.
func TestGroupCommit(t *testing.T) {
	fs := vfs.NewMem(nil)
	s := start(t, Config{DataDir: "/d", fs: fs})
	const clients = 20
	all := make([]*client, clients)
	for i := range all {
		all[i] = open(t, s)
	}
	var syncs atomic.Int32
	reached, release := make(chan struct{}), make(chan struct{})
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && syncs.Add(1) == 1 {
			close(reached)
			<-release
		}
		return nil
	})
	all[0].send(opCreate, createBody(number(0), "", 0))
	<-reached
	for i, c := range all[1:] {
		c.send(opCreate, createBody(number(i+1), "", 0))
	}
	eventually(t, "all requests are queued", func() bool { return len(s.queue) == clients-1 })
	close(release)
	for _, c := range all {
		if r := c.receive(); r.code != codeOK {
			t.Errorf("code %d", r.code)
		}
	}
	if n := syncs.Load(); n != 2 {
		t.Errorf("%d syncs for %d creates, of which all but one came during the first", n, clients)
	}
}

// TestFailedSync: a log that cannot be synced ends the server (fault B04): no answer, no
// further write, and the next start finds what the disk has.
func TestFailedSync(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpSync, vfs.OpWrite} {
		fs := vfs.NewMem(nil)
		s := start(t, Config{DataDir: "/d", fs: fs})
		c := open(t, s)
		c.must(opCreate, createBody("/before", "", 0))
		broken := errors.New("broken disk")
		fs.SetHook(vfs.FailNth(kind, 1, broken))
		c.send(opCreate, createBody("/after", "", 0))
		c.ended()
		select {
		case <-s.Done():
		case <-time.After(patience):
			t.Fatal("the server runs")
		}
		if !errors.Is(s.Err(), broken) {
			t.Errorf("failed with %v", s.Err())
		}
		if err := s.Expire(c.id); !errors.Is(err, ErrClosed) {
			t.Errorf("Expire: %v", err)
		}
		stop(t, s)
		fs.SetHook(nil)
		again := join(t, start(t, Config{DataDir: "/d", fs: fs.CrashClone(nil)}), c)
		if again.id != c.id || !again.exists("/before") || again.exists("/after") {
			t.Errorf("session %#x of %#x, nodes %v %v", again.id, c.id, again.exists("/before"), again.exists("/after"))
		}
	}
}

// TestRestart on the real file system: nodes, sessions and numbers stay.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	s := start(t, Config{DataDir: dir, snapshotTxns: 10})
	a := open(t, s)
	for i := range 55 {
		a.must(opCreate, createBody(number(i), "x", modeEphemeral))
	}
	if _, err := startServer(t, Config{DataDir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server in the folder: %v", err)
	}
	before := a.must(opGetData, pathWatch("/n0007", false))
	stop(t, s)
	a.ended()
	s = start(t, Config{DataDir: dir})
	b := join(t, s, a)
	if b.id != a.id || !bytes.Equal(b.password, a.password) {
		t.Fatalf("session %#x became %#x", a.id, b.id)
	}
	after := b.must(opGetData, pathWatch("/n0007", false))
	if !bytes.Equal(after.body, before.body) || after.zxid != before.zxid {
		t.Errorf("%x at %#x became %x at %#x", before.body, before.zxid, after.body, after.zxid)
	}
	if got := s.Sessions(); len(got) != 1 || len(got[0].Ephemerals) != 55 {
		t.Errorf("sessions %+v", got)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 1+keptSnapshots+4 {
		t.Errorf("files %v, %v", list, err)
	}
}

// TestManyStarts: each start makes a log file, and they do not gather.
func TestManyStarts(t *testing.T) {
	fs := vfs.NewMem(nil)
	var c *client
	for range 4 * maxLogFiles {
		s := start(t, Config{DataDir: "/d", fs: fs})
		if c == nil {
			c = open(t, s)
		} else {
			c = join(t, s, c)
		}
		c.must(opCreate, createBody("/n-", "", modePersistentSequential))
		c.conn.Close()
		stop(t, s)
	}
	s, st, err := openStore(fs, "/d", quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	logs, err := s.list(logPrefix)
	if err != nil || len(logs) > (keptSnapshots+1)*maxLogFiles {
		t.Errorf("%d log files, %v", len(logs), err)
	}
	if snapshots, err := s.list(snapshotPrefix); err != nil || len(snapshots) != keptSnapshots {
		t.Errorf("%d snapshots, %v", len(snapshots), err)
	}
	if n := len(st.tree.get(rootPath).children); n != 4*maxLogFiles+1 {
		t.Errorf("%d nodes", n)
	}
}

// TestCloseWithADiskThatHangs: Close does not wait longer than it may.
func TestCloseWithADiskThatHangs(t *testing.T) {
	fs := vfs.NewMem(nil)
	s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", DataDir: "/d", fs: fs})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, s)
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			once.Do(func() { close(reached) })
			<-release
		}
		return nil
	})
	c.send(opCreate, createBody("/n", "", 0))
	<-reached
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "/d") {
		t.Errorf("%v", err)
	}
	c.ended()
	close(release)
	eventually(t, "the folder is closed", func() bool {
		locked, err := fs.Locked("/d/" + lockName)
		return err == nil && !locked
	})
}
