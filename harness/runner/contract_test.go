package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// telling is the stand-in with a server that says what is set in it: whether
// messages are persistent is another answer at each start.
type telling struct {
	standIn
	starts *atomic.Int64
	asked  chan driver.Measurement
}

func (d telling) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	s, err := d.standIn.Start(ctx, broker, dir, o)
	if err != nil {
		return nil, err
	}
	return &tellingServer{s, d.starts.Add(1), d.asked}, nil
}

type tellingServer struct {
	driver.Server
	start int64
	asked chan driver.Measurement
}

func (s *tellingServer) Contract(_ context.Context, m driver.Measurement) ([]resultfile.ContractRow, error) {
	s.asked <- m
	class := driver.Persistent
	if s.start > 1 {
		class = driver.Transient
	}
	rows := []resultfile.ContractRow{
		{Row: driver.RowQueue, Value: "a page"}, // out of order
		{Row: driver.RowDurability, Value: "so it is", Class: class, ReadBack: true},
	}
	return rows, errors.New("the rest is not known")
}

// A contract is read of every attempt while its client waits, with what the
// kernel says of the limits that the server is held to; the first one is kept
// with the system, and what differs later is noted.
func TestContract(t *testing.T) {
	p := newPlan(t, 5_000, scenarioOf("send", resultfile.Produce, system("sound", "none")), scenarioOf("receive", resultfile.Consume, system("sound", "none")))
	d := telling{standIn{driver.NewNull()}, new(atomic.Int64), make(chan driver.Measurement, 10)}
	p.Drivers = driver.NewTable(d)
	p.Selection.Repeat = 2
	p.Limits = host.Limits{Cores: "0", MemoryBytes: 128 << 20}
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	held := "none"
	if os.Geteuid() == 0 {
		held = fmt.Sprint(128 << 20)
	}
	for _, s := range r.Run.Scenarios {
		var rows []string
		for _, row := range s.Systems[0].Contract {
			rows = append(rows, row.Row+"="+row.Class)
			if !row.ReadBack && row.Row != driver.RowQueue {
				t.Errorf("%s is not read back: %+v", row.Row, row)
			}
		}
		disk := rows[len(rows)-2]
		want := []string{"durability=persistent", "connections=0", "threads=", "cores=0", "memory limit=" + held, disk, "queue or log="}
		if !slices.Equal(rows, want) || !strings.HasPrefix(disk, "disk=/") && !strings.Contains(disk, ", ") {
			t.Errorf("%s: the contract is %q,\nwant %q", s.Name, rows, want)
		}
	}
	for _, name := range []string{"send", "receive"} {
		first, second := attemptOf(t, r, name+"-sound-1"), attemptOf(t, r, name+"-sound-2")
		if first.Outcome != resultfile.Valid || second.Outcome != resultfile.Valid {
			t.Errorf("%s: %s, %s", name, first.Outcome, second.Outcome)
		}
		if !slices.Contains(first.Notes, "contract: the rest is not known") {
			t.Errorf("%s: notes %q", name, first.Notes)
		}
		if want := "contract: durability: transient, where the system's first attempt had persistent"; !slices.Contains(second.Notes, want) || slices.Contains(first.Notes, want) {
			t.Errorf("%s: notes %q, then %q", name, first.Notes, second.Notes)
		}
	}
	if n := len(d.asked); n != 4 {
		t.Errorf("the servers were asked %d times, wanted once for each attempt", n)
	}
	if m := <-d.asked; m.Work != resultfile.Produce || m.Queue != "bench" || m.PayloadBytes != 200 || m.Options["fault"] != "none" {
		t.Errorf("asked for %+v", m)
	}
	noGroupLeft(t, p)
}

// noGroupLeft checks that no control group of the run is there any more.
func noGroupLeft(t *testing.T, p Plan) {
	t.Helper()
	name := "kafkalab-" + filepath.Base(filepath.Dir(p.Broker.Dir())) + "-"
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), name) {
			t.Errorf("%s is left", path)
		}
		return nil // groups of others come and go
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// greedy is the stand-in with a server that takes more memory than it may as
// soon as it has started.
type greedy struct{ standIn }

func (d greedy) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	s, err := d.standIn.Start(ctx, eager{broker}, dir, o)
	if err != nil {
		return nil, err
	}
	// The client may send all before the kernel has had enough.
	deadline := time.After(time.Minute)
	select {
	case <-s.Died():
		return s, nil
	case <-deadline:
		return nil, errors.Join(errors.New("it has all the memory that it wants"), s.Stop(context.WithoutCancel(ctx)))
	}
}

// eager starts, in place of any program, one that wants more memory than it may
// have, and no more than any machine has.
type eager struct{ host.Host }

func (h eager) Start(ctx context.Context, c host.Command) (host.Process, error) {
	c.Args = []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=1"}
	return h.Host.Start(ctx, c)
}

