package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
)

// The model test does everything that can be done to a log folder in random
// order, with a disk that fails, fills up and loses its power, and compares what
// is there with what was promised:
//
//   - What was flushed is there after a crash of the machine, what was appended
//     after one of the process: intact, in order, at its offset. Only retention
//     and the deletion of a topic take it away, and only what they may.
//   - Nothing is there that was not appended there; an append that failed left
//     nothing, or out of service.
//   - What is visible never vanishes, unless messages are visible before they are
//     flushed and the machine crashes.
//   - A slice keeps its content, whatever happens to its segment.
//   - Topics keep their partition counts, deleted ones do not come back.
//   - When the disk is well again, so is every log, without a restart.
//
// It runs as many short episodes, each on a file system of its own, so that every
// step is cheap and a failure needs few steps to be seen. An episode depends on
// the seed and its number alone.

const (
	// modelSteps is how many steps TestModel takes; KAFKALAB_STEPS overrides it.
	modelSteps = 200_000
	// episodeSteps is how many of them are one episode's.
	episodeSteps = 150
)

// TestModel is the model test. KAFKALAB_SEED and KAFKALAB_EPISODE, as a failure
// prints them, repeat one episode.
func TestModel(t *testing.T) {
	seed := testSeed(t)
	if only := os.Getenv("KAFKALAB_EPISODE"); only != "" {
		n, err := strconv.Atoi(only)
		if err != nil {
			t.Fatalf("KAFKALAB_EPISODE: %v", err)
		}
		e := runEpisode(seed, n, nil)
		t.Logf("%d steps, %v\n%s", e.step, e.done, strings.Join(e.trace, "\n"))
		if e.problem != "" {
			t.Error(e.problem)
		}
		return
	}
	steps := modelSteps
	if s := os.Getenv("KAFKALAB_STEPS"); s != "" {
		var err error
		if steps, err = strconv.Atoi(s); err != nil {
			t.Fatalf("KAFKALAB_STEPS: %v", err)
		}
	}
	began := time.Now()
	done := map[string]int{}
	var mu sync.Mutex
	var taken, next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for taken.Load() < int64(steps) && !t.Failed() {
				n := int(next.Add(1))
				e := runEpisode(seed, n, nil)
				taken.Add(int64(e.step))
				mu.Lock()
				for what, times := range e.done {
					done[what] += times
				}
				if e.problem != "" {
					t.Errorf("%s\nRepeat: KAFKALAB_SEED=%d KAFKALAB_EPISODE=%d. Settings: %s\nThe last steps:\n%s",
						e.problem, seed, n, e.settings(), strings.Join(e.trace, "\n"))
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d steps in %d episodes, %v\n%s", taken.Load(), next.Load(), time.Since(began).Round(time.Millisecond), counts(done))
	if !t.Failed() && os.Getenv("KAFKALAB_STEPS") == "" {
		for _, what := range modelKinds {
			if done[what] == 0 {
				t.Errorf("not done once: %s", what)
			}
		}
	}
}

// modelKinds is what a run of the normal size must have come to.
var modelKinds = []string{
	"append", "append compressed", "append refused: out of service", "append failed: undone", "flush", "sync beside appends", "read",
	"read of a slice from before", "offsets", "retain", "retention removed", "create", "delete", "delete failed", "disk full", "disk sick",
	"fault hit", "fault at open", "clock stepped", "back in service", "messages lost with the page cache",
	"close", "kill", "crash", "crash within a step", "crash within a start", "verify",
}

func counts(done map[string]int) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(done)) {
		fmt.Fprintf(&b, "%8d %s\n", done[what], what)
	}
	return b.String()
}

// logKey names a log of the model.
type logKey struct {
	topic     string
	partition int32
}

func (k logKey) String() string { return partitionName(k.topic, k.partition) }

// modelLog is what is known of one log.
type modelLog struct {
	incarnation int    // tells a log from the one that was deleted before it
	written     []byte // all that was ever appended, from offset 0 on
	tried       []byte // the group that the current step wanted to append
	most        []byte // written as it was before a loss in the current step
	maybe       []byte // a group whose append failed and may not be undone: it may show behind written after a restart
	first       int64  // where the log begins
	safe        int64  // no crash takes away what is before
	groups      []groupTime
	broken      bool // out of service
	suspect     bool // a sync has failed since the machine started: reads may show what the disk does not have
	vague       bool // the times of its files are not those of groups
	doomed      bool // its deletion was begun: it may be gone
}

