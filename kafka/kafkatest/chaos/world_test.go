package chaos

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/registry"
)

const (
	topic = "chaos"
	group = "survivors"

	brokers       = 3
	perBroker     = 4 // partitions of the topic
	streams       = 2 // of each consumer, at most
	maxConsumers  = 20
	fewConsumers  = 2
	lineCount     = 3
	sessionTime   = 2 * time.Second
	commitTime    = 500 * time.Millisecond
	backoffTime   = 500 * time.Millisecond
	patience      = 60 * time.Second // for what must come, sooner or later
	producers     = 3
	messagesATime = 5
)

// world is a cluster under torment, and what is known of it.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	bin   string
	zk    *zktest.Cluster
	lines []*zktest.Line // of the consumers
	look  *coord.Client  // by which the test itself sees ZooKeeper, past the lines

	registry  *registry.Registry
	brokers   [brokers]*torture.Process
	down      [brokers]bool // on purpose
	consumers []*process    // all there ever were
	troubles  []Trouble
	ends      []ending // of troubles that last
	unstarted int      // starts of brokers that failed while ZooKeeper was away

	background sync.WaitGroup
	stop       context.CancelFunc
	load       load

	observed []ObservedOffset // of the observing goroutine, until the background has ended
}

// process is a consumer.
type process struct {
	name    string // of its journal
	id      string // in the registry
	journal string
	cmd     *exec.Cmd
	log     *bytes.Buffer // once it has ended
	line    int
	leaving bool // it was told to
	killed  bool
	stopped bool // by SIGSTOP
	ended   chan struct{}
	err     error // set before ended is closed
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return !p.leaving && !p.killed
	}
}

// newWorld starts ZooKeeper, brokers, producers and the first consumers.
func newWorld(t *testing.T, kind zktest.Kind, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 0xc4a05)), dir: t.TempDir(), bin: torture.Build(t), zk: zktest.Start(t, kind)}
	for range lineCount {
		w.lines = append(w.lines, w.zk.NewLine())
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	t.Cleanup(func() { stop(); w.background.Wait() })
	var err error
	// Its session outlives all troubles, so that it never sees the past again.
	w.look, err = coord.Connect(ctx, coord.Config{Servers: w.zk.Direct(), SessionTimeout: 40 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.look.Close(); err != nil {
			t.Error(err)
		}
	})
	w.registry = registry.New(w.look)
	for i := range w.brokers {
		w.startBroker(i)
	}
	for i := range w.brokers {
		if err := w.brokers[i].WaitReady(); err != nil {
			t.Fatal(err)
		}
		w.createTopic(i)
	}
	w.load.start(ctx, w)
	w.background.Go(func() { w.observe(ctx) })
	for range fewConsumers {
		w.join()
	}
	return w
}

// startBroker starts a broker, at an address of its own each time.
func (w *world) startBroker(i int) {
	w.down[i] = false
	w.brokers[i] = torture.Launch(w.t, w.bin, "broker", "--broker-id", strconv.Itoa(i), "--listen", "127.0.0.1:0", "--hostname", "127.0.0.1",
		"--log-dir", filepath.Join(w.dir, fmt.Sprintf("broker-%d", i)), "--zk-connect", w.zk.Connect(), "--zk-session-timeout", sessionTime.String(),
		"--num-partitions", strconv.Itoa(perBroker), "--flush-interval", "50ms", "--segment-size", "256KiB")
}

func (w *world) createTopic(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, w.brokers[i].Addr(), client.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if err := c.CreateTopic(ctx, topic, perBroker); err != nil {
		w.t.Fatal(err)
	}
}

