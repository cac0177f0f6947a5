package main

import (
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"time"
)

// A payload of perf says who sent it, as which one, and when:
//
//	0   "kp", by which others are told from it
//	2   sender, six random bytes
//	8   u64 sequence, from 0
//	16  i64 when it was planned to be sent, ns since the epoch
//	24  u32 CRC-32C of the 24 bytes before and of what follows
//	28  filler
//
// The checksum is not the one of the message format, so that perf does not
// check the broker with the broker's own check.
const (
	perfMark        = "kp"
	perfSumAt       = 24
	perfHeaderBytes = 28
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func perfChecksum(payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli, payload[:perfSumAt])
	return crc32.Update(sum, castagnoli, payload[perfHeaderBytes:])
}

// perfSender makes the payloads of one sender, whose messages stay in order.
type perfSender struct {
	id       [8]byte // with perfMark
	sequence uint64
}

// perfText is what the fillers of compressible payloads are made of: a line as
// of an access log.
const perfText = `GET /in/profile/view?id=4711&trk=nav HTTP/1.1 200 5120 "Mozilla/5.0 (X11; Linux x86_64)" member=1234567 `

// newPerfSender returns a sender, and n payload buffers of a size.
func newPerfSender(n, size int, text bool) (*perfSender, [][]byte) {
	s := &perfSender{}
	rand.Read(s.id[copy(s.id[:], perfMark):]) // never fails
	buffers, x := make([][]byte, n), binary.BigEndian.Uint64(s.id[:])
	for k := range buffers {
		buffers[k] = make([]byte, size)
		copy(buffers[k], s.id[:])
		for i := perfHeaderBytes; i < size; i++ {
			if text {
				buffers[k][i] = perfText[(i-perfHeaderBytes)%len(perfText)]
				continue
			}
			x = x*6364136223846793005 + 1442695040888963407
			buffers[k][i] = byte(x >> 56)
		}
	}
	return s, buffers
}

// next makes the next payload in one of the buffers and returns it.
func (s *perfSender) next(buf []byte, planned time.Time) []byte {
	binary.BigEndian.PutUint64(buf[8:], s.sequence)
	binary.BigEndian.PutUint64(buf[16:], uint64(planned.UnixNano()))
	binary.BigEndian.PutUint32(buf[perfSumAt:], perfChecksum(buf))
	s.sequence++
	return buf
}

// perfContent counts what is wrong with the messages of a partition.
type perfContent struct {
	Lost    int64 `json:"lost"`    // missing between two of a sender
	Doubled int64 `json:"doubled"` // seen before
	Damaged int64 `json:"damaged"` // checksum mismatch
	Foreign int64 `json:"foreign"` // not from perf
}

func (c *perfContent) add(d perfContent) {
	c.Lost += d.Lost
	c.Doubled += d.Doubled
	c.Damaged += d.Damaged
	c.Foreign += d.Foreign
}

// perfCheck checks payloads in the order of a log: a sender's own are in order
// there.
type perfCheck struct {
	perfContent
	next map[uint64]uint64 // sender to the sequence that it goes on with
	// middle says that the log is read from its middle, so that a sender's first
	// message that is seen need not be its first.
	middle bool
}

// payload checks one payload and returns when it was planned to be sent, in ns
// since the epoch, or 0 when it does not say or was seen before.
func (c *perfCheck) payload(b []byte) (plannedNs int64) {
	if len(b) < perfHeaderBytes || string(b[:len(perfMark)]) != perfMark {
		c.Foreign++
		return 0
	}
	if binary.BigEndian.Uint32(b[perfSumAt:]) != perfChecksum(b) {
		c.Damaged++
		return 0
	}
	id, sequence := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	next, seen := c.next[id]
	switch {
	case seen && sequence < next:
		c.Doubled++
		return 0
	case sequence > next && (seen || !c.middle):
		c.Lost += int64(sequence - next)
	}
	c.next[id] = sequence + 1
	return int64(binary.BigEndian.Uint64(b[16:]))
}
