package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// stepLimit is how long a step of the model test may take before it hangs.
const stepLimit = 20 * time.Second

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
		{360, m.append},
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

// setFault lets one operation fail in the step that follows, or all of a kind.
func (m *model) setFault() {
	kinds := []vfs.OpKind{vfs.OpCreate, vfs.OpOpen, vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpTruncate, vfs.OpRemove, vfs.OpRename, vfs.OpMkdir, vfs.OpSyncDir}
	kind := kinds[m.rng.IntN(len(kinds))]
	err := []error{syscall.EIO, syscall.ENOSPC}[m.rng.IntN(2)]
	if (kind == vfs.OpOpen || kind == vfs.OpCreate) && m.chance(50) {
		err = syscall.EMFILE
	}
	if kind == vfs.OpWrite {
		err = &vfs.TornWrite{Bytes: m.rng.IntN(400), Err: err}
	}
	nth := 1 + m.rng.IntN(3)
	m.note("of %s the operation %d fails: %v", kind, nth, err)
	if m.chance(70) {
		m.disk.setFault(vfs.FailNth(kind, nth, err))
		return
	}
	m.disk.setFault(func(op vfs.Op) error { // all from the nth on; the disk serializes the calls
		if op.Kind == kind {
			if nth--; nth <= 0 {
				return err
			}
		}
		return nil
	})
}

