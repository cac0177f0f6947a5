package broker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/wire"
)

// errStopping ends the reading of a connection because the broker stops.
var errStopping = errors.New("broker is stopping")

// reader reads a connection into a buffer and takes frames from it. It is used
// by the connection's goroutine alone.
type reader struct {
	tcp    *net.TCPConn
	raw    syscall.RawConn
	memory *memory
	holder *holder // of the memory

	maxRequest  int // bytes, inclusive, of a request's size field
	readTimeout time.Duration
	idleTimeout time.Duration

	// stopping is the broker's. Once it is set, what has arrived is still
	// read, until drainBy at the latest.
	stopping *atomic.Bool
	drainBy  func() time.Time
	draining bool
	cutShort bool // reading ended in the middle of what the peer sends

	held  buffer
	buf   []byte // what of held can be used; nil while there is nothing to keep
	want  int    // the class that the next buffer should have
	least int    // the class below which it may as well be the smallest
	small int    // reads in a row that would have fitted a far smaller buffer
	r, w  int    // buf[r:w] is read and not yet taken

	armedAt  time.Time     // when the read deadline was last set
	armedFor time.Duration // the limit that it was set for; 0: there is none

	// The result of a step, which is bound once so that reading allocates
	// nothing.
	step func(fd uintptr) bool
	n    int
	err  error
}

func (r *reader) init() { r.step = r.readStep }

// release gives the buffer back.
func (r *reader) release() {
	r.memory.give(r.holder, &r.held)
	r.buf, r.r, r.w = nil, 0, 0
}

// next takes the next complete request from the buffer, and says where in the
// buffer its body begins. The body is nil when there is none. An error means
// that the bytes are no request.
func (r *reader) next() (t wire.Type, body []byte, pos int, err error) {
	b := r.buf[r.r:r.w]
	size, err := wire.FrameSize(b, wire.TypeSize, r.maxRequest)
	if err != nil {
		return 0, nil, 0, err
	}
	if len(b) < wire.SizeSize+wire.TypeSize {
		return 0, nil, 0, nil
	}
	// The type is looked at before the rest is there: no memory for a
	// stranger's frame.
	if t, _, err = wire.SplitRequest(b[wire.SizeSize:]); err != nil || !known(t) {
		return 0, nil, 0, fmt.Errorf("unknown request %v", t)
	}
	if size > len(b) {
		return 0, nil, 0, nil
	}
	pos = r.r + wire.SizeSize + wire.TypeSize
	r.r += size
	return t, r.buf[pos:r.r], pos, nil
}

