package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// stepLimit is how long a step of the model test may take before it hangs,
// mutantLimit with a file system that makes logs hang for ever.
const (
	stepLimit   = 20 * time.Second
	mutantLimit = time.Second
)

// withLimit calls do with a context that ends what hangs.
func (m *model) withLimit(do func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), m.limit)
	defer cancel()
	do(ctx)
}

// next takes one step.
func (m *model) next() {
	before := m.snapshot()
	if m.chance(8) && !m.disk.ill() {
		m.disk.setCrash(1+m.rng.IntN(6), m.mem)
	}
	fault := m.chance(6) && !m.timed() && !m.disk.ill()
	if fault {
		m.setFault()
	}
	m.anything()
	if fault && m.problem == "" {
		if m.disk.setFault(nil) {
			m.count("fault hit")
		}
		m.heal()
	}
	if crashed := m.disk.takeCrash(); crashed != nil && m.problem == "" {
		m.count("crash within a step")
		m.note("the machine crashes within the last step")
		m.mergeWith(before)
		m.reopen("crash", crashed)
	}
	if m.problem == "" {
		m.lookAtAll()
	}
}

// anything does one thing.
func (m *model) anything() {
	dice := m.rng.IntN(1000)
	for _, kind := range []struct {
		weight int
		do     func()
	}{
		{350, m.append},
		{120, m.flush},
		{25, m.syncBesideAppends},
		{200, m.read},
		{40, m.readHeld},
		{30, m.offsets},
		{40, m.passTime},
		{40, m.retain},
		{10, m.create},
		{8, m.delete},
		{12, m.changeDisk},
		{15, m.failSync},
		{10, m.failWrite},
		{10, func() { m.reopen("close", nil) }},
		{15, func() { m.reopen("kill", nil) }},
		{25, func() { m.reopen("crash", nil) }},
		{50, m.append},
	} {
		if dice -= kind.weight; dice < 0 {
			kind.do()
			return
		}
	}
	m.append()
}

// pick returns a log and what is known of it, and makes it if need be. It
// returns nil when that fails, as it may on an ill disk.
func (m *model) pick() (*Log, *modelLog) {
	topic := []string{"a", "a", "b", "c"}[m.rng.IntN(4)]
	if topic == "c" && !slices.Contains(m.m.Topics(), "c") && m.chance(80) {
		topic = "a" // it is to be created by CreateTopic, as a rule
	}
	key := logKey{topic, m.rng.Int32N(m.m.Partitions([]byte(topic)))}
	ml := m.logs[key]
	if ml != nil && ml.doomed {
		return nil, nil // until the deletion is repeated
	}
	l, err := m.m.Ensure(key.topic, key.partition)
	if err != nil {
		if !m.disk.ill() || !isInjected(err) {
			m.failf("ensure %v: %v", key, err)
		}
		m.ghosts[key] = true
		return nil, nil
	}
	if ml == nil {
		ml = m.newLog()
		m.logs[key] = ml
		if s := l.State(); s != (State{Segments: 1}) {
			m.failf("new log %v: %+v", key, s)
		}
	}
	return l, ml
}

func (m *model) newLog() *modelLog {
	m.incarnations++
	return &modelLog{incarnation: m.incarnations}
}

// keyOf returns the key of a log.
func keyOf(l *Log) logKey { return logKey{l.topic, l.partition} }

// group returns entries that are like no others, and how many messages they are.
func (m *model) group() (b []byte, messages int) {
	payload := func() []byte {
		m.message++
		p := fmt.Appendf(nil, "%d.", m.message)
		for range m.rng.IntN(40) {
			p = append(p, p[:min(len(p), 7)]...)
		}
		return p
	}
	for range 1 + m.rng.IntN(4) {
		switch m.rng.IntN(10) {
		case 0:
			b = message.Append1(b, payload(), message.CodecNone)
			messages++
		case 1:
			inner := message.Append(message.Append1(nil, payload(), message.CodecNone), payload())
			codec := []message.Codec{message.CodecSnappy, message.CodecSnappy, message.CodecGzip}[m.rng.IntN(3)]
			entry, err := message.Compress(nil, inner, codec)
			if err != nil {
				m.failf("compress: %v", err)
			}
			b = append(b, entry...)
			messages += 2
			m.count("append compressed")
		default:
			b = message.Append(b, payload())
			messages++
		}
	}
	return b, messages
}

func (m *model) append() {
	if l, ml := m.pick(); l != nil {
		m.appendTo(l, ml)
	}
}

