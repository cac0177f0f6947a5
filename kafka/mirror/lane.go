package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// lane carries what was read of one source partition to its partition at the target,
// in order. Its goroutine sends; another one receives while there is a connection; the
// source's reader adds sets, and its committer commits what is flushed.
type lane struct {
	src  *source
	cfg  *Config
	log  *slog.Logger
	tp   consumer.TopicPartition
	life context.Context // ends with the lane
	end  context.CancelFunc
	done chan struct{} // closed when its goroutine has ended
	wake chan struct{} // has room for one: there may be something to do

	mu    sync.Mutex
	queue []*set // not acknowledged, oldest first
	sent  int    // of them are on their way, from the first on
	bytes int    // of log, of all of them
	// answered sets at the front of the queue are one that the target has not taken, and
	// those behind it; nothing is sent until all that was sent has its answer.
	answered int
	cautious bool // one set at a time, until one is accepted

	next      int64 // offset behind the last set added; -1: none was
	flushed   int64 // all before it is flushed at the target, or is in a gap; -1: nothing was added yet
	committed int64 // in the offset registry; -1: not known to be
	gap       *consumer.OutOfRangeError
	paused    bool
	failing   error         // why nothing gets through at present, or nil
	unread    error         // why nothing more can be read at present, or nil
	since     time.Time     // when that began
	toldAt    time.Time     // when it was logged last
	stopping  bool          // no more is sent
	drained   chan struct{} // made by stop, closed when nothing is on its way
}

// set is one AckedProduce request.
type set struct {
	offset, end int64  // the entries' range in the source's log
	entries     int    // a compressed one counts as one
	frame       []byte // the request, with room for its header
	refused     bool   // the target does not have it
}

func (s *set) bytes() int { return int(s.end - s.offset) }

