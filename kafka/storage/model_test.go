package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// modelSteps is how many random steps TestModel takes; KAFKALAB_STEPS overrides.
const modelSteps = 10000

// TestModel runs random appends, flushes, reads, deletions, errors, crashes and
// restarts against a model of what was promised: whatever was visible is there
// after a crash of the machine, whatever was appended after one of the process,
// at its offset and unchanged; and nothing is there that was never written.
func TestModel(t *testing.T) {
	steps := modelSteps
	if s := os.Getenv("KAFKALAB_STEPS"); s != "" {
		var err error
		if steps, err = strconv.Atoi(s); err != nil {
			t.Fatalf("KAFKALAB_STEPS: %v", err)
		}
	}
	rng := newRand(t)
	fsys, c := newTestFS()
	m := &model{t: t, rng: rng, fs: fsys, clock: c, logs: map[string]*modelLog{"a": {}, "b": {}}}
	m.reopen("start")
	for m.step = 0; m.step < steps && !t.Failed(); m.step++ {
		m.next()
	}
	_ = m.m.Close(context.Background()) // a log of it may be out of service
	t.Logf("%d steps, %v", m.step, m.done)
}

type model struct {
	t     *testing.T
	rng   *rand.Rand
	fs    *vfs.Mem
	clock *clock.Manual
	m     *Manager
	logs  map[string]*modelLog
	step  int
	done  map[string]int // how often each kind of step was taken
}

// modelLog is what is known of one log.
type modelLog struct {
	appended []byte
	safe     int64  // up to here a crash must not take anything away
	maybe    []byte // group whose append failed and could not be undone: it may show after a restart
	broken   bool   // out of service
	// dropped says that a sync has failed: what the disk holds behind safe and
	// what reads show may differ until the machine itself restarts.
	dropped bool
}

func (m *model) errorf(format string, args ...any) {
	m.t.Errorf("step %d: %s", m.step, fmt.Sprintf(format, args...))
}

func (m *model) count(what string) {
	if m.done == nil {
		m.done = map[string]int{}
	}
	m.done[what]++
}

func (m *model) next() {
	name := []string{"a", "b"}[m.rng.IntN(2)]
	ml := m.logs[name]
	l, err := m.m.Ensure(name, 0)
	if err != nil {
		m.errorf("ensure: %v", err)
		return
	}
	m.clock.Advance(time.Millisecond)
	switch dice := m.rng.IntN(1000); {
	case dice < 550:
		m.append(l, ml, nil)
	case dice < 580: // torn, undone
		m.append(l, ml, m.tornWrite(false))
	case dice < 585: // torn, not undone
		m.append(l, ml, m.tornWrite(true))
	case dice < 700:
		m.flush(l, ml, nil)
	case dice < 705:
		m.flush(l, ml, vfs.FailNth(vfs.OpSync, 1, syscall.EIO))
	case dice < 940:
		m.read(l, ml)
	case dice < 950 && len(ml.appended) > 20_000:
		m.count("delete")
		if err := m.m.DeleteTopic(name); err != nil {
			m.errorf("delete: %v", err)
		}
		*ml = modelLog{}
	case dice < 970:
		m.reopen("close")
	case dice < 985:
		m.reopen("kill")
	default:
		m.reopen("crash")
	}
	if l := m.m.Lookup([]byte(name), 0); l != nil {
		m.look(l, ml)
	}
}

// tornWrite returns a hook that stops the next write anywhere, and perhaps the
// cut that undoes it too.
func (m *model) tornWrite(stay bool) vfs.Hook {
	at := m.rng.Float64()
	return func(op vfs.Op) error {
		switch {
		case op.Kind == vfs.OpWrite:
			return &vfs.TornWrite{Bytes: int(at * float64(op.Size)), Err: syscall.ENOSPC}
		case op.Kind == vfs.OpTruncate && stay:
			return syscall.EIO
		}
		return nil
	}
}

func (m *model) append(l *Log, ml *modelLog, hook vfs.Hook) {
	m.count("append")
	var list [][]byte
	for range 1 + m.rng.IntN(4) {
		list = append(list, payload(m.step, m.rng.IntN(300)))
	}
	group := set(list...)
	m.fs.SetHook(hook)
	a, err := l.Append(group, len(list))
	m.fs.SetHook(nil)
	switch {
	case err == nil:
		if a.Base != int64(len(ml.appended)) || a.Next != a.Base+int64(len(group)) || ml.broken || hook != nil {
			m.errorf("append at %d gave %+v, broken %v", len(ml.appended), a, ml.broken)
		}
		ml.appended = append(ml.appended, group...)
	case errors.Is(err, ErrOutOfService):
		if !ml.broken {
			m.count("broken by a write")
			ml.broken, ml.maybe = true, group
		}
	case !errors.Is(err, syscall.ENOSPC):
		m.errorf("append: %v", err)
	}
}