// appendTo appends a group, and flushes if that is due.
func (m *model) appendTo(l *Log, ml *modelLog) {
	group, messages := m.group()
	ill := m.disk.ill()
	segments := len(*l.segments.Load())
	mustRoll := m.rollDue(l, ml)
	end := int64(len(ml.written))
	ml.tried = group
	a, err := l.Append(group, messages)
	m.note("append %d bytes to %v: %d to %d, %v", len(group), keyOf(l), a.Base, a.Next, err)
	m.count("append")
	switch {
	case err == nil:
		switch {
		case ml.broken:
			m.failf("append to %v, which is out of service, succeeds", keyOf(l))
		case a.Base != end || a.Next != end+int64(len(group)):
			m.failf("append of %d bytes to %v, which ends at %d: %+v", len(group), keyOf(l), end, a)
		case mustRoll && l.State().Segments == segments:
			m.failf("append to %v at %d: the active segment is not rolled", keyOf(l), end)
		case a.FlushDue && l.cfg.FlushMessages == 0, !a.FlushDue && l.cfg.FlushMessages == 1:
			m.failf("append to %v: flush due %v after every %d messages", keyOf(l), a.FlushDue, l.cfg.FlushMessages)
		}
		ml.written = append(ml.written, group...)
		ml.groups = append(ml.groups, groupTime{end: a.Next, wall: m.clock.Now(), elapsed: m.clock.Elapsed()})
		if a.FlushDue && m.chance(90) {
			m.flushTo(l, ml, a)
		}
	case errors.Is(err, ErrOutOfService):
		m.count("append refused: out of service")
		if !ml.broken && !ill {
			m.failf("append to %v: %v", keyOf(l), err)
		}
		if !ml.broken {
			ml.broken, ml.suspect, ml.maybe = true, true, group
		}
	default:
		m.count("append failed: undone")
		ml.vague = true // the file was written to
		if !ill || !isInjected(err) {
			m.failf("append to %v: %v", keyOf(l), err)
		}
	}
}

// rollDue reports whether the next append must go to a new segment, by size or
// by the time of the first append to the active one.
func (m *model) rollDue(l *Log, ml *modelLog) bool {
	list := *l.segments.Load()
	base := list[len(list)-1].base
	if int64(len(ml.written)) == base {
		return false
	}
	if int64(len(ml.written))-base > l.cfg.SegmentBytes {
		return true
	}
	i := slices.IndexFunc(ml.groups, func(g groupTime) bool { return g.end > base })
	return l.cfg.RollInterval > 0 && !ml.vague && i >= 0 && ml.groups[i].elapsed >= 0 && m.clock.Elapsed()-ml.groups[i].elapsed > l.cfg.RollInterval
}

// flushTo waits for the flush of an append as the broker does.
func (m *model) flushTo(l *Log, ml *modelLog, a Appended) {
	m.withLimit(func(ctx context.Context) { m.flushed(l, ml, a.Next, l.WaitAppended(ctx, a)) })
}

func (m *model) flush() {
	l, ml := m.pick()
	if l == nil {
		return
	}
	m.count("flush")
	m.withLimit(func(ctx context.Context) {
		end := int64(len(ml.written))
		if m.chance(50) {
			m.flushed(l, ml, end, l.Flush(ctx))
			return
		}
		end = m.rng.Int64N(end + 1)
		m.flushed(l, ml, end, l.WaitFlushed(ctx, end))
	})
}

// flushed looks at the result of a flush up to an offset.
func (m *model) flushed(l *Log, ml *modelLog, end int64, err error) {
	m.note("flush %v to %d: %v", keyOf(l), end, err)
	switch {
	case err == nil:
		if ml.broken && end > ml.safe {
			m.failf("flush of %v up to %d succeeds, which is out of service with %d flushed", keyOf(l), end, ml.safe)
		}
		if s := l.State(); s.Flushed < end {
			m.failf("flush of %v up to %d succeeds, and then %+v", keyOf(l), end, s)
		}
		ml.safe = max(ml.safe, end)
	case errors.Is(err, ErrOutOfService) && (ml.broken || m.disk.ill()):
		ml.broken, ml.suspect = true, true
	default:
		m.failf("flush of %v up to %d: %v", keyOf(l), end, err)
	}
}

// syncBesideAppends appends and reads while a sync lasts, and perhaps crashes.
func (m *model) syncBesideAppends() {
	l, ml := m.pick()
	if l == nil || ml.broken || m.timed() || m.disk.ill() || m.mutant {
		return
	}
	m.appendTo(l, ml)
	end := int64(len(ml.written))
	if l.State().Flushed == end || m.problem != "" {
		return // the append has brought its flush along
	}
	m.count("sync beside appends")
	began, goOn := make(chan struct{}), make(chan struct{})
	m.setGate(func(op vfs.Op) {
		if op.Kind == vfs.OpSync {
			close(began) // a second sync would panic, and there must be none
			<-goOn
		}
	})
	result := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), m.limit)
	defer cancel()
	go func() { result <- l.WaitFlushed(ctx, end) }()
	select {
	case <-began:
	case <-ctx.Done():
		m.failf("flush of %v up to %d begins no sync", keyOf(l), end)
	}
	for range m.rng.IntN(4) {
		if l.cfg.FlushMessages != 0 || l.cfg.RollInterval > 0 || m.rollDue(l, ml) {
			break // it would wait for the sync
		}
		m.appendTo(l, ml)
		m.readFrom(l, ml)
	}
	m.setGate(nil)
	close(goOn)
	err := <-result
	m.flushed(l, ml, end, err)
	if s := l.State(); s.Flushed != end {
		m.failf("the sync of %v began when it ended at %d, and then %+v", keyOf(l), end, s)
	}
}