func newLane(src *source, tp consumer.TopicPartition) *lane {
	l := &lane{
		src: src, cfg: &src.m.cfg, tp: tp,
		log:  src.log.With("topic", tp.Topic, "partition", tp.Partition.String()),
		done: make(chan struct{}), wake: make(chan struct{}, 1),
		next: -1, flushed: -1, committed: -1,
	}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// add queues the entries of a chunk, which begins at an offset. They are copied. It
// reports false when the lane takes nothing any more.
func (l *lane) add(entries message.Set, offset int64) bool {
	sets := l.cut(entries, offset)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping {
		return false
	}
	if l.next >= 0 && l.next != offset {
		// Only Seek moves a partition, and then next was moved too.
		l.log.Error("a partition goes on elsewhere than it was left", "wanted", l.next, "offset", offset)
	}
	if l.flushed < 0 {
		l.flushed = offset // before anything is sent it is to be committed
	}
	l.unread = nil
	l.next = offset + int64(len(entries))
	l.queue = append(l.queue, sets...)
	l.bytes += len(entries)
	l.src.m.memory.add(int64(len(entries)))
	if !l.paused && l.bytes >= l.limit() {
		l.pause(true)
	}
	if l.committed < 0 {
		l.src.commitSoon()
	}
	l.signal()
	return true
}

// limit is how much of the partition is kept until it is not read further.
func (l *lane) limit() int {
	share := l.cfg.MaxBufferBytes / int64(2*max(l.src.laneCount.Load(), 1))
	return int(min(int64(l.cfg.FetchBytes), max(share, int64(l.cfg.setBytes()))))
}

// pause keeps the partition from being read, or lets it be read again. mu is held.
func (l *lane) pause(paused bool) {
	g := l.src.group
	change := g.Resume
	if paused {
		change = g.Pause
	}
	if err := change(l.tp.Topic, l.tp.Partition); err != nil {
		return // it is not owned any more, and nothing of it comes
	}
	l.paused = paused
}

// cut cuts entries into requests of about an eighth of a fetch, each entry whole.
func (l *lane) cut(entries message.Set, offset int64) []*set {
	var sets []*set
	most := l.cfg.setBytes()
	for start := 0; start < len(entries); {
		end, n := start, 0
		for end < len(entries) {
			size, err := message.Peek(entries[end:])
			if err != nil || size == 0 || size > len(entries)-end {
				size = len(entries) - end // not so: the caller has walked them
			}
			if n > 0 && end+size-start > most {
				break
			}
			end, n = end+size, n+1
		}
		sets = append(sets, l.frame(entries[start:end], offset+int64(start), n))
		start = end
	}
	return sets
}

// frame copies entries into a request whose partition is filled in later.
func (l *lane) frame(entries message.Set, offset int64, n int) *set {
	frame := make([]byte, 0, wire.AckedProduceSize(l.tp.Topic)+len(entries))
	frame = wire.AppendAckedProduce(frame, l.tp.Topic, 0, entries, wire.AcksOrdered, client.Millis(l.cfg.FlushTimeout))
	return &set{offset: offset, end: offset + int64(len(entries)), entries: n, frame: frame}
}

// accepted takes the oldest set off the queue, which the target has flushed. mu is held.
func (l *lane) accepted() {
	s := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.sent--
	l.bytes -= s.bytes()
	l.flushed = s.end
	l.cautious = false
	l.src.m.memory.add(-int64(s.bytes()))
	l.src.m.counts.copied(s.entries, s.bytes())
	if l.failing != nil {
		if !l.toldAt.IsZero() {
			l.log.Info("delivered again", "offset", s.offset)
		}
		l.failing, l.toldAt = nil, time.Time{}
	}
	if l.paused && l.bytes < l.limit()/2 && l.gap == nil {
		l.pause(false)
	}
	if l.mustCommit() {
		l.src.commitSoon()
	}
}

// mustCommit reports whether a commit should not wait for the next interval: since so
// much is flushed, or since the lane cannot go on without. mu is held.
func (l *lane) mustCommit() bool {
	switch {
	case l.flushed < 0 || l.flushed == l.committed:
		return false
	case l.committed < 0 || l.gap != nil || l.stopping:
		return true
	}
	return l.flushed-l.committed >= int64(l.cfg.FetchBytes/2) || len(l.queue) > l.sent && !l.fits(l.queue[l.sent])
}

// fits reports whether a set may be sent beside what is sent and not committed: less
// than one fetch, or nothing. mu is held.
func (l *lane) fits(s *set) bool {
	if l.committed < 0 {
		return false
	}
	return s.end-l.committed < int64(l.cfg.FetchBytes) || s.offset == l.committed
}

// toCommit returns the offset that is to be committed, if there is one.
func (l *lane) toCommit() (offset int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushed, l.flushed >= 0 && l.flushed != l.committed
}

// noteCommitted is told what stands in the offset registry.
func (l *lane) noteCommitted(offset int64) {
	l.mu.Lock()
	l.committed = offset
	l.mu.Unlock()
	l.passGap()
	l.signal()
}

// sourceFailed notes that nothing more can be read.
func (l *lane) sourceFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = err
}

// missing notes that the source does not have what comes next.
func (l *lane) missing(e *consumer.OutOfRangeError) {
	l.mu.Lock()
	if l.gap == nil && !l.stopping {
		l.gap = e
		if l.mustCommit() {
			l.src.commitSoon()
		}
	}
	l.mu.Unlock()
	l.passGap()
}

// passGap goes on behind a gap when all before it is flushed and committed: so a mirror
// that ends before finds the gap again, and tells of it.
func (l *lane) passGap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.gap
	if e == nil || len(l.queue) > 0 || l.flushed != l.committed || l.stopping {
		return
	}
	l.gap = nil
	if err := l.src.group.Seek(l.tp.Topic, l.tp.Partition, e.First); err != nil {
		// Nothing behind the gap is committed, so its next owner finds it.
		l.log.Warn("the partition is given up before it could go on behind a gap", "offset", e.Offset, "error", err)
		return
	}
	l.next, l.flushed, l.committed = e.First, e.First, -1
	l.src.tellGap(Gap{Source: l.src.name, TopicPartition: l.tp, From: e.Offset, To: e.First})
	l.src.commitSoon()
}