func (m *model) flush(l *Log, ml *modelLog, hook vfs.Hook) {
	m.count("flush")
	dirty := l.State().Watermark < int64(len(ml.appended))
	m.fs.SetHook(hook)
	err := l.Flush(testContext(m.t))
	m.fs.SetHook(nil)
	switch {
	case err == nil && !dirty:
	case err == nil && hook == nil && !ml.broken:
		ml.safe = int64(len(ml.appended))
	case errors.Is(err, ErrOutOfService) && dirty && (hook != nil || ml.broken):
		if !ml.broken {
			m.count("broken by a sync")
			ml.broken, ml.dropped = true, true
		}
	default:
		m.errorf("flush: %v, dirty %v, broken %v", err, dirty, ml.broken)
	}
}

// read reads from a random place and compares.
func (m *model) read(l *Log, ml *modelLog) {
	m.count("read")
	offset := m.rng.Int64N(int64(len(ml.appended))+20) - 5
	watermark := l.State().Watermark
	s, err := l.Read(offset, m.rng.IntN(2000))
	if offset < 0 || offset > watermark {
		if !errors.Is(err, ErrOffsetOutOfRange) {
			m.errorf("read at %d of %d: %v", offset, watermark, err)
		}
		return
	}
	if err != nil {
		m.errorf("read at %d of %d: %v", offset, watermark, err)
		return
	}
	defer s.Release()
	b := make([]byte, s.Len())
	if _, err := s.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		m.errorf("read: %v", err)
	}
	if offset+int64(len(b)) > watermark || !bytes.Equal(b, ml.appended[offset:][:len(b)]) {
		m.errorf("read %d bytes at %d of %d: not what was written", len(b), offset, watermark)
	}
}

// look checks the state. What is visible now must survive.
func (m *model) look(l *Log, ml *modelLog) {
	s := l.State()
	if s.Watermark < ml.safe || s.LogEnd != int64(len(ml.appended)) || s.Watermark > s.LogEnd || s.First != 0 {
		m.errorf("state %+v, %d appended, %d safe", s, len(ml.appended), ml.safe)
	}
	ml.safe = s.Watermark
	latest := l.OffsetsBefore(-1, 1)
	if len(latest) != 1 || latest[0] != s.Watermark {
		m.errorf("latest offset %v, state %+v", latest, s)
	}
}

// reopen ends the manager in one of several ways and opens what that leaves.
func (m *model) reopen(how string) {
	for _, ml := range m.logs {
		if ml.dropped {
			how = "crash"
		}
	}
	m.count(how)
	old, oldManager := m.fs, m.m
	switch how {
	case "crash":
		m.fs = old.CrashClone(m.rng)
	case "kill":
		m.fs = old.Clone()
	}
	if oldManager != nil {
		if err := oldManager.Close(testContext(m.t)); err != nil && !errors.Is(err, ErrOutOfService) {
			m.errorf("close: %v", err)
		}
	}
	var err error
	m.m, err = Open(testContext(m.t), testDir, Config{FS: m.fs, Clock: m.clock, SegmentBytes: 1 << 10 << m.rng.IntN(3)})
	if err != nil {
		m.t.Fatalf("step %d: open after %s: %v", m.step, how, err)
	}
	for name, ml := range m.logs {
		m.compare(name, ml, how)
	}
}

// compare checks a log after a restart and takes what is there for granted.
func (m *model) compare(name string, ml *modelLog, how string) {
	var got []byte
	if l := m.m.Lookup([]byte(name), 0); l != nil {
		if err := l.Err(); err != nil {
			m.errorf("after %s: %v", how, err)
			return
		}
		if s := l.State(); s.Watermark != s.LogEnd || s.First != 0 {
			m.errorf("after %s: %+v", how, s)
		}
		got = read(m.t, l, 0, 1<<20)
	}
	least := ml.safe
	if how != "crash" {
		least = int64(len(ml.appended))
	}
	written := append(ml.appended[:len(ml.appended):len(ml.appended)], ml.maybe...)
	if int64(len(got)) < least || !bytes.HasPrefix(written, got) {
		m.errorf("log %s after %s: %d bytes are there, at least %d of %d wanted, unchanged", name, how, len(got), least, len(written))
		return
	}
	if valid, _, err := message.Check(got, 0); err != nil || valid != len(got) {
		m.errorf("log %s after %s: ends within a message, %v", name, how, err)
	}
	*ml = modelLog{appended: got, safe: int64(len(got))}
}
