package rawlimit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"kafkalab/harness/workload"
)

// span is a stretch of a queue that was sent over one connection.
type span struct {
	runID uint64
	first uint64 // sequence number of the first message
	start int64  // place of the first byte in the queue
}

// queue is what has arrived under one name: a count of bytes, with a file or
// with what it takes to make the messages again.
type queue struct {
	name string
	file *os.File // nil with paths tcp and ping

	mu           sync.Mutex // guards all that follows
	payloadBytes int        // 0 until something was produced
	bytes        int64      // taken so far; the last entry may be cut off
	synced       int64      // bytes when the last sync began
	due          bool       // a flush was asked for
	spans        []span
	producing    bool
	err          error         // why it takes no more
	wake         chan struct{} // closed when bytes grows; nil when nobody waits
	followers    []net.Conn    // see follow; replaced, never changed
}

// openQueue makes a queue, or goes on with the file of one that a server before
// has left.
func openQueue(dir, name string, path Path) (*queue, error) {
	q := &queue{name: name}
	if !path.Stores() {
		return q, nil
	}
	// In hexadecimal, since a queue may be called what a file may not.
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%x.raw", name)), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	q.file = f
	if err := q.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return q, nil
}

// recover finds out what the file holds, by its first entry: all are of one
// size. An entry that was cut off is dropped.
func (q *queue) recover() error {
	info, err := q.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("that is no regular file")
	}
	var head [entryHeaderBytes]byte
	if info.Size() >= entryHeaderBytes {
		if _, err := q.file.ReadAt(head[:], 0); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n < workload.MinPayloadBytes || n > workload.MaxPayloadBytes {
			return fmt.Errorf("it begins with a payload of %d bytes: that is none of ours", n)
		}
		q.payloadBytes = int(n)
		q.bytes = info.Size() - info.Size()%q.entryBytes()
		q.synced = q.bytes
	}
	if q.bytes == info.Size() {
		return nil
	}
	return q.file.Truncate(q.bytes)
}

// begin takes the queue for one producing connection.
func (q *queue) begin(r request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return q.err
	case q.producing:
		return fmt.Errorf("queue %q has a producer already: one at a time", q.name)
	case q.payloadBytes != 0 && q.payloadBytes != r.PayloadBytes:
		return fmt.Errorf("queue %q has payloads of %d bytes: none of %d bytes can follow", q.name, q.payloadBytes, r.PayloadBytes)
	}
	q.producing = true
	q.payloadBytes = r.PayloadBytes
	q.spans = append(q.spans, span{runID: r.RunID, first: r.First, start: q.bytes})
	return nil
}

// end gives the queue back and drops an entry that was cut off, so that the
// next producer's follow whole ones. err, if not nil, ends the queue.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.producing = false
	if cut := q.bytes % q.entryBytes(); cut > 0 {
		q.bytes -= cut
		for _, f := range q.followers { // they have got what is taken back
			f.Close()
		}
		q.followers = nil
		if q.file != nil {
			err = errors.Join(err, q.file.Truncate(q.bytes))
		}
	}
	if err != nil && q.err == nil {
		q.err = fmt.Errorf("queue %q: %w", q.name, err)
	}
}

// entryBytes is called with q.mu held, once something was produced.
func (q *queue) entryBytes() int64 { return int64(entryHeaderBytes + q.payloadBytes) }

// append takes bytes of the stream: into the file, or nowhere. It returns those
// who have got all that was before it. Only the producing connection calls it.
func (q *queue) append(b []byte) (followers []net.Conn, err error) {
	if q.file != nil {
		// Nobody else moves the end, which only append and end know.
		if _, err := q.file.WriteAt(b, q.bytes); err != nil {
			return nil, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes += int64(len(b))
	if q.wake != nil {
		close(q.wake)
		q.wake = nil
	}
	return q.followers, nil
}

// arrived returns how many whole messages there are.
func (q *queue) arrived() (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.payloadBytes == 0 {
		return 0, q.err
	}
	return q.bytes / q.entryBytes(), q.err
}

// wait returns the end of the last whole message when it is beyond from, at
// the latest when ctx ends.
func (q *queue) wait(ctx context.Context, from int64) (int64, error) {
	for {
		q.mu.Lock()
		if q.payloadBytes != 0 {
			if whole := q.bytes - q.bytes%q.entryBytes(); whole > from {
				q.mu.Unlock()
				return whole, nil
			}
		}
		if q.wake == nil {
			q.wake = make(chan struct{})
		}
		wake := q.wake
		q.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// wholeEnd is the end of the last whole message.
func (q *queue) wholeEnd() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.payloadBytes == 0 {
		return 0
	}
	return q.bytes - q.bytes%q.entryBytes()
}

// sync brings to the disk what has come since the last time. A failure ends
// the queue.
func (q *queue) sync() {
	q.mu.Lock()
	end := q.bytes
	needless := end == q.synced || q.err != nil
	q.mu.Unlock()
	if needless {
		return
	}
	err := q.file.Sync()
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		q.synced = end
	} else if q.err == nil {
		q.err = fmt.Errorf("queue %q: flush: %w", q.name, err)
	}
}

// close closes the file. No connection uses the queue any more.
func (q *queue) close() error {
	if q.file == nil {
		return nil
	}
	return q.file.Close()
}

// remake makes the messages of a queue with path tcp again.
type remake struct {
	queue    *queue
	generate *workload.Generator
	runID    uint64
}

// fill appends the messages from place at (a message's first byte) on to dst,
// until there are at least room bytes or place end is reached. It returns the
// place behind them.
func (r *remake) fill(dst []byte, at, end int64, room int) ([]byte, int64, error) {
	for at < end && len(dst) < room {
		s, until := r.queue.spanAt(at, end)
		if r.generate == nil || r.runID != s.runID {
			g, err := workload.NewGenerator(s.runID, r.queue.size())
			if err != nil {
				return dst, at, err
			}
			r.generate, r.runID = g, s.runID
		}
		entry := int64(entryHeaderBytes + r.queue.size())
		r.generate.Seek(s.first + uint64((at-s.start)/entry))
		for at < until && len(dst) < room {
			dst = appendEntry(dst, r.generate.Next())
			at += entry
		}
	}
	return dst, at, nil
}

// spanAt returns the span that holds place at, and where it ends, at most end.
func (q *queue) spanAt(at, end int64) (span, int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := len(q.spans) - 1; ; i-- { // the first one starts at 0
		if q.spans[i].start <= at {
			return q.spans[i], end
		}
		end = min(end, q.spans[i].start)
	}
}

// size returns the size of a payload, once something was produced.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.payloadBytes
}