// A server that the kernel has ended at the limit of its memory is named as
// that, and not as one that ended by itself.
func TestServerOutOfMemory(t *testing.T) {
	hosttest.Root(t)
	p := newPlan(t, 5_000, scenarioOf("send", resultfile.Produce, system("sound", "none")))
	p.Drivers = driver.NewTable(greedy{standIn{driver.NewNull()}})
	p.Limits = host.Limits{MemoryBytes: 64 << 20}
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	a := attemptOf(t, read(t, p), "send-sound-1")
	for _, want := range []string{"out of memory", "64MiB", "the server ended by itself"} {
		if a.Outcome != resultfile.Failed || !strings.Contains(a.Reason, want) {
			t.Errorf("%s: %s, %s is wanted", a.Outcome, a.Reason, want)
		}
	}
	nothingLeft(t, p)
	noGroupLeft(t, p)
}

func TestEstablished(t *testing.T) {
	const text = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0100007F:2580 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:2580 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:C001 0100007F:2580 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 0100007F:2580 0100007F:C002 06 00000000:00000000 00:00000000 00000000     0        0 4
   4: 00000000000000000000000001000000:2580 00000000000000000000000001000000:C003 01 00000000:00000000 00:00000000 0 0 5
`
	if n := established(text, 9600); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestProcessRows(t *testing.T) {
	limits := resultfile.Limits{Cores: "0-1", MemoryBytes: 1 << 30}
	for _, c := range []struct {
		running       []host.Running
		limits        resultfile.Limits
		threads       string
		cores, memory string
		valueOfMemory string
	}{
		{[]host.Running{{Name: "java", Threads: 40, Cores: "0-1", MemoryBytes: 1 << 30}}, limits, "40 (java 40)", "0-1", "1073741824", "1GiB, page cache included"},
		// One that got away is not held, whatever was wanted.
		{[]host.Running{{Name: "beam", Threads: 20, Cores: "0-1", MemoryBytes: 1 << 30}, {Name: "epmd", Threads: 1, Cores: "0-3"}}, limits,
			"21 (beam 20, epmd 1)", "0-1 and 0-3", "none", "a process of the server is not held"},
		{[]host.Running{{Name: "java", Threads: 40, Cores: "0-1"}}, resultfile.Limits{Cores: "0-1", Note: "cores by …; memory not held: needs root on far"},
			"40 (java 40)", "0-1", "none", "not held: needs root on far"},
	} {
		rows := processRows(c.running, c.limits)
		if len(rows) != 3 || rows[0].Value != c.threads || rows[1].Class != c.cores || rows[2].Class != c.memory || rows[2].Value != c.valueOfMemory {
			t.Errorf("%+v", rows)
		}
	}
}

// TestContractChanges: what is of a moment is no change: threads, and connections
// that have no class.
func TestContractChanges(t *testing.T) {
	rows := func(threads, connections, class, memory string) []resultfile.ContractRow {
		return []resultfile.ContractRow{
			{Row: driver.RowThreads, Value: threads},
			{Row: driver.RowConnections, Value: connections, Class: class},
			{Row: driver.RowMemory, Value: memory, Class: memory},
		}
	}
	for _, c := range []struct {
		was, now []resultfile.ContractRow
		want     []string
	}{
		{rows("7", "2", "2", "1"), rows("9", "2", "2", "1"), nil},
		{rows("7", "2", "", "1"), rows("7", "17", "", "1"), nil},
		{rows("7", "2", "2", "1"), rows("7", "17", "17", "1"), []string{"connections: 17, where the system's first attempt had 2"}},
		{rows("7", "2", "", "1"), rows("7", "2", "", "none"), []string{"memory limit: none, where the system's first attempt had 1"}},
	} {
		if got := contractChanges(c.was, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%v, then %v: %q, want %q", c.was, c.now, got, c.want)
		}
	}
}

// A contract says nothing of a client of the other side.
func TestContractOfOneSide(t *testing.T) {
	var rows []resultfile.ContractRow
	for _, name := range []string{driver.RowFlush, driver.RowProducerAck, driver.RowConsumerAck, driver.RowPrefetch} {
		rows = append(rows, resultfile.ContractRow{Row: name, Value: "v", Class: "c"})
	}
	for _, c := range []struct {
		spec Spec
		kept string // of the rows, by their first letters
	}{
		{Spec{Work: resultfile.Produce}, "fp"},
		{Spec{Work: resultfile.Produce, Beside: 1}, "fpcp"},
		{Spec{Work: resultfile.Consume}, "fcp"},
		{Spec{Work: resultfile.Stream}, "fpcp"},
	} {
		kept := ""
		for _, r := range applicable(c.spec, rows) {
			if r.Class != "" {
				kept += r.Row[:1]
			} else if !strings.HasPrefix(r.Value, "does not apply") {
				t.Errorf("%+v", r)
			}
		}
		if kept != c.kept || rows[1].Class != "c" {
			t.Errorf("%s: %s, want %s", c.spec.Work, kept, c.kept)
		}
	}
}