// groupTime says when a group was appended.
type groupTime struct {
	end     int64         // of the group
	wall    time.Time     // by the clock then
	elapsed time.Duration // likewise; negative: in an earlier process
}

// heldSlice is a slice that a reader has not read to its end yet.
type heldSlice struct {
	key    logKey
	slice  Slice
	offset int64
	want   []byte
}

// model is one episode.
type model struct {
	rng   *rand.Rand
	wrap  func(*vfs.Mem) vfs.FS
	limit time.Duration // how long a step may take before it hangs
	// mutant says that wrap breaks the file system: then only the consequences
	// are looked for, not whether it is used as expected.
	mutant bool
	mem    *vfs.Mem
	clock  *clock.Manual
	cfg    Config
	m      *Manager

	// retries is what a restorer knows. The model has its turn itself: one in a
	// goroutine of its own might bring a log back before the model has looked.
	retries map[*Log]*retry

	partitions int32 // of topics that nobody created

	openedWall    time.Time // when the manager was opened
	openedElapsed time.Duration
	mayLeave      bool // what is left of deletions, as the disk was ill when the manager was opened
	stepped       bool // somebody has put the clock right in this episode

	logs         map[logKey]*modelLog
	ghosts       map[logKey]bool  // empty logs that may be there after a restart: their making failed
	created      map[string]int32 // partition counts of created topics; 0: perhaps
	incarnations int
	slices       []heldSlice
	disk         modelDisk

	step    int
	message uint64 // makes payloads unlike each other
	problem string
	trace   []string
	done    map[string]int
}

// runEpisode runs one episode; wrap is nil for one that must go well.
func runEpisode(seed uint64, episode int, wrap func(*vfs.Mem) vfs.FS) *model {
	m := &model{
		rng:     rand.New(rand.NewPCG(seed, uint64(episode))),
		wrap:    wrap,
		mutant:  wrap != nil,
		limit:   stepLimit,
		logs:    map[logKey]*modelLog{},
		ghosts:  map[logKey]bool{},
		created: map[string]int32{},
		done:    map[string]int{},
	}
	if m.mutant {
		m.limit = mutantLimit
	} else {
		m.wrap = func(mem *vfs.Mem) vfs.FS { return mem }
	}
	m.clock = clock.NewManual(testStart)
	m.mem = vfs.NewMem(m.clock.Now)
	m.partitions = 1 + int32(m.rng.IntN(3)/2)
	m.cfg = m.randomConfig()
	m.disk.rng = rand.New(rand.NewPCG(seed, uint64(episode)^1<<63))
	defer func() {
		if r := recover(); r != nil {
			m.failf("panic: %v\n%s", r, debug.Stack())
		}
		m.end()
	}()
	m.open("start")
	for m.step = 1; m.step <= episodeSteps && m.problem == ""; m.step++ {
		m.next()
	}
	m.step--
	return m
}

// randomConfig returns settings that make much happen in few bytes.
func (m *model) randomConfig() Config {
	oneOf := func(values ...int64) int64 { return values[m.rng.IntN(len(values))] }
	cfg := Config{
		Clock:             m.clock,
		noRestorer:        true, // the model does its work
		SegmentBytes:      oneOf(1, 200, 1000, 1000, 4000, 1<<20),
		FlushMessages:     int(oneOf(0, 0, 1, 5)),
		RollInterval:      time.Duration(oneOf(0, 0, int64(time.Hour))),
		RetentionAge:      time.Duration(oneOf(0, 0, int64(24*time.Hour))),
		RetentionBytes:    oneOf(0, 0, 1, 2000, 10_000),
		CleanupInterval:   1 << 62, // the model runs it by hand
		OpenSegments:      int(oneOf(1, 3, 100)),
		Visible:           Visibility(oneOf(0, 0, 0, 1)),
		DefaultPartitions: m.partitions,
	}
	if m.rng.IntN(4) == 0 {
		// Flushes by time come when the timer's goroutine gets to run. The model
		// waits for them, and leaves out what could meet one half-way.
		cfg.FlushInterval = time.Second
		cfg.RollInterval, cfg.RetentionAge = 0, 0
	}
	if m.rng.IntN(2) == 0 {
		keep, age, count := oneOf(0, 500, 3000), time.Duration(0), int(oneOf(0, 2))
		cfg.Topics = map[string]TopicConfig{"b": {SegmentBytes: oneOf(0, 300), RetentionBytes: &keep, RetentionAge: &age, FlushMessages: &count}}
	}
	return cfg
}