// join starts a consumer.
func (w *world) join() {
	w.t.Helper()
	n := len(w.consumers)
	name := fmt.Sprintf("c%03d", n)
	line := w.rng.IntN(lineCount)
	cfg := WorkerConfig{
		ZooKeeper: w.lines[line].Connect(), Group: group, ID: name, Topic: topic, Streams: 1 + w.rng.IntN(streams),
		Journal: filepath.Join(w.dir, name+".journal"), Seed: w.rng.Uint64(),
		SessionTimeout: sessionTime, AutoCommit: commitTime, Backoff: backoffTime, ByHand: w.rng.IntN(3) == 0,
	}
	cmd, err := kafkatest.WorkerCommand(workerVariable, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{name: name, id: registry.ConsumerID(group, name), journal: cfg.Journal, line: line, cmd: cmd, log: new(bytes.Buffer), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails only for one that has ended
		<-p.ended
		if w.t.Failed() {
			w.keepLog(p)
		}
	})
	w.consumers = append(w.consumers, p)
}

// keepLog shows the end of what a consumer has logged.
func (w *world) keepLog(p *process) {
	const most = 6000
	b := p.log.Bytes()
	w.t.Logf("%s (killed %v, told to leave %v, %v), the end of its log:\n%s", p.name, p.killed, p.leaving, p.err, b[max(len(b)-most, 0):])
}

// alive returns the consumers that are to be alive.
func (w *world) alive() (alive []*process) {
	for _, p := range w.consumers {
		if p.alive() {
			alive = append(alive, p)
		}
	}
	return alive
}

// noneDied fails the test when a consumer or broker has ended that was not to. A
// broker that ZooKeeper did not let come up is started again.
func (w *world) noneDied() {
	w.t.Helper()
	for i, b := range w.brokers {
		select {
		case <-b.Done():
		default:
			continue
		}
		switch {
		case w.down[i]:
		case !b.Ready() && strings.Contains(b.Log(), "ZooKeeper"):
			w.unstarted++
			w.startBroker(i)
		default:
			w.t.Fatalf("broker %d has ended by itself; its log:\n%s", i, b.Log())
		}
	}
	for _, p := range w.consumers {
		select {
		case <-p.ended:
			if !p.killed && (!p.leaving || p.err != nil) {
				w.t.Fatalf("consumer %s has ended by itself, told to leave: %v: %v", p.name, p.leaving, p.err)
			}
		default:
		}
	}
}

// observe looks at the group's offsets all the time.
func (w *world) observe(ctx context.Context) {
	last := make(map[Partition]int64)
	for ctx.Err() == nil {
		offsets, err := w.registry.Offsets(ctx, group, topic)
		now := Now()
		for p, o := range offsets {
			of := ofRegistry(p)
			if before, known := last[of]; err == nil && (!known || before != o) {
				last[of] = o
				w.observed = append(w.observed, ObservedOffset{now, of, o})
			}
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// load is the steady production.
type load struct {
	next    atomic.Uint64
	stopped atomic.Bool
	mu      sync.Mutex
	acked   []uint64
	failed  int
	running sync.WaitGroup
}

// start sends until the load is stopped or ctx ends.
func (l *load) start(ctx context.Context, w *world) {
	open, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cluster, err := producer.OpenCluster(open, producer.ClusterConfig{
		Config:   producer.Config{Acks: producer.AcksFlushed, Logger: slog.New(slog.DiscardHandler)},
		Registry: w.registry,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for range producers {
		l.running.Go(func() { l.send(ctx, cluster) })
	}
	w.t.Cleanup(func() {
		l.stopped.Store(true)
		l.running.Wait()
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		// What was not sent has been told by Send already.
		_ = cluster.Close(closing)
	})
}

func (l *load) send(ctx context.Context, cluster *producer.Cluster) {
	for ctx.Err() == nil && !l.stopped.Load() {
		var payloads [][]byte
		first := l.next.Add(messagesATime) - messagesATime
		for i := range uint64(messagesATime) {
			payloads = append(payloads, appendPayload(nil, first+i))
		}
		sending, cancel := context.WithTimeout(ctx, patience)
		err := cluster.Send(sending, topic, nil, payloads...)
		cancel()
		l.mu.Lock()
		if err == nil {
			for i := range uint64(messagesATime) {
				l.acked = append(l.acked, first+i)
			}
		} else {
			l.failed++ // they may have arrived or not
		}
		l.mu.Unlock()
		pause(ctx, 20*time.Millisecond)
	}
}

// end stops the production.
func (l *load) end() {
	l.stopped.Store(true)
	l.running.Wait()
}
