package broker

import "sync/atomic"

// Sizes of pooled buffers, in bytes. Each class is four times the one before.
const (
	smallestBuffer = 16 << 10
	largestBuffer  = 1 << 20
	bufferClasses  = 4
	copyClass      = 2 // 256 KiB: what the copy path of a fetch moves at once
)

// maxLargeBuffers bounds how many buffers of the largest class are in use at
// once; beyond it a connection reads into the class below. So ten thousand
// busy connections do not claim 10 GiB.
const maxLargeBuffers = 128

// bufferPool keeps buffers that are not in use. It is bounded, and unlike a
// sync.Pool not emptied by the garbage collector, so that a steady load
// allocates nothing. Its methods may be called concurrently.
type bufferPool struct {
	free  [bufferClasses]chan []byte
	large atomic.Int64 // buffers of the largest class in use
}

func newBufferPool() *bufferPool {
	p := &bufferPool{}
	for class, keep := range [bufferClasses]int{256, 64, 32, 16} {
		p.free[class] = make(chan []byte, keep)
	}
	return p
}

// get returns a buffer of the class, or of the one below when too many of the
// largest are in use, and its class, which put wants back.
func (p *bufferPool) get(class int) ([]byte, int) {
	if class == bufferClasses-1 && p.large.Add(1) > maxLargeBuffers {
		p.large.Add(-1)
		class--
	}
	select {
	case b := <-p.free[class]:
		return b, class
	default:
		return make([]byte, classSize(class)), class
	}
}

// put takes a buffer back that get returned with this class.
func (p *bufferPool) put(b []byte, class int) {
	if class == bufferClasses-1 {
		p.large.Add(-1)
	}
	select {
	case p.free[class] <- b:
	default: // enough are kept; the garbage collector takes it
	}
}

func classSize(class int) int { return smallestBuffer << (2 * class) }