// pick returns a log and what is known of it, and makes it if need be. It
// returns nil when that fails, as it may on an ill disk.
func (m *model) pick() (*Log, *modelLog) {
	topic := []string{"a", "a", "b", "c"}[m.rng.IntN(4)]
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
	return l.cfg.RollInterval > 0 && !ml.vague && ml.groups[i].elapsed >= 0 && m.clock.Elapsed()-ml.groups[i].elapsed > l.cfg.RollInterval
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
	if l == nil || ml.broken || m.timed() || m.disk.ill() {
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
		if !errors.Is(err, ErrOffsetOutOfRange) {
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

// offsets asks for the offsets before a time.
func (m *model) offsets() {
	l, ml := m.pick()
	if l == nil {
		return
	}
	m.count("offsets")
	list := *l.segments.Load()
	s := l.State()
	var starts, times []int64 // of the segments, with their last writes by the model
	vague := m.stepped || ml.vague || m.disk.ill()
	for i, segment := range list {
		if segment.base > s.Watermark {
			break
		}
		end := int64(len(ml.written))
		if i+1 < len(list) {
			end = list[i+1].base
		}
		vague = vague || end == segment.base // the time of its making, which the model does not keep
		starts, times = append(starts, segment.base), append(times, ml.lastGroup(end).wall.UnixMilli())
	}
	if s.Watermark > starts[len(starts)-1] {
		starts, times = append(starts, s.Watermark), append(times, m.clock.Now().UnixMilli())
	}
	count := 1 + m.rng.IntN(4)
	at := []int64{timeLatest, timeEarliest, m.clock.Now().UnixMilli(), times[m.rng.IntN(len(times))], m.clock.Now().Add(-m.randomAge()).UnixMilli()}[m.rng.IntN(5)]
	got := l.OffsetsBefore(at, count)
	newest := len(starts) - 1
	switch {
	case at == timeEarliest:
		newest = 0
	case at != timeLatest:
		if vague {
			// Not by the model's times. Then at least offsets, newest first.
			if newest = -1; len(got) > 0 {
				newest = slices.Index(starts, got[0])
			}
			break
		}
		for newest >= 0 && times[newest] > at {
			newest--
		}
	}
	var want []int64
	for i := newest; i >= 0 && len(want) < count; i-- {
		want = append(want, starts[i])
	}
	if !slices.Equal(got, want) {
		m.failf("%d offsets of %v before %d: %v, %v wanted; segments at %v written to at %v, %+v", count, keyOf(l), at, got, want, starts, times, s)
	}
}

// lastGroup returns the group that ends at or holds the byte before an offset.
func (ml *modelLog) lastGroup(end int64) groupTime {
	i, _ := slices.BinarySearchFunc(ml.groups, end, func(g groupTime, end int64) int { return int(g.end - end) })
	if i == len(ml.groups) {
		return groupTime{}
	}
	return ml.groups[i]
}

// randomAge returns some time that may be more than one of the rules allows.
func (m *model) randomAge() time.Duration {
	return []time.Duration{0, time.Millisecond, time.Minute, 61 * time.Minute, 25 * time.Hour}[m.rng.IntN(5)]
}

// passTime lets time go by, or puts the clock right.
func (m *model) passTime() {
	if m.timed() {
		m.waitFlushedByTime()
		return
	}
	if m.chance(25) {
		m.stepped = true
		m.count("clock stepped")
		d := time.Duration(m.rng.Int64N(int64(60*time.Hour))) - 30*time.Hour
		m.note("the clock is put right by %v", d)
		m.clock.Step(d)
		return
	}
	d := m.randomAge()
	m.note("%v go by", d)
	m.clock.Advance(d)
}

// waitFlushedByTime lets time go by until everything is flushed.
func (m *model) waitFlushedByTime() {
	if m.disk.ill() {
		return
	}
	m.note("flush by time")
	deadline := time.Now().Add(m.limit)
	for {
		behind := ""
		for _, l := range m.m.Logs() {
			if s := l.State(); s.Flushed < s.LogEnd && l.Err() == nil {
				behind = fmt.Sprintf("%v: %+v", keyOf(l), s)
			}
		}
		if behind == "" {
			return
		}
		if time.Now().After(deadline) {
			m.failf("not flushed by time: %s", behind)
			return
		}
		m.clock.Advance(m.cfg.FlushInterval)
		time.Sleep(10 * time.Microsecond) // the timer's goroutine has its turn
	}
}

// retain runs retention and looks whether it takes what it has to take, and no
// more.
func (m *model) retain() {
	m.count("retain")
	type was struct {
		list segments
		s    State
	}
	before := map[logKey]was{}
	for _, l := range m.m.Logs() {
		before[keyOf(l)] = was{*l.segments.Load(), l.State()}
	}
	var err error
	m.withLimit(func(ctx context.Context) { err = m.m.Retain(ctx) })
	m.note("retain: %v", err)
	if err != nil && (!m.disk.ill() || !isInjected(err) && !errors.Is(err, ErrOutOfService)) {
		m.failf("retain: %v", err)
	}
	for _, l := range m.m.Logs() {
		key := keyOf(l)
		ml, old, s := m.logs[key], before[key], l.State()
		if ml == nil || ml.doomed || m.problem != "" {
			continue
		}
		if err := l.OutOfService(); err != nil && !ml.broken { // in the roll that makes room for nothing
			if !m.disk.ill() {
				m.failf("retain has taken %v out of service: %v", key, err)
			}
			ml.broken, ml.suspect = true, true
		}
		if s.First > old.s.First {
			m.count("retention removed")
			m.note("retention: %v begins at %d now", key, s.First)
			m.mayHaveGone(l, ml, old.list, s)
			ml.first = s.First
		}
		if err == nil && !m.disk.ill() && !ml.broken {
			m.mustHaveGone(l, ml, s)
		}
	}
}

// mayHaveGone looks whether what retention has removed was beyond a rule.
func (m *model) mayHaveGone(l *Log, ml *modelLog, old segments, s State) {
	left := max(old[len(old)-1].base, s.Flushed) - s.First
	for i, segment := range old {
		if segment.base >= s.First {
			break
		}
		end := int64(len(ml.written))
		if i+1 < len(old) {
			end = old[i+1].base
		}
		if l.cfg.RetentionAge > 0 && m.oldestAge(ml.lastGroup(end)) > l.cfg.RetentionAge {
			continue
		}
		if l.cfg.RetentionBytes == 0 || left < l.cfg.RetentionBytes {
			m.failf("retention has removed the segment at %d of %v: its last append may be %v ago at most, %d bytes are left, and the rules are %v, %d bytes",
				segment.base, keyOf(l), m.oldestAge(ml.lastGroup(end)), left, l.cfg.RetentionAge, l.cfg.RetentionBytes)
			return
		}
	}
}

// oldestAge returns how old the manager may take a group for at most. What this
// process has appended it knows exactly; of the rest it knows what the files say,
// by the clock as it was when it opened them, and clocks put forward since make
// nothing older.
func (m *model) oldestAge(g groupTime) time.Duration {
	since := m.clock.Elapsed()
	if g.elapsed >= 0 {
		return since - g.elapsed
	}
	if m.stepped {
		return longAgo // files may have got other times since
	}
	return max(m.openedWall.Sub(g.wall), 0) + since - m.openedElapsed
}

// mustHaveGone looks whether what is left is within the rules.
func (m *model) mustHaveGone(l *Log, ml *modelLog, s State) {
	list := *l.segments.Load()
	if l.cfg.RetentionAge > 0 && !m.stepped && !ml.vague {
		end := int64(len(ml.written))
		if len(list) > 1 {
			end = list[1].base
		}
		if g := ml.lastGroup(end); end > list[0].base && m.clock.Now().Sub(g.wall) > l.cfg.RetentionAge {
			m.failf("retention has left the segment at %d of %v, written to %v ago; the rule is %v", list[0].base, keyOf(l), m.clock.Now().Sub(g.wall), l.cfg.RetentionAge)
		}
	}
	if l.cfg.RetentionBytes > 0 && len(list) > 1 && s.Flushed-list[1].base >= l.cfg.RetentionBytes {
		m.failf("retention has left the segment at %d of %v: without it there are still %d bytes of %d", list[0].base, keyOf(l), s.Flushed-list[1].base, l.cfg.RetentionBytes)
	}
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

// changeDisk fills the disk up, or makes its syncs fail, until the next time.
func (m *model) changeDisk() {
	if m.disk.ill() {
		m.note("the disk is well again")
		m.disk.mend()
		m.heal()
		return
	}
	m.disk.mu.Lock()
	if m.timed() || m.chance(60) {
		m.disk.full = true
	} else {
		m.disk.sick = true
	}
	full := m.disk.full
	m.disk.mu.Unlock()
	if full {
		m.count("disk full")
		m.note("the disk is full")
	} else {
		m.count("disk sick")
		m.note("syncs fail from now on")
	}
}

// failSync lets a sync fail with something to flush, and perhaps lets the page
// cache forget what the sync has dropped. Nothing becomes visible before all is
// well (fault B04).
func (m *model) failSync() {
	l, ml := m.pick()
	if l == nil || ml.broken || m.timed() || m.disk.ill() {
		return
	}
	m.appendTo(l, ml)
	if end := int64(len(ml.written)); l.State().Flushed == end || m.problem != "" {
		return
	}
	m.disk.mu.Lock()
	m.disk.sick = true
	m.disk.mu.Unlock()
	m.withLimit(func(ctx context.Context) { m.flushed(l, ml, int64(len(ml.written)), l.Flush(ctx)) })
	m.disk.mend()
	if !ml.broken {
		m.failf("flush of %v succeeds, and its sync failed", keyOf(l))
		return
	}
	flushed := l.State().Flushed
	m.withLimit(func(ctx context.Context) { m.flushed(l, ml, int64(len(ml.written)), l.Flush(ctx)) })
	if s := l.State(); s.Flushed != flushed || s.Flushed != ml.safe {
		m.failf("after a failed sync of %v: %+v, %d was flushed before", keyOf(l), s, flushed)
		return
	}
	if m.chance(30) {
		list := *l.segments.Load()
		if err := m.mem.DropCache(list[len(list)-1].path); err != nil {
			m.failf("drop cache: %v", err)
		}
		m.note("the cache forgets what the sync of %v has dropped", keyOf(l))
		m.dropSlices(keyOf(l), ml.safe)
		m.healAfterLoss(keyOf(l))
		return
	}
	m.heal()
}

// heal waits until every log is back in service, the disk being well.
func (m *model) heal() { m.healAfterLoss(logKey{}) }

// healAfterLoss is heal; of one log, what was not flushed may be lost.
func (m *model) healAfterLoss(lossy logKey) {
	byClock := m.chance(25) && !m.timed()
	for _, l := range m.m.Logs() {
		ml := m.logs[keyOf(l)]
		if ml == nil || ml.doomed || m.problem != "" {
			continue
		}
		if l.OutOfService() == nil && !ml.broken {
			continue
		}
		m.count("back in service")
		if !m.restore(l, byClock) {
			return
		}
		s := l.State()
		m.note("%v is back in service: %+v", keyOf(l), s)
		if s.LogEnd < ml.safe || s.LogEnd > int64(len(ml.written)) || s.LogEnd < int64(len(ml.written)) && keyOf(l) != lossy {
			m.failf("%v is back in service with %+v; %d was appended, %d of it flushed", keyOf(l), s, len(ml.written), ml.safe)
			return
		}
		if s.LogEnd < int64(len(ml.written)) {
			m.count("messages lost with the page cache")
		}
		// Slices of what was visible before it was flushed may find it gone: it
		// was written anew elsewhere.
		m.dropSlices(keyOf(l), ml.safe)
		ml.cut(s.LogEnd)
		ml.broken, ml.suspect, ml.maybe, ml.vague = false, false, nil, true
	}
}

// restore brings a log back into service, as the manager does, or lets it do so.
func (m *model) restore(l *Log, byClock bool) bool {
	deadline := time.Now().Add(m.limit)
	var last error
	for attempt := 1; l.OutOfService() != nil; attempt++ {
		if time.Now().After(deadline) {
			m.failf("%v stays out of service on a disk that is well: %v; %v", keyOf(l), l.OutOfService(), last)
			return false
		}
		if byClock {
			m.clock.Advance(maxRestoreWait)
			time.Sleep(10 * time.Microsecond) // the restorer has its turn
			continue
		}
		m.withLimit(func(ctx context.Context) {
			if err := l.restore(ctx, attempt); err != nil {
				last = err
			}
		})
	}
	return true
}

// cut forgets what is behind an offset.
func (ml *modelLog) cut(end int64) {
	ml.written = ml.written[:end:end]
	i := slices.IndexFunc(ml.groups, func(g groupTime) bool { return g.end >= end })
	if i < 0 {
		return
	}
	if ml.groups[i].end > end {
		ml.groups[i].end = end
	}
	ml.groups = ml.groups[:i+1]
}
