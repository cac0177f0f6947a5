package disktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/kafkatest/torture"
)

const (
	// powerDiskBytes is the size of the disk. Its file is sparse.
	powerDiskBytes = 256 << 20
	// powerCuts is how often TestPowerLoss cuts the power; KAFKALAB_POWERCUTS
	// overrides.
	powerCuts = 30
	// maxLoadTime is how long a load runs at most before that.
	maxLoadTime = 800 * time.Millisecond
)

// TestPowerLoss takes the power from a loaded broker, again and again: whatever
// was acknowledged as flushed, or seen by a consumer, is there afterwards, at
// its offset; nothing is there that was not sent, and nothing damaged is handed
// out. What the other levels of acknowledgement lose is counted, and told in the
// log of the test.
func TestPowerLoss(t *testing.T) {
	needDisks(t)
	cuts := number(t, "KAFKALAB_POWERCUTS", powerCuts)
	seed, rng := random(t)
	bin := torture.Build(t)
	d := newDisk(t, powerDiskBytes)
	var total torture.Report
	torn, starts := 0, 0
	for lives := uint64(0); total.Checks < cuts; lives++ {
		if lives > 0 {
			d.format()
		}
		m := &machine{t: t, d: d, program: bin, rng: rng, ledger: torture.NewLedger(seed + lives)}
		m.boot()
		m.createTopic()
		for range 1 + rng.IntN(5) {
			m.loseUnderLoad(nil)
			for rng.IntN(4) == 0 {
				m.loseAtStart()
				starts++
			}
			m.boot()
			report := m.check()
			total.Add(report)
			torn += m.torn()
			if err := errors.Join(report.Err(), m.verify()); err != nil {
				t.Fatalf("after loss of power %d:\n%v\nbefore:\n%s\nafter:\n%s", total.Checks, err, m.logBefore, m.broker.Log())
			}
			if total.Checks == cuts || d.used() > powerDiskBytes/3 {
				break
			}
		}
		m.broker.Kill()
	}
	t.Logf("the power was lost %d times, and %d times more at the start after it; %d logs had a torn end\n%s", cuts, starts, torn, total)
	if cuts < 10 {
		return // chance may have it that nothing is lost
	}
	for _, level := range torture.Levels() {
		if total.Levels[level].Sent == 0 {
			t.Errorf("no message was sent with acks %v", level)
		}
	}
	if total.Levels[torture.None].Lost == 0 {
		t.Error("not a message was lost, not even of those that nobody acknowledged: the power was not cut")
	}
}

// TestPowerLossFindsABrokerThatDoesNotFlush shows that TestPowerLoss can fail: a
// broker whose syncs do nothing is found out.
func TestPowerLossFindsABrokerThatDoesNotFlush(t *testing.T) {
	needDisks(t)
	for _, row := range []struct {
		name   string
		synced bool
	}{
		// Nothing is left, not even the topic.
		{"all is gone", false},
		// As when the load has run for longer: the kernel has written some by
		// itself, and the newest messages are gone.
		{"the newest are gone", true},
	} {
		t.Run(row.name, func(t *testing.T) { findLiar(t, row.synced) })
	}
}

