package broker

// Sizes of read buffers, in bytes.
const (
	smallestBuffer = 16 << 10
	// largestBuffer has room for a set of 1 MiB and the request around it.
	largestBuffer = 1<<20 + 8<<10
	bufferClasses = 4
	copyClass     = 2 // what the copy path of a fetch moves at once
	// noClass marks a buffer that was made for one request.
	noClass = -1
)

// classSize is the size of the buffers of a class.
func classSize(class int) int {
	return [bufferClasses]int{smallestBuffer, 64 << 10, 256 << 10, largestBuffer}[class]
}

// classFor is the class whose buffers hold n bytes, at most largestBuffer.
func classFor(n int) int {
	class := 0
	for classSize(class) < n {
		class++
	}
	return class
}

// home says where the memory of a buffer comes from.
type home int8

const (
	noHome home = iota // there is no buffer
	inHeap             // always of the smallest class
	inArena
	inMapping // of its own
)

// buffer is memory that a connection reads into or copies through. The zero
// value is none.
type buffer struct {
	b       []byte
	home    home
	class   int
	first   int // its first unit in the arena
	counted int // of a mapping: how many of its bytes may be used so far
}

// usable is the part of the buffer that may be used.
func (b *buffer) usable() []byte {
	if b.home == inMapping {
		return b.b[:b.counted]
	}
	return b.b
}
