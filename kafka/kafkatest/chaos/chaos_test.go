package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// stormTime is how long a run is tormented; KAFKALAB_CHAOS overrides it, as "make
// torture" does.
const stormTime = 30 * time.Second

// settleLimit is how long it may take after the last trouble until every partition
// has an owner that lives: sessions of the dead have to end, and those of the
// living to be made again, on a machine that runs all of this.
const settleLimit = 20 * time.Second

func TestMain(m *testing.M) {
	RunAsWorker()
	os.Exit(m.Run())
}

// TestChaos torments a group on the embedded server and on an ensemble of three,
// one run each; KAFKALAB_CHAOS_RUNS makes it more. KAFKALAB_SEED repeats what is
// done to whom, though not when what comes of it happens.
func TestChaos(t *testing.T) {
	seed := number(t, "KAFKALAB_SEED", uint64(time.Now().UnixNano()))
	runs := number(t, "KAFKALAB_CHAOS_RUNS", 1)
	for _, kind := range []zktest.Kind{zktest.Embedded, zktest.Ensemble} {
		t.Run(kind.String(), func(t *testing.T) {
			for i := range runs {
				t.Run(fmt.Sprint(i+1), func(t *testing.T) { torment(t, kind, seed+i) })
			}
		})
	}
}

func torment(t *testing.T, kind zktest.Kind, seed uint64) {
	d := stormTime
	if text := os.Getenv("KAFKALAB_CHAOS"); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			t.Fatalf("KAFKALAB_CHAOS: %v", err)
		}
	}
	t.Logf("KAFKALAB_SEED=%d KAFKALAB_CHAOS=%v", seed, d)
	w := newWorld(t, kind, seed)
	w.settle("at the start")
	done := w.storm(d)
	calm := Now()
	w.settle("after the storm")
	t.Logf("settled %v after the last trouble", since(calm, Now()).Round(time.Millisecond))
	w.calm()
	run := w.finish()
	r := Check(run)
	var what []string
	for _, k := range slices.Sorted(maps.Keys(done)) {
		what = append(what, fmt.Sprintf("%s: %d", k, done[k]))
	}
	t.Logf("%d consumers; %s\n%v; %d acknowledged, %d sends failed, %d starts of brokers without ZooKeeper", len(w.consumers), strings.Join(what, ", "), r, len(run.Acked), w.load.failed, w.unstarted)
	if err := r.Err(); err != nil {
		w.keep()
		t.Fatal(err)
	}
	if d >= stormTime && (r.Clean == 0 || r.Twice == 0 || r.Messages < 1000) {
		t.Errorf("nothing much was tested: %v", r)
	}
}

// keep copies what the test has left, journals, logs of brokers and the data of
// ZooKeeper, to where the end of the test does not remove it.
func (w *world) keep() {
	w.t.Helper()
	to, err := os.MkdirTemp("", "kafkalab-chaos-")
	if err == nil {
		err = os.CopyFS(to, os.DirFS(filepath.Dir(w.dir)))
	}
	for _, p := range w.consumers {
		if err == nil {
			err = os.WriteFile(filepath.Join(to, p.name+".log"), p.log.Bytes(), 0o600)
		}
	}
	if err != nil {
		w.t.Logf("keep what is left: %v", err)
		return
	}
	for _, t := range w.troubles {
		w.t.Logf("%s: %s from %d to %d", t.What, t.Consumer, t.From, t.To)
	}
	now, clock := time.Now(), Now()
	w.t.Logf("journals, logs and data are kept in %s; %s was %d on the clock of the journals", to, now.Format(time.StampMicro), clock)
}

// settle waits until every partition has an owner that lives.
func (w *world) settle(when string) {
	w.t.Helper()
	var why string
	for end := time.Now().Add(settleLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if why = w.unsettled(); why == "" {
			return
		}
		w.noneDied()
	}
	w.t.Errorf("%s the group has not settled within %v: %s", when, settleLimit, why)
}