func findLiar(t *testing.T, synced bool) {
	seed, rng := random(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(lyingVariable, "1")
	d := newDisk(t, powerDiskBytes)
	// A sync of somebody else's can save a broker that does none.
	const tries = 5
	for try := range uint64(tries) {
		d.format()
		m := &machine{t: t, d: d, program: program, rng: rng, ledger: torture.NewLedger(seed + try)}
		m.boot()
		m.createTopic()
		m.loseUnderLoad(func(load *torture.Load) {
			if !synced {
				return
			}
			if err := unix.Syncfs(int(d.root.Fd())); err != nil {
				t.Fatal(err)
			}
			m.waitFlushed(load, load.Acked(torture.Flushed)+1)
		})
		if err := m.tryBoot(); err != nil {
			t.Logf("found out: the next broker does not start: %v", err)
			return
		}
		report := m.check()
		m.broker.Kill()
		if err := report.Err(); err != nil && (!synced || report.Levels[torture.Flushed].LostAcked > 0) {
			t.Logf("found out: %s, …\n%s", report.Problems[0], report)
			return
		}
		t.Logf("not found out the %d. time: %v\n%s", try+1, report.Err(), report)
	}
	t.Errorf("a broker that does not flush passed %d losses of power", tries)
}

// machine is what loses its power: a broker, its disk, and those who know what
// it has promised.
type machine struct {
	t       *testing.T
	d       *disk
	program string
	rng     *rand.Rand
	ledger  *torture.Ledger

	broker    *torture.Process
	options   torture.CheckOptions // for a crash of the broker that runs now
	lost      torture.CheckOptions // for the one before
	logBefore string               // of the one before
}

// boot starts a broker with settings of its own.
func (m *machine) boot() {
	m.t.Helper()
	if err := m.tryBoot(); err != nil {
		m.t.Fatalf("%v\nbefore:\n%s", err, m.logBefore)
	}
}

func (m *machine) tryBoot() error {
	m.t.Helper()
	flags := m.launch()
	if err := m.broker.WaitReady(); err != nil {
		return fmt.Errorf("broker %v: %w", flags, err)
	}
	return nil
}

// launch starts a broker and does not wait until it serves. It returns its
// settings.
func (m *machine) launch() []string {
	m.t.Helper()
	pick := func(choices ...string) string { return choices[m.rng.IntN(len(choices))] }
	flags := []string{
		"--log-dir", m.logDir(),
		"--listen", "127.0.0.1:0",
		"--segment-size", strconv.Itoa(1 << (12 + m.rng.IntN(9))), // 4 KiB to 1 MiB: it rolls all the time
		"--flush-messages", pick("0", "1", "10", "500"),
		"--flush-interval", pick("0", "5ms", "50ms", "1s"),
	}
	m.options = torture.CheckOptions{Crash: torture.PowerLost}
	if m.rng.IntN(4) == 0 {
		flags = append(flags, "--visible", "appended")
		m.options.VisibleAppended = true
	}
	if m.rng.IntN(4) == 0 {
		flags = append(flags, "--retention-size", "200000", "--cleanup-interval", "20ms")
		m.options.Retention = true
	}
	m.broker = torture.Launch(m.t, append([]string{m.program, "broker"}, flags...)...)
	return flags[4:]
}

func (m *machine) createTopic() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.ledger.CreateTopic(ctx, m.broker.Addr(), "t", 3); err != nil {
		m.t.Fatal(err)
	}
}

// loseUnderLoad loads the broker and takes the power away at some moment. The
// broker may see that for a moment before it is gone too. meanwhile, if given, is
// called when the load runs.
func (m *machine) loseUnderLoad(meanwhile func(*torture.Load)) {
	m.t.Helper()
	load := m.ledger.StartLoad(m.broker.Addr(), torture.LoadConfig{
		Streams:         1 + m.rng.IntN(2),
		MaxPayloadBytes: []int{50, 500, 3000}[m.rng.IntN(3)],
		Pause:           time.Duration(m.rng.Int64N(int64(3 * time.Millisecond))),
		Scratch:         true,
		Seed:            m.rng.Uint64(),
	})
	defer load.Stop()
	ctx, cancel := context.WithCancel(m.t.Context())
	var kernel sync.WaitGroup
	rng := rand.New(rand.NewPCG(m.rng.Uint64(), 0))
	kernel.Go(func() { m.d.writeBack(ctx, rng, filepath.Join(m.logDir(), "*", "*.kafka")) })
	stopKernel := func() {
		cancel()
		kernel.Wait()
	}
	defer stopKernel()
	m.waitFlushed(load, 1)
	if meanwhile != nil {
		meanwhile(load)
	}
	time.Sleep(time.Duration(m.rng.Int64N(int64(maxLoadTime)))) // to no state: to any moment
	load.PowerLossAhead()
	m.d.cutPower()
	time.Sleep(time.Duration(m.rng.Int64N(int64(20 * time.Millisecond))))
	m.broker.Kill()
	load.Stop()
	stopKernel()
	m.lost, m.logBefore = m.options, m.broker.Log()
	m.d.restorePower()
}