// fill waits until more bytes have arrived and reads them with one read. Frames
// taken before are overwritten. io.EOF is the peer's close. It may wait for
// memory too.
func (r *reader) fill() error {
	if err := r.makeRoom(); err != nil {
		r.cutShort = true
		return err
	}
	for {
		if err := r.arm(); err != nil {
			return err
		}
		r.n, r.err = 0, nil
		r.holder.reading.Add(1)
		err := r.raw.Read(r.step)
		r.holder.reading.Add(-1)
		if err == nil {
			err = r.err
		}
		if err == nil {
			r.w += r.n
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		switch {
		case r.draining:
			r.cutShort = true
			return errStopping
		case r.stopping.Load(): // woken by the broker: arm again, and drain
		case r.w > 0:
			return fmt.Errorf("no byte for %v in the middle of a request: %w", r.readTimeout, err)
		default:
			return fmt.Errorf("no request for %v: %w", r.idleTimeout, err)
		}
	}
}

// readStep is one attempt of fill on the descriptor; false waits for input.
func (r *reader) readStep(fd uintptr) bool {
	if r.buf == nil {
		r.held = r.memory.take(r.holder, r.want, r.least)
		r.buf = r.held.b
	}
	for {
		n, err := unix.Read(int(fd), r.buf[r.w:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN && r.w == 0:
			r.release()
			if r.draining {
				r.err = errStopping
				return true
			}
			return false
		case err == unix.EAGAIN:
			if r.w < smallestBuffer && r.held.home == inArena {
				// What a peer is slow with need not lie in what others want.
				r.move(r.memory.take(r.holder, 0, 0))
			}
			return false
		case err != nil:
			r.err = os.NewSyscallError("read", err)
		case n == 0:
			r.err = io.EOF
		default:
			r.n = n
			r.holder.moved.Add(int64(n))
			r.adapt(n)
		}
		return true
	}
}

// adapt chooses the class of the next buffer from how much this one was filled.
func (r *reader) adapt(n int) {
	const patience = 32
	switch free := len(r.buf) - r.w; {
	case n == free:
		if r.held.class >= r.want {
			r.want = min(r.want+1, bufferClasses-1)
		}
		r.small = 0
	case r.want > 0 && n < classSize(r.want)/16:
		if r.small++; r.small == patience {
			r.want, r.least, r.small = r.want-1, 0, 0
		}
	default:
		r.small = 0
	}
}

// makeRoom moves what is left of the buffer to its front, and into another
// buffer when this one is too small, or larger than it should be now.
func (r *reader) makeRoom() error {
	if r.buf == nil {
		return nil
	}
	left := r.w - r.r
	if left > 0 && r.r > 0 {
		copy(r.buf, r.buf[r.r:r.w])
	}
	r.r, r.w = 0, left
	want, room := r.want, classSize(r.want)/2
	if r.memory.contended() {
		want, room = 0, smallestBuffer-1
	}
	switch size := r.pendingSize(); {
	case left == len(r.buf):
		return r.grow(size)
	case left == 0:
		if r.held.class != want {
			r.release()
		}
	case size > smallestBuffer && size <= len(r.held.b):
		// The rest of a large request is on its way into it.
	case r.held.class != want && left <= room:
		b := r.memory.take(r.holder, want, r.least)
		if (b.class > r.held.class || want < r.held.class) && left < len(b.b) {
			r.move(b)
		} else { // there was none of that class
			r.memory.give(r.holder, &b)
		}
	}
	return nil
}

// pendingSize is the size of the request that the buffer begins with, or 0 when
// that has not arrived yet.
func (r *reader) pendingSize() int {
	size, err := wire.FrameSize(r.buf[r.r:r.w], wire.TypeSize, r.maxRequest)
	if err != nil {
		return 0 // next has refused it
	}
	return size
}

// grow makes room behind a part of a request of so many bytes that fills the
// whole buffer. The size is believed only now, when as much as a smallest buffer
// has come of it.
func (r *reader) grow(size int) error {
	if r.held.home == inMapping {
		if err := r.memory.extend(r.holder, &r.held); err != nil {
			return fmt.Errorf("after %d of the %d bytes of a request: %w", r.w, size, err)
		}
		r.buf = r.held.usable()
		return nil
	}
	if size <= smallestBuffer {
		r.move(r.memory.take(r.holder, 0, 0))
		return nil
	}
	if size <= largestBuffer {
		// Who waits holds nothing that others wait for.
		b, ok, err := r.memory.takeFor(r.holder, size, r.held.home == inHeap)
		if err != nil {
			return fmt.Errorf("request of %d bytes: %w", size, err)
		}
		if ok {
			// A part of the next one in a buffer that is too small for it would
			// stand in the way of others, should it have to wait.
			r.least = classFor(size)
			r.want = max(r.want, r.least)
			r.move(b)
			return nil
		}
	}
	b, err := r.memory.takeMapping(r.holder, size, r.w)
	if err != nil {
		return fmt.Errorf("request of %d bytes: %w", size, err)
	}
	r.move(b)
	return nil
}

// move takes a buffer with what has been read.
func (r *reader) move(b buffer) {
	to := b.usable()
	w := copy(to, r.buf[r.r:r.w])
	r.release()
	r.held, r.buf, r.w = b, to, w
}

// rest lets go of what is not needed while the requests behind the one at hand
// wait, and reports whether no more than a smallest buffer is left. What the
// request points to is gone then.
func (r *reader) rest() bool {
	switch {
	case r.r == r.w:
		r.release()
	case r.held.home != inHeap && r.w-r.r <= smallestBuffer:
		r.move(r.memory.take(r.holder, 0, 0))
	}
	return r.held.home == noHome || r.held.home == inHeap
}

// arm sets the read deadline that the state asks for: in the middle of a
// request, between two, or while the broker stops. Renewing it costs a timer
// update, so it may be up to an eighth of the limit early.
func (r *reader) arm() error {
	if r.stopping.Load() {
		if r.draining {
			return nil
		}
		r.draining = true
		return r.tcp.SetReadDeadline(r.drainBy())
	}
	limit := r.idleTimeout
	if r.w > 0 {
		limit = r.readTimeout
	}
	if limit == 0 && r.armedFor == 0 {
		return nil
	}
	if limit == 0 {
		r.armedFor = 0
		if err := r.tcp.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	} else if now := time.Now(); limit != r.armedFor || now.Sub(r.armedAt) > limit/8 {
		r.armedAt, r.armedFor = now, limit
		if err := r.tcp.SetReadDeadline(now.Add(limit)); err != nil {
			return err
		}
	}
	// The broker sets stopping first and wakes its readers then: if the
	// deadline above replaced that wake-up, stopping is seen here.
	if r.stopping.Load() {
		return r.arm()
	}
	return nil
}

// disarm takes the read deadline away. A failure is that of a closed
// connection, which the next read reports.
func (r *reader) disarm() {
	r.armedFor = 0
	_ = r.tcp.SetReadDeadline(time.Time{})
}

// linger says to the peer that nothing more will come, and discards what it
// still sends until it closes, too, but no longer than the given time. A close
// with bytes unread resets the connection, which takes answers with it that are
// on their way.
func (r *reader) linger(by time.Time) {
	if r.tcp.CloseWrite() != nil || r.tcp.SetReadDeadline(by) != nil {
		return // the peer has closed
	}
	_, _ = io.Copy(io.Discard, r.tcp)
}

// interrupt ends a read that waits, from any goroutine.
func (r *reader) interrupt() { _ = r.tcp.SetReadDeadline(time.Unix(1, 0)) }
