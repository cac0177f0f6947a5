package torture_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest/torture"
)

// kills is how often TestKill kills the broker; KAFKALAB_KILLS overrides it.
const kills = 50

const (
	killSegmentBytes   = 64 << 10
	killRetentionBytes = 1 << 20
)

// TestKill loads a broker, kills it with signal 9 at a random moment, starts it
// again on what it left, and compares that with what it had promised: over and
// over on one log folder, with small segments, with retention, and with other
// rules for the flush each time. What a process has written survives it in the
// page cache, so nothing acknowledged as appended or flushed may be lost.
//
// The test log says what each level of acknowledgement has lost.
func TestKill(t *testing.T) {
	rounds := int(number(t, "KAFKALAB_KILLS", kills))
	seed := number(t, "KAFKALAB_SEED", uint64(time.Now().UnixNano()))
	t.Logf("KAFKALAB_SEED=%d KAFKALAB_KILLS=%d", seed, rounds)
	k := &killing{
		t:      t,
		rng:    rand.New(rand.NewPCG(seed, 5)),
		bin:    torture.Build(t),
		dir:    t.TempDir(),
		ledger: torture.NewLedger(seed),
	}
	b := torture.Start(t, k.argv()...)
	if err := k.ledger.CreateTopic(k.context(), b.Addr(), "killed", 3); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for round := range rounds {
		b = k.round(b)
		if t.Failed() {
			t.Fatalf("in round %d of %d", round+1, rounds)
		}
		if round%100 == 99 {
			t.Logf("round %d, %v\n%v", round+1, time.Since(began).Round(time.Second), k.total)
		}
	}
	k.stopCleanly(b)
	t.Logf("killed %d times in %v, %d times more while it started\n%v", rounds, time.Since(began).Round(time.Second), k.early, k.total)
	k.wantSubstance(rounds)
}

// killing is one run of TestKill.
type killing struct {
	t      *testing.T
	rng    *rand.Rand
	bin    string
	dir    string
	ledger *torture.Ledger
	total  torture.Report
	early  int // kills of a broker that did not serve yet
	acked  [4]int64
}

func (k *killing) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	k.t.Cleanup(cancel)
	return ctx
}

// argv returns a command line whose flush rules are as chance has it.
func (k *killing) argv() []string {
	pick := func(values ...string) string { return values[k.rng.IntN(len(values))] }
	return []string{
		k.bin, "broker", "--log-dir", k.dir, "--listen", "127.0.0.1:0",
		"--flush-messages", pick("0", "1", "20", "500"),
		"--flush-interval", pick("0", "1ms", "20ms", "500ms"),
		"--visible", pick("flushed", "flushed", "appended"),
		"--segment-size", strconv.Itoa(killSegmentBytes),
		"--retention-size", strconv.Itoa(killRetentionBytes),
		"--cleanup-interval", pick("5ms", "50ms", "1s"),
	}
}

// round loads the broker, kills it, starts it again and checks it.
func (k *killing) round(b *torture.Process) *torture.Process {
	k.t.Helper()
	load := k.ledger.StartLoad(b.Addr(), torture.LoadConfig{
		Streams: 1 + k.rng.IntN(3), MaxPayloadBytes: 50 << k.rng.IntN(7), MaxMessages: 1 + k.rng.IntN(20),
		Pause: time.Millisecond << k.rng.IntN(3), Scratch: true, Seed: k.rng.Uint64(),
	})
	// A kill that comes before anything was promised tests nothing.
	err := load.WaitAcked(k.context(), torture.Flushed, 1)
	if err == nil {
		time.Sleep(time.Duration(k.rng.Int64N(int64(300 * time.Millisecond))))
	}
	load.CrashAhead()
	b.Kill()
	load.Stop()
	if err != nil {
		k.t.Fatalf("%v; the broker's log:\n%s", err, b.Log())
	}
	for _, level := range torture.Levels() {
		k.acked[level] += load.Acked(level)
	}
	argv := k.argv()
	if k.rng.IntN(5) == 0 {
		k.killEarly(argv)
	}
	b = torture.Start(k.t, argv...)
	k.check(b)
	return b
}

// killEarly starts the broker and kills it while it recovers, or a little later.
func (k *killing) killEarly(argv []string) {
	b := torture.Launch(k.t, argv...)
	time.Sleep(time.Duration(k.rng.Int64N(int64(40 * time.Millisecond))))
	select {
	case <-b.Done():
		k.t.Errorf("the broker has ended by itself; its log:\n%s", b.Log())
	default:
	}
	if !b.Ready() {
		k.early++
	}
	b.Kill()
}

// check compares what a broker that has just started has with what was promised.
func (k *killing) check(b *torture.Process) {
	k.t.Helper()
	snapshot, err := k.ledger.Read(k.context(), b.Addr())
	if err != nil {
		k.t.Fatalf("%v; the broker's log:\n%s", err, b.Log())
	}
	report := k.ledger.Check(snapshot, torture.CheckOptions{
		Crash: torture.Killed, Retention: true, RetentionBytes: killRetentionBytes,
	})
	k.total.Add(report)
	if err := report.Err(); err != nil {
		k.t.Errorf("broken promises:\n%v\nThe broker's log:\n%s", err, b.Log())
	}
	if out, err := torture.Run(k.bin, "log", "verify", k.dir); err != nil {
		k.t.Errorf("log verify: %v\n%s\nThe broker's log:\n%s", err, out, b.Log())
	}
	for _, word := range []string{"panic", "DATA RACE", "level=ERROR"} {
		if strings.Contains(b.Log(), word) {
			k.t.Errorf("the broker's log says %q:\n%s", word, b.Log())
		}
	}
}

// stopCleanly stops the broker in the middle of a load as its user would, and
// checks once more: a clean stop may lose no more than a kill.
func (k *killing) stopCleanly(b *torture.Process) {
	k.t.Helper()
	load := k.ledger.StartLoad(b.Addr(), torture.LoadConfig{Scratch: true, Seed: k.rng.Uint64()})
	if err := load.WaitAcked(k.context(), torture.Flushed, 1); err != nil {
		k.t.Error(err)
	}
	load.CrashAhead()
	err := b.Stop()
	load.Stop()
	if err != nil {
		k.t.Fatal(err)
	}
	if out, err := torture.Run(k.bin, "log", "verify", k.dir); err != nil || strings.Contains(out, "is running") {
		k.t.Errorf("log verify after a clean stop: %v\n%s", err, out)
	}
	b = torture.Start(k.t, k.argv()...)
	k.check(b)
	if err := b.Stop(); err != nil {
		k.t.Error(err)
	}
}

// wantSubstance fails when the run has not tested what it is there to test.
func (k *killing) wantSubstance(rounds int) {
	if rounds < 20 {
		return
	}
	for level, c := range k.total.Levels {
		if c.Found == 0 {
			k.t.Errorf("no message of level %v was found", torture.Level(level))
		}
		if torture.Level(level) != torture.None && k.acked[level] == 0 {
			k.t.Errorf("no message was acknowledged as %v", torture.Level(level))
		}
	}
	none := k.total.Levels[torture.None]
	switch {
	case none.Lost == 0:
		k.t.Error("not even a message without an acknowledgement was lost: the kills come too late")
	case k.total.Seen == 0:
		k.t.Error("the consumers have seen nothing")
	case k.total.Trims == 0:
		k.t.Error("retention has removed nothing")
	}
}

// number returns the value of an environment variable, or the default.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: a number is wanted", name, text)
	}
	return n
}
