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

// noClass marks a buffer that has no class: one made for a single request
// larger than the largest class.
const noClass = -1

// errStopping ends the reading of a connection because the broker stops.
var errStopping = errors.New("broker is stopping")

// reader reads a connection into a pooled buffer and takes frames from it. It
// is used by the connection's goroutine alone.
type reader struct {
	tcp  *net.TCPConn
	raw  syscall.RawConn
	pool *bufferPool

	maxRequest  int // bytes, inclusive, of a request's size field
	readTimeout time.Duration
	idleTimeout time.Duration

	// stopping is the broker's. Once it is set, what has arrived is still
	// read, until drainBy at the latest.
	stopping *atomic.Bool
	drainBy  func() time.Time
	draining bool

	buf   []byte // nil while there is nothing to keep
	class int    // of buf
	want  int    // the class that the next buffer should have
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

func (r *reader) init() {
	r.step = r.readStep
	r.class = noClass
}

// release gives the buffer back.
func (r *reader) release() {
	if r.buf != nil && r.class != noClass {
		r.pool.put(r.buf, r.class)
	}
	r.buf, r.class = nil, noClass
	r.r, r.w = 0, 0
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
// taken before are overwritten. io.EOF is the peer's close.
func (r *reader) fill() error {
	r.makeRoom()
	for {
		if err := r.arm(); err != nil {
			return err
		}
		r.n, r.err = 0, nil
		err := r.raw.Read(r.step)
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
		r.buf, r.class = r.pool.get(r.want)
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
			return false
		case err != nil:
			r.err = os.NewSyscallError("read", err)
		case n == 0:
			r.err = io.EOF
		default:
			r.n = n
			r.adapt(n)
		}
		return true
	}
}

// adapt chooses the class of the next buffer from how much this one was filled.
func (r *reader) adapt(n int) {
	const patience = 32
	switch free := len(r.buf) - r.w; {
	case n == free && r.class >= r.want:
		r.want, r.small = min(r.want+1, bufferClasses-1), 0
	case r.want > 0 && n < classSize(r.want)/16:
		if r.small++; r.small == patience {
			r.want, r.small = r.want-1, 0
		}
	default:
		r.small = 0
	}
}

// makeRoom moves what is left of the buffer to its front and, when it should
// be larger, into a larger buffer.
func (r *reader) makeRoom() {
	if r.buf == nil {
		return
	}
	left := r.w - r.r
	if left > 0 && r.r > 0 {
		copy(r.buf, r.buf[r.r:r.w])
	}
	r.r, r.w = 0, left
	switch {
	case left == len(r.buf):
		r.grow()
	case r.class == noClass && left >= largestBuffer:
		// The rest of it is needed still.
	case r.class != r.want && left < classSize(r.want)/2:
		// The pool may give a smaller one than was asked for.
		if b, class := r.pool.get(r.want); class != r.class && left < len(b)/2 {
			r.move(b, class)
		} else {
			r.pool.put(b, class)
		}
	}
}

// grow makes room behind a request that fills the whole buffer.
func (r *reader) grow() {
	if r.class != noClass && r.class+1 < bufferClasses {
		if b, class := r.pool.get(r.class + 1); class > r.class {
			r.want = max(r.want, class)
			r.move(b, class)
			return
		} else {
			r.pool.put(b, class)
		}
	}
	// Never more than twice what has arrived, whatever the size field says.
	size := wire.SizeSize
	if n, err := wire.FrameSize(r.buf, wire.TypeSize, r.maxRequest); err == nil {
		size = n
	}
	r.move(make([]byte, max(len(r.buf)+1, min(2*len(r.buf), size))), noClass)
}

// move takes a buffer with what has been read.
func (r *reader) move(b []byte, class int) {
	w := copy(b, r.buf[:r.w])
	r.release()
	r.buf, r.class, r.w = b, class, w
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

// interrupt ends a read that waits, from any goroutine.
func (r *reader) interrupt() { _ = r.tcp.SetReadDeadline(time.Unix(1, 0)) }