func (m *model) setGate(gate func(vfs.Op)) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.disk.gate = gate
}

func (m *model) read() {
	if l, ml := m.pick(); l != nil {
		m.readFrom(l, ml)
	}
}

// readFrom reads from a random place, or holds what it gets.
func (m *model) readFrom(l *Log, ml *modelLog) {
	m.count("read")
	s := l.State()
	offset := max(s.First+m.rng.Int64N(s.Watermark-s.First+20)-5, -1)
	sl, err := l.Read(offset, m.rng.IntN(2000))
	switch {
	case offset < s.First || offset > s.Watermark:
		want := ErrOffsetOutOfRange
		if ml.broken && offset > s.Watermark && offset <= s.LogEnd {
			want = ErrOutOfService // it may be visible later
		}
		if !errors.Is(err, want) {
			m.failf("read of %v at %d, outside %+v: %v", keyOf(l), offset, s, err)
		}
		return
	case err != nil:
		if !m.disk.ill() || !isInjected(err) {
			m.failf("read of %v at %d, within %+v: %v", keyOf(l), offset, s, err)
		}
		return
	case offset+int64(sl.Len()) > s.Watermark || s.Watermark > int64(len(ml.written)):
		m.failf("read of %v at %d: %d bytes, and %+v", keyOf(l), offset, sl.Len(), s)
		sl.Release()
		return
	}
	held := heldSlice{key: keyOf(l), slice: sl, offset: offset, want: ml.written[offset:][:sl.Len()]}
	if sl.Len() > 0 && len(m.slices) < 8 && m.chance(20) {
		m.slices = append(m.slices, held)
		return
	}
	m.checkSlice(&held)
}

// checkSlice reads a slice, compares and releases it.
func (m *model) checkSlice(h *heldSlice) {
	defer h.slice.Release()
	got := make([]byte, h.slice.Len())
	n, err := h.slice.ReadAt(got, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		if !m.disk.ill() || !isInjected(err) {
			m.failf("read of %v at %d: %v", h.key, h.offset, err)
		}
	case !bytes.Equal(got[:n], h.want):
		m.failf("read of %v at %d: %d bytes that are not what was written, %d wanted", h.key, h.offset, n, len(h.want))
	}
}

// readHeld reads a slice from before, whatever has become of its log.
func (m *model) readHeld() {
	if len(m.slices) == 0 {
		return
	}
	m.count("read of a slice from before")
	i := m.rng.IntN(len(m.slices))
	m.checkSlice(&m.slices[i])
	m.slices = slices.Delete(m.slices, i, i+1)
}

// dropSlices lets go of slices of a log that reach behind an offset.
func (m *model) dropSlices(key logKey, offset int64) {
	m.slices = slices.DeleteFunc(m.slices, func(h heldSlice) bool {
		drop := h.key == key && h.offset+int64(len(h.want)) > offset
		if drop {
			h.slice.Release()
		}
		return drop
	})
}

// create creates topic c.
func (m *model) create() {
	partitions := 1 + m.rng.Int32N(3)
	exists := slices.Contains(m.m.Topics(), "c")
	ill := m.disk.ill()
	err := m.m.CreateTopic("c", partitions)
	m.note("create c with %d partitions: %v", partitions, err)
	switch {
	case err == nil && !exists:
		m.count("create")
		m.created["c"] = partitions
	case errors.Is(err, ErrTopicExists) && exists:
	case ill && isInjected(err) && !exists:
		m.created["c"] = 0 // it may be there after a restart
	default:
		m.failf("create c, which exists %v: %v", exists, err)
	}
}

// delete deletes a topic. One that fails is repeated some time; until then its
// logs are out of use.
func (m *model) delete() {
	topic := []string{"a", "b", "c"}[m.rng.IntN(3)]
	exists := slices.Contains(m.m.Topics(), topic)
	ill := m.disk.ill()
	err := m.m.DeleteTopic(topic)
	m.note("delete %s: %v", topic, err)
	switch {
	case err == nil && exists, errors.Is(err, ErrNoSuchTopic) && !exists:
		m.count("delete")
		maps.DeleteFunc(m.logs, func(k logKey, _ *modelLog) bool { return k.topic == topic })
		delete(m.created, topic)
	case ill && isInjected(err) && exists:
		m.count("delete failed")
		for key, ml := range m.logs {
			if key.topic == topic {
				ml.doomed = true
			}
		}
		if _, created := m.created[topic]; created {
			m.created[topic] = 0
		}
	default:
		m.failf("delete %s, which exists %v: %v", topic, exists, err)
	}
}