// state is what is shown of a lane.
type state struct {
	tp        consumer.TopicPartition
	flushed   int64
	committed int64
	next      int64
	bytes     int
	onTheWay  int // bytes that are sent and not acknowledged
	stalled   bool
}

func (l *lane) state() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := state{tp: l.tp, flushed: l.flushed, committed: l.committed, next: l.next, bytes: l.bytes, stalled: l.failing != nil || l.unread != nil}
	for _, s := range l.queue[:l.sent] {
		st.onTheWay += s.bytes()
	}
	return st
}

// stop ends the sending, gives up what was not sent, and returns a channel that is
// closed when nothing is on its way any more.
func (l *lane) stop() (drained <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drained == nil {
		l.stopping = true
		l.drained = make(chan struct{})
		l.drop(l.sent)
		l.tellDrained()
	}
	l.signal()
	return l.drained
}

// drop gives up the sets from an index on. mu is held.
func (l *lane) drop(from int) {
	for i, s := range l.queue[from:] {
		l.queue[from+i] = nil
		l.bytes -= s.bytes()
		l.src.m.memory.add(-int64(s.bytes()))
	}
	l.queue = l.queue[:from]
}

// tellDrained closes drained if that is due. mu is held.
func (l *lane) tellDrained() {
	if l.drained == nil || l.sent > 0 {
		return
	}
	select {
	case <-l.drained:
	default:
		close(l.drained)
	}
}

// finish ends the lane and waits for its goroutine. What is sent and not acknowledged
// may come twice: its next owner sends it again.
func (l *lane) finish() {
	l.stop()
	l.end()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unanswered()
	l.drop(0)
}

// unanswered takes what was sent back into the part of the queue that is to be sent, and
// counts what may come twice so. mu is held.
func (l *lane) unanswered() {
	for _, s := range l.queue[:l.sent] {
		if !s.refused {
			l.src.m.counts.repeated(s.entries, s.bytes())
		}
		s.refused = false
	}
	l.sent, l.answered = 0, 0
	l.tellDrained()
}

// failed notes that nothing gets through.
func (l *lane) failed(err error, at string, retry time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unanswered()
	if err == nil || l.stopping || len(l.queue) == 0 {
		return // a connection that nobody needs may end
	}
	now := time.Now()
	if l.failing == nil {
		l.since = now
	}
	l.failing = err
	if errors.Is(err, errNotYet) && now.Sub(l.since) < tellAfter {
		return
	}
	if now.Sub(l.toldAt) >= tellEvery {
		l.toldAt = now
		offset := l.flushed
		l.log.Warn("not delivered, it is tried again", "offset", offset, "queued_bytes", l.bytes, "to", at, "retry_in", retry, "error", err)
	}
}

// tellAfter is how long a lane may wait for what will be known in a moment until that is
// logged.
const tellAfter = 2 * time.Second

// tellEvery is the least time between two lines of the log about what goes on failing.
const tellEvery = 10 * time.Second

// refusal is the target's answer to a set that it does not take.
type refusal struct {
	offset, end int64
	code        wire.Code
}

func (r *refusal) Error() string {
	hint := ""
	switch r.code {
	case wire.CodeMessageTooLarge:
		hint = " (raise --max-message-size or --max-decompressed-size of the target's brokers)"
	case wire.CodeInvalidMessage:
		hint = " (what the source holds there is damaged)"
	}
	return fmt.Sprintf("the target refuses what the source has from offset %d up to %d: %v%s", r.offset, r.end, r.code, hint)
}

func (r *refusal) Unwrap() error { return r.code }