// loseAtStart starts a broker and takes the power away while it recovers, or soon
// after.
func (m *machine) loseAtStart() {
	m.t.Helper()
	m.launch()
	time.Sleep(time.Duration(m.rng.Int64N(int64(60 * time.Millisecond))))
	m.d.cutPower()
	m.broker.Kill()
	m.lost.Retention = m.lost.Retention || m.options.Retention
	m.logBefore += "the power is lost at the start, too:\n" + m.broker.Log()
	m.d.restorePower()
}

// waitFlushed waits until so many messages were acknowledged as flushed.
func (m *machine) waitFlushed(load *torture.Load, messages int64) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := load.WaitAcked(ctx, torture.Flushed, messages); err != nil {
		m.t.Fatalf("%v\n%s", err, m.broker.Log())
	}
}

// check compares what is there with what was promised before the loss.
func (m *machine) check() torture.Report {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*patience)
	defer cancel()
	snapshot, err := m.ledger.Read(ctx, m.broker.Addr())
	if err != nil {
		m.t.Fatalf("read what is there: %v\nbefore:\n%s\nafter:\n%s", err, m.logBefore, m.broker.Log())
	}
	o := m.lost
	o.Retention = o.Retention || m.options.Retention // it is at work already
	return m.ledger.Check(snapshot, o)
}

// torn returns how many logs the broker has cut at its start.
func (m *machine) torn() int {
	m.t.Helper()
	found := opened.FindStringSubmatch(m.broker.Log())
	if found == nil {
		m.t.Fatalf("the log does not tell what was cut:\n%s", m.broker.Log())
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// opened is the line that a broker logs when it has opened its logs.
var opened = regexp.MustCompile(`log folder opened.* cut=([0-9]+)`)

// verify looks at the log folder with the tool that users have for it, and at
// what the brokers have logged. Errors are logged only before the loss: of a disk
// that was gone.
func (m *machine) verify() error {
	if out, err := torture.Run(m.program, "log", "verify", m.logDir()); err != nil {
		return fmt.Errorf("log verify: %w\n%s", err, out)
	}
	if strings.Contains(m.logBefore+m.broker.Log(), "panic") {
		return errors.New("a broker panicked")
	}
	if strings.Contains(m.broker.Log(), "level=ERROR") {
		return errors.New("the broker that took over logs an error")
	}
	return nil
}

func (m *machine) logDir() string { return filepath.Join(m.d.dir, "log") }

// TestPowerLossForgets shows what the other tests stand on: after a loss of power
// what was synced is there, and what was only written is not.
func TestPowerLossForgets(t *testing.T) {
	d := newDisk(t, 16<<20)
	synced, written := filepath.Join(d.dir, "synced"), filepath.Join(d.dir, "written")
	file, err := os.Create(synced)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("this stays")
	if err := errors.Join(err, file.Sync(), file.Close(), d.root.Sync()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(written, []byte("this goes"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.cutPower()
	if err := os.WriteFile(written, []byte("too late"), 0o600); !errors.Is(err, unix.EIO) && !errors.Is(err, unix.ESHUTDOWN) {
		t.Errorf("a write after the loss of power: %v", err)
	}
	d.restorePower()
	if b, err := os.ReadFile(synced); string(b) != "this stays" {
		t.Errorf("what was synced is now %q, %v", b, err)
	}
	if b, err := os.ReadFile(written); err == nil && len(b) > 0 {
		t.Errorf("what was only written is there: %q", b)
	}
}
