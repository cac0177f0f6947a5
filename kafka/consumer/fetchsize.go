package consumer

import (
	"context"
	"time"
)

// Bounds of how much a stream asks for at once when [PartitionConfig.FetchBytes]
// leaves that to it.
const (
	MinAdaptedFetchBytes = 64 << 10
	MaxAdaptedFetchBytes = 4 << 20
)

// What a fetch may take before its size is changed. Each costs both sides some 20 µs
// beside its bytes, so that of those that take longer than fastFetch a larger one
// would save little; and who takes slowFetch to handle one gets along with a smaller
// one. The two are so far apart that a doubled size is not halved again.
const (
	fastFetch = 500 * time.Microsecond
	slowFetch = 8 * time.Millisecond
	// distant is how long a first byte is waited for when what keeps the stream
	// waiting is the way to the broker, or its disk, and no want of processor time.
	distant = time.Millisecond
)

// fetchSize is how much a stream asks for at once, in bytes.
type fetchSize struct {
	now   int
	least int // what it has needed not to be kept waiting; 0: not known
	most  int
}

// answered is what the answer to a fetch tells of the rate.
type answered struct {
	asked, got int           // bytes
	took       time.Duration // since the answer before it, or since it was asked for if that is later
	received   time.Duration // of that, in receiving it; the rest was the application's
	waited     time.Duration // of that, for its first byte
}

// after returns the size for what is asked for after an answer.
//
// A range that came whole and fast is doubled: the rate then is so high that asking
// counts. So is one that was waited for at length: what is on its way does not fill
// the way to the broker, however slow that makes it. It is halved when the application
// takes long over it, and when a quarter was enough up to the end of the log: the
// memory may be of use to another partition. Where nothing came at all the least
// will do.
func (f fetchSize) after(a answered) fetchSize {
	whole, size := a.got >= a.asked, f.now
	switch {
	case a.got == 0:
		size, f.least = 0, 0
	case whole && a.waited > distant && a.waited > a.took/4:
		size *= 2
		f.least = min(size, f.most)
	case whole && a.took < fastFetch:
		size *= 2
	case whole && a.took-a.received > max(slowFetch, a.took/2):
		size = max(size/2, min(f.least, size))
	case !whole && a.got <= a.asked/4:
		size, f.least = size/2, 0
	}
	f.now = min(max(size, MinAdaptedFetchBytes), f.most)
	return f
}

// adapt changes how much is asked for next by the answer that has just come, if
// that is left to the stream.
func (s *Stream) adapt(a ask, got int, received time.Duration) {
	now, last := time.Now(), s.answeredAt
	s.answeredAt = now
	if !s.cfg.adaptive || a.maxBytes != s.fetch.now {
		return // it was asked for before the last change, or by need
	}
	if a.at.After(last) {
		last = a.at
	}
	s.fetch = s.cfg.adaptBy(s.fetch, answered{
		asked: a.maxBytes, got: got, took: now.Sub(last), received: received, waited: s.conn.Waited(),
	})
	s.askShare(s.fetch.now)
}

// askShare asks for so much of the memory that the streams of a consumer share.
func (s *Stream) askShare(want int) {
	s.fetch.now = s.share.resize(want)
	s.count(func(st *Stats) { st.FetchBytes = s.fetch.now })
}

// keepRoom puts the tail at the front of the buffer, for what is received next to
// follow it. It gives a buffer back that is much larger than that, be it because less
// is asked for or because a large message was in it.
func (s *Stream) keepRoom() {
	if cap(s.buf) > 2*max(s.fetch.now, s.needed(), MinAdaptedFetchBytes) {
		s.buf = nil
	}
	s.buf = append(s.buf[:0], s.tail...)
	s.tail = s.buf
}

// mustBeAdmitted reports whether the message that comes next is not to be asked for
// as a whole before admit has let it in.
func (s *Stream) mustBeAdmitted() bool {
	return s.cfg.adaptive && s.cfg.large != nil && !s.lent && s.need > s.fetch.now
}

// needed returns how much the message that comes next may be asked for with, be it more
// than a fetch is: nothing before it is let in.
func (s *Stream) needed() int {
	if s.mustBeAdmitted() {
		return 0
	}
	return min(s.need, s.cfg.MaxFetchBytes)
}

// admit sees to it that there is memory for the message that comes next. Where
// fetches adapt, one that does not fit makes them larger. One that does not fit the
// largest that they may be waits until no other stream beside this one has such a
// message: of a thousand partitions that all come to one at once, one at a time
// goes on.
func (s *Stream) admit(ctx context.Context) error {
	if !s.cfg.adaptive || s.lent || s.need <= s.fetch.now {
		return nil
	}
	s.askShare(min(s.need, s.fetch.most))
	if !s.mustBeAdmitted() {
		return nil
	}
	select {
	case s.cfg.large <- struct{}{}:
		s.lent = true
		return nil
	case <-ctx.Done():
		return s.ended(ctx)
	case <-s.life.Done():
		return s.errorf("%w", ErrClosed)
	}
}

// giveBack lets another stream have a large message, if this one was let in with
// one. What has come of it is dropped, and will come again.
func (s *Stream) giveBack() {
	if !s.lent {
		return
	}
	s.lent = false
	<-s.cfg.large
	if !s.receiving {
		return // it is the application's
	}
	partly := len(s.buf) > len(s.tail) // an answer has come
	if len(s.tail) > s.fetch.now {
		s.tail, partly = nil, true
	}
	if partly {
		s.dropAhead()
	}
	s.buf = append([]byte(nil), s.tail...)
	s.tail = s.buf
}