func (m *model) settings() string {
	c := m.cfg
	return fmt.Sprintf("segment %d, flush %d messages %v, roll %v, retention %v %d bytes, %d open segments, visible %v, %d partitions, topic b: %v",
		c.SegmentBytes, c.FlushMessages, c.FlushInterval, c.RollInterval, c.RetentionAge, c.RetentionBytes, c.OpenSegments, c.Visible,
		c.DefaultPartitions, c.Topics["b"].SegmentBytes)
}

// timed says that there are flushes by time.
func (m *model) timed() bool { return m.cfg.FlushInterval > 0 }

// failf ends the episode: the model objects.
func (m *model) failf(format string, args ...any) {
	if m.problem == "" {
		m.problem = fmt.Sprintf("step %d: %s", m.step, fmt.Sprintf(format, args...))
	}
}

// note adds a line to the trace of the last steps.
func (m *model) note(format string, args ...any) {
	if len(m.trace) >= 80 {
		m.trace = slices.Delete(m.trace, 0, 40)
	}
	m.trace = append(m.trace, fmt.Sprintf("%4d %s", m.step, fmt.Sprintf(format, args...)))
}

func (m *model) count(what string) { m.done[what]++ }

func (m *model) chance(percent int) bool { return m.rng.IntN(100) < percent }

// end lets go of everything.
func (m *model) end() {
	m.disk.mend()
	for i := range m.slices {
		m.slices[i].slice.Release()
	}
	if m.m == nil {
		return
	}
	m.withLimit(func(ctx context.Context) {
		if err := m.m.Close(ctx); err != nil && !errors.Is(err, ErrOutOfService) {
			m.failf("close at the end: %v", err)
		}
	})
}

// modelDisk decides what operations on the file system fail, and takes a crash
// clone in the middle of a step.
type modelDisk struct {
	mu    sync.Mutex
	rng   *rand.Rand
	full  bool     // no room: writes are torn
	sick  bool     // syncs fail
	fault vfs.Hook // for one step; nil: none
	hit   bool     // fault has failed something
	lost  bool     // a sync of a file has failed, and with it what it was to make safe is gone

	crashIn int      // operations until the clone is taken; 0: none is
	from    *vfs.Mem // what to clone
	crashed *vfs.Mem // the clone

	gate func(vfs.Op) // called without mu
}

// ask is the hook of the file system.
func (d *modelDisk) ask(op vfs.Op) error {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate != nil {
		gate(op)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if op.Kind.Changes() && d.crashIn > 0 {
		if d.crashIn--; d.crashIn == 0 {
			d.crashed = d.from.CrashClone(d.rng)
		}
	}
	err := d.decide(op)
	if err != nil && op.Kind == vfs.OpSync {
		d.lost = true
	}
	return err
}

// decide returns the error of an operation. The caller holds d.mu.
func (d *modelDisk) decide(op vfs.Op) error {
	switch {
	case d.full && op.Kind == vfs.OpWrite:
		return &vfs.TornWrite{Bytes: d.rng.IntN(op.Size + 1), Err: syscall.ENOSPC}
	case d.full && (op.Kind == vfs.OpCreate || op.Kind == vfs.OpMkdir):
		return syscall.ENOSPC
	case d.sick && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir):
		return syscall.EIO
	}
	if d.fault != nil {
		if err := d.fault(op); err != nil {
			d.hit = true
			return err
		}
	}
	return nil
}

// mend makes the disk well.
func (d *modelDisk) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.sick, d.fault, d.gate, d.crashIn = false, false, nil, nil, 0
}

// ill reports whether operations may fail now.
func (d *modelDisk) ill() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.full || d.sick || d.fault != nil
}

// setFault lets operations fail, until it is set to nil. It returns whether the
// one before has hit.
func (d *modelDisk) setFault(h vfs.Hook) (hit bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hit = d.hit
	d.fault, d.hit = h, false
	return hit
}

// takeLostSync reports whether a sync has failed since the last call.
func (d *modelDisk) takeLostSync() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost := d.lost
	d.lost = false
	return lost
}

func (d *modelDisk) setCrash(in int, from *vfs.Mem) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashIn, d.from, d.crashed = in, from, nil
}

// takeCrash returns the clone that was taken, if one was.
func (d *modelDisk) takeCrash() *vfs.Mem {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.crashed
	d.crashIn, d.crashed = 0, nil
	return c
}

// isInjected reports whether an error is one of those that the disk makes.
func isInjected(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EMFILE)
}
