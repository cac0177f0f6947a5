package producer

import "encoding/binary"

// A producer of a cluster keeps the keys of what it has not written yet beside it,
// so that another partition can be chosen for it. For each request there is a
// frame, of a length of 4 bytes and entries, in the order of its messages; each
// entry is the length of a key, the key, and how many messages have it. A request
// of messages without keys has an empty frame.

const keysHeader = 4

// beginKeys begins the frame of a request; endKeys ends it.
func beginKeys(dst []byte) []byte { return append(dst, 0, 0, 0, 0) }

// endKeys ends the frame that begins at start and reaches to the end.
func endKeys(b []byte, start int) {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-keysHeader))
}

// appendKey appends the entry of a key that so many messages have.
func appendKey(dst, key []byte, messages int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	return binary.AppendUvarint(dst, uint64(messages))
}

// nextKeys takes the entries of the first request off.
func nextKeys(b []byte) (entries, rest []byte) {
	end := keysHeader + int(binary.BigEndian.Uint32(b))
	return b[keysHeader:end], b[end:]
}

// skipKeys leaves the frames of n requests out.
func skipKeys(b []byte, n int) []byte {
	for ; n > 0 && len(b) > 0; n-- {
		_, b = nextKeys(b)
	}
	return b
}

// nextKey takes the first entry off.
func nextKey(b []byte) (key []byte, messages int, rest []byte) {
	size, n := binary.Uvarint(b)
	key, b = b[n:n+int(size)], b[n+int(size):]
	count, n := binary.Uvarint(b)
	return key, int(count), b[n:]
}
