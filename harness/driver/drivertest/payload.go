package drivertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// payload fills buf with the n-th message of a queue: its number, and bytes
// that follow from it.
func payload(buf []byte, n int) []byte {
	binary.BigEndian.PutUint64(buf, uint64(n))
	for i := 8; i < len(buf); i++ {
		// All byte values occur, line ends and NUL among them.
		buf[i] = byte(n*31 + i)
	}
	return buf
}

// checker checks that messages come complete and in order.
type checker struct {
	next int
	want []byte
}

func newChecker(payloadBytes int) *checker { return &checker{want: make([]byte, payloadBytes)} }

func (c *checker) check(p []byte) error {
	if !bytes.Equal(p, payload(c.want, c.next)) {
		return fmt.Errorf("message %d has other contents than were sent: %.32x…, wanted %.32x…", c.next, p, c.want)
	}
	c.next++
	return nil
}
