package zkserver

import (
	"encoding/binary"
	"fmt"
	"time"
)

// queuedItems is how many requests wait for the core at most; readers of
// connections wait beyond that.
const queuedItems = 1024

// Bounds of what is carried out before the log is written and answers are sent.
const (
	batchItems    = 512
	batchLogBytes = 4 << 20
)

// core is what belongs to one goroutine, [Server.run], which carries out all
// requests one after the other. It takes what has gathered, carries it out on
// the tree, and keeps the answers and events back until the log is on the disk:
// so one sync serves all that came while the last one ran, and nobody is told
// what a crash could take back, not even by a read.
type core struct {
	state                     *state
	store                     *store // nil without a data folder
	dataWatches, childWatches *watches

	pending  []parcel // in the order in which they are to be sent
	after    []func() // to be called when they are
	requests map[string]int64
	latency  latency

	snapshot       chan error // result of the snapshot that is being written; nil while none is
	nextContainers time.Duration
	ticked         time.Duration // the last tick
}

func newCore() core {
	return core{state: newState(), dataWatches: newWatches(), childWatches: newWatches(), requests: make(map[string]int64)}
}

// item is something for the core to do: a request, a handshake, a call, or the
// news that a connection has ended.
type item struct {
	c     *conn
	op    opcode
	xid   int32
	body  []byte
	since time.Time // when it was read

	hello bool
	ended bool
	call  func()
}

// parcel is a frame that waits for the log.
type parcel struct {
	c     *conn
	frame []byte
	kind  sendKind
	since time.Time // of the request, for answers
}

// sendKind is what a frame is.
type sendKind byte

const (
	sendAnswer sendKind = iota
	sendEvent
	sendLast // an answer behind which the connection is closed
)

// run is the core's goroutine.
func (s *Server) run() {
	defer s.tasks.Done()
	defer close(s.coreDone)
	ticks := time.NewTicker(s.cfg.TickTime)
	defer ticks.Stop()
	for stopping := false; !stopping; {
		select {
		case it := <-s.queue:
			s.handle(it)
			s.handleQueued()
		case <-ticks.C:
			s.tick()
		case err := <-s.snapshot:
			s.snapshotDone(err)
		case <-s.stop:
			s.handleQueued()
			stopping = true
		}
		if err := s.flush(); err != nil {
			s.fail(err)
			s.abortAll()
			break
		}
	}
	if s.snapshot != nil {
		s.snapshotDone(<-s.snapshot)
	}
}

// handleQueued carries out what is queued, up to a full batch.
func (s *Server) handleQueued() {
	for range batchItems {
		if s.store != nil && s.store.log != nil && len(s.store.log.buf) > batchLogBytes {
			return
		}
		select {
		case it := <-s.queue:
			s.handle(it)
		default:
			return
		}
	}
}

// tick ends what has to end with time.
func (s *Server) tick() {
	now := s.elapsed()
	if stood := now - s.ticked - s.cfg.TickTime; stood > s.cfg.TickTime {
		s.excuse(stood, now)
	}
	s.ticked = now
	s.expire(now)
	if now >= s.nextContainers {
		s.nextContainers = now + containerInterval
		s.removeContainers()
	}
}

// flush makes what was done safe, and sends what waits for that. Nothing may be
// done any more when it fails.
func (s *Server) flush() error {
	if s.store != nil {
		if err := s.store.flush(); err != nil {
			return err
		}
	}
	now := time.Now()
	for i, p := range s.pending {
		if p.kind != sendEvent {
			s.latency.add(now.Sub(p.since))
		}
		p.c.deliver(p, now)
		s.pending[i] = parcel{}
	}
	s.pending = s.pending[:0]
	for _, f := range s.after {
		f()
	}
	clear(s.after)
	s.after = s.after[:0]
	if s.store != nil && s.snapshot == nil && s.store.due(s.cfg.snapshotTxns, s.cfg.snapshotLogBytes) {
		return s.beginSnapshot()
	}
	return nil
}

// beginSnapshot ends the log file, all of which is flushed, and writes a
// snapshot beside the further work.
func (s *Server) beginSnapshot() error {
	if err := s.store.roll(); err != nil {
		return fmt.Errorf("close of the log file: %w", err)
	}
	zxid, content := s.state.tree.zxid, appendSnapshot(nil, s.state)
	result := make(chan error, 1)
	s.snapshot = result
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		result <- s.store.writeSnapshot(zxid, content)
	}()
	return nil
}

// snapshotDone notes the end of a snapshot. One that failed costs room for the
// log, and time at the next start, but nothing that was promised.
func (s *Server) snapshotDone(err error) {
	s.snapshot = nil
	if err != nil {
		s.log.Error("snapshot not written; the log is kept instead", "data_dir", s.cfg.DataDir, "error", err)
	}
}

// begin begins a transaction.
func (s *Server) begin() *txn {
	return &txn{zxid: s.state.tree.zxid + 1, time: time.Now().UnixMilli()}
}

// commit ends a transaction: it is logged and told to the watches.
func (s *Server) commit(t *txn) {
	s.state.tree.zxid = t.zxid
	if s.store != nil {
		s.store.append(t)
	}
	s.notify(t.events)
}

// must applies a change that was checked.
func (s *Server) must(t *txn, c change) {
	if err := s.state.apply(t, c); err != nil {
		panic(fmt.Sprintf("zkserver: a change that was checked does not fit: %v", err))
	}
}

// send keeps a frame back until the log is on the disk.
func (s *Server) send(p parcel) { s.pending = append(s.pending, p) }

// answer answers a request, with a body when err is codeOK.
func (s *Server) answer(it item, err code, body []byte) {
	s.answerAs(it, s.state.tree.zxid, err, body, sendAnswer)
}

func (s *Server) answerAs(it item, zxid int64, err code, body []byte, kind sendKind) {
	xid := it.xid
	if it.op == opPing {
		xid = xidPing
	}
	b := appendHeader(make([]byte, 0, frameHeader+len(body)), xid, zxid, err)
	if err == codeOK {
		b = append(b, body...)
	}
	s.send(parcel{c: it.c, frame: endFrame(b), kind: kind, since: it.since})
}

// frameHeader is the bytes of an answer before its body, the size included.
const frameHeader = 4 + 4 + 8 + 4

// appendHeader begins a frame, whose size endFrame sets, with the header of an
// answer.
func appendHeader(b []byte, xid int32, zxid int64, err code) []byte {
	b = append(b, 0, 0, 0, 0)
	b = appendInt32(b, xid)
	b = appendInt64(b, zxid)
	return appendInt32(b, err)
}

func endFrame(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// latency is the time from a request to its answer.
type latency struct {
	count         int64
	sum, min, max time.Duration
}

func (l *latency) add(d time.Duration) {
	if l.count == 0 || d < l.min {
		l.min = d
	}
	l.max = max(l.max, d)
	l.sum += d
	l.count++
}

// mean is in milliseconds.
func (l *latency) mean() float64 {
	if l.count == 0 {
		return 0
	}
	return float64(l.sum) / float64(l.count) / float64(time.Millisecond)
}