// unsettled says what is not as it should be.
func (w *world) unsettled() string {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	owners, err := w.registry.Owners(ctx, group, topic)
	if err != nil {
		return err.Error()
	}
	alive := make(map[string]bool)
	for _, p := range w.alive() {
		alive[p.id] = true
	}
	for b := range int32(brokers) {
		for n := range int32(perBroker) {
			p := registry.Partition{Broker: b, Partition: n}
			id, _, err := registry.ParseThreadID(owners[p])
			switch {
			case owners[p] == "":
				return fmt.Sprintf("partition %v has no owner", p)
			case err != nil:
				return err.Error()
			case !alive[id]:
				return fmt.Sprintf("partition %v is owned by %s, which has gone", p, id)
			}
		}
	}
	return ""
}

// finish lets the group handle all that was produced, ends it, and returns what
// came of it.
func (w *world) finish() Run {
	w.t.Helper()
	w.load.end()
	w.awaitBrokers()
	run := Run{Journals: make(map[string][]Event), Troubles: w.troubles, Ends: w.logEnds(), Acked: w.load.acked, Lease: int64(sessionTime)}
	w.drain(run.Ends)
	for _, p := range w.alive() {
		p.leaving = true
		w.signal(p, syscall.SIGTERM)
	}
	for _, p := range w.consumers {
		select {
		case <-p.ended:
		case <-time.After(patience):
			w.t.Fatalf("consumer %s does not end", p.name)
		}
	}
	w.noneDied()
	w.stop()
	w.background.Wait()
	run.Offsets = w.observed
	for _, p := range w.consumers {
		events, err := ReadJournal(p.journal)
		if err != nil {
			w.t.Fatal(err)
		}
		run.Journals[p.name] = events
	}
	return run
}

// calm lets the aftermath of the storm pass, and consumers come and go without any
// trouble: those handovers are clean.
func (w *world) calm() {
	w.t.Helper()
	time.Sleep(aftermath) // what happens within it counts as troubled
	for range 2 {
		w.join()
	}
	w.settle("after two have joined")
	var p *process
	for end := time.Now().Add(patience); p == nil; time.Sleep(50 * time.Millisecond) {
		if p = w.someone(); time.Now().After(end) {
			w.t.Fatalf("no two consumers are up within %v", patience)
		}
	}
	w.leave(p)
	w.settle("after one has left")
}

// awaitBrokers waits until all brokers serve.
func (w *world) awaitBrokers() {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		w.noneDied()
		if !slices.ContainsFunc(w.brokers[:], func(b *torture.Process) bool { return !b.Ready() }) {
			return
		}
	}
	w.t.Fatalf("not all brokers are up within %v", patience)
}

// logEnds asks the brokers where the logs end.
func (w *world) logEnds() map[Partition]int64 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ends := make(map[Partition]int64)
	for i, b := range w.brokers {
		c, err := client.Dial(ctx, b.Addr(), client.Config{})
		if err != nil {
			w.t.Fatal(err)
		}
		states, err := c.Topics(ctx, topic)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range states {
			ends[Partition{int32(i), s.Partition}] = s.LogEnd
		}
		c.Close()
	}
	return ends
}

// drain waits until the group has committed everything.
func (w *world) drain(ends map[Partition]int64) {
	w.t.Helper()
	var behind string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if behind = w.behind(ends); behind == "" {
			return
		}
		w.noneDied()
	}
	w.t.Errorf("not everything is handled within %v: %s", patience, behind)
}

func (w *world) behind(ends map[Partition]int64) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	offsets, err := w.registry.Offsets(ctx, group, topic)
	if err != nil {
		return err.Error()
	}
	for p, end := range ends {
		if at := offsets[registry.Partition{Broker: p.Broker, Partition: p.Number}]; at < end {
			return fmt.Sprintf("partition %v is committed up to %d of %d", p, at, end)
		}
	}
	return ""
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
