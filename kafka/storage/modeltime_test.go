package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

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
	m.restoreDue() // the restorer has noticed what is out of service before
	m.clock.Advance(d)
	m.restoreDue()
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
			m.mustHaveGone(l, ml, old.s.Flushed)
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

// mustHaveGone looks whether what is left is within the rules. flushed is the end
// of what was safe before retention began: a flush by time may have come since.
func (m *model) mustHaveGone(l *Log, ml *modelLog, flushed int64) {
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
	if l.cfg.RetentionBytes > 0 && len(list) > 1 && flushed-list[1].base >= l.cfg.RetentionBytes {
		m.failf("retention has left the segment at %d of %v: without it there are still %d bytes of %d", list[0].base, keyOf(l), flushed-list[1].base, l.cfg.RetentionBytes)
	}
}
