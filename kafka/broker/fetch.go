package broker

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// maxAnswerBytes bounds an answer: what its size field can say.
const maxAnswerBytes = math.MaxInt32

// part is the answer to one entry of a fetch.
type part struct {
	code    wire.Code
	slice   storage.Slice // of a segment file; empty unless code is CodeNone
	metrics *topicMetrics // nil when the slice is empty
}

func (c *conn) fetch(body []byte, _ int) error {
	f, err := wire.ParseFetch(body)
	if err != nil {
		return c.badFrame(err)
	}
	c.fetches = append(c.fetches[:0], f)
	c.readParts()
	return c.sendParts(false)
}

func (c *conn) multiFetch(body []byte, _ int) error {
	m, err := wire.ParseMultiFetch(c.fetches[:0], body)
	if err != nil {
		return c.badFrame(err)
	}
	c.fetches = m.Fetches
	c.readParts()
	return c.sendParts(true)
}

// readParts looks up what c.fetches ask for, and leaves it in c.parts.
// sendParts or releaseParts must follow.
//
// An answer keeps the files open that it is sent from, and a peer that does not
// read it keeps the answer. So it holds more than one closed segment only while
// there is room for them; further entries are answered with empty sets, and the
// first of those comes first in the next answer (fault B05).
func (c *conn) readParts() {
	n := len(c.fetches)
	first, closed, full := 0, false, false
	if c.postponed < n {
		first = c.postponed
	}
	c.postponed = 0
	c.parts = slices.Grow(c.parts[:0], n)[:n]
	clear(c.parts)
	left := maxAnswerBytes - wire.CodeSize - n*wire.ResponseHeaderSize
	for k := range n {
		i := (first + k) % n
		p, postponed := c.readPart(&c.fetches[i], left, closed)
		left -= p.slice.Len()
		closed = closed || p.slice.Closed()
		if postponed && !full {
			c.postponed, full = i, true
		}
		c.parts[i] = p
	}
}

// readPart looks one entry up. A log that is not there, for a partition that
// could be, reads as empty, whatever the offset (Kafka 0.7.1): a fetch never
// makes a topic. more says that there is a closed segment in the answer already;
// the entry may be postponed then.
func (c *conn) readPart(f *wire.Fetch, limit int, more bool) (_ part, postponed bool) {
	log, code := c.srv.lookup(f.Topic, f.Partition)
	switch {
	case code != wire.CodeNone:
		return part{code: code}, false
	case f.MaxBytes < 0:
		return part{code: wire.CodeUnknown}, false
	case log == nil:
		return part{}, false
	}
	read := (*storage.Log).Read
	if more {
		read = (*storage.Log).ReadMore
	}
	slice, err := read(log, f.Offset, min(int(f.MaxBytes), limit))
	switch {
	case err == storage.ErrNoRoom:
		return part{}, true
	case err == nil && slice.Len() == 0:
		slice.Release()
		return part{}, false
	case err == nil:
		return part{slice: slice, metrics: c.srv.metrics.topic(log)}, false
	case errors.Is(err, storage.ErrOffsetOutOfRange):
		return part{code: wire.CodeOffsetOutOfRange}, false
	case errors.Is(err, storage.ErrNoSuchTopic):
		return part{}, false // deleted since the lookup
	}
	c.storageFailed("read", f.Topic, f.Partition, err, "offset", f.Offset)
	if errors.Is(err, storage.ErrOutOfService) {
		return part{code: wire.CodeOutOfService}, false
	}
	return part{code: wire.CodeUnknown}, false
}

// lookup finds a partition's log. The log is nil, with no code, when the
// partition could exist and nothing has been written to it.
func (s *Server) lookup(topic []byte, partition int32) (*storage.Log, wire.Code) {
	if log := s.logs.Lookup(topic, partition); log != nil {
		return log, wire.CodeNone
	}
	if message.CheckTopic(string(topic)) != nil {
		return nil, wire.CodeUnknown
	}
	if partition < 0 || partition >= s.logs.Partitions(topic) {
		return nil, wire.CodeWrongPartition
	}
	return nil, wire.CodeNone
}

func (c *conn) releaseParts() {
	for i := range c.parts {
		c.parts[i].slice.Release()
	}
	c.parts = c.parts[:0]
}

// sendParts answers with c.parts and releases them: one answer, or for several
// entries one answer that holds a whole one for each.
func (c *conn) sendParts(several bool) error {
	defer c.releaseParts()
	if several {
		size := 0
		for i := range c.parts {
			size += wire.ResponseHeaderSize + c.parts[i].slice.Len()
		}
		c.gathered = wire.AppendResponseHeader(c.room(wire.ResponseHeaderSize), wire.CodeNone, size)
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.code != wire.CodeNone {
			c.srv.metrics.fetchErrors.Inc()
		}
		c.gathered = wire.AppendResponseHeader(c.room(wire.ResponseHeaderSize), p.code, p.slice.Len())
		if p.slice.Len() == 0 {
			continue
		}
		if err := c.sendSlice(&p.slice); err != nil {
			f := &c.fetches[i]
			err = fmt.Errorf("send %d bytes from offset %d on: %w", p.slice.Len(), f.Offset, err)
			if fromDisk(err) {
				p.slice.Distrust() // the next answer is an error, if this was one
				c.storageFailed("read", f.Topic, f.Partition, err, "offset", f.Offset, "segment", p.slice.Path())
			}
			return err
		}
		p.metrics.sent(p.slice.Len())
	}
	if len(c.gathered) >= sendAt {
		return c.sendGathered()
	}
	return nil
}

// sendSlice sends the gathered answers, the last of which is the header of this
// one, and then the slice. After an error the peer has a part of an answer, so
// that only the end of the connection can tell it.
func (c *conn) sendSlice(s *storage.Slice) error {
	fd, ok := s.Fd()
	if !ok || !c.srv.cfg.Sendfile {
		return c.copySlice(s)
	}
	err := c.out.send(c.gathered, true)
	c.resetGathered()
	if err != nil {
		return err
	}
	if err := c.out.sendFile(fd, s.Position(), s.Len()); err != nil {
		return err
	}
	c.srv.metrics.sentByKernel.Add(float64(s.Len()))
	return nil
}

// copySlice is sendSlice through a buffer of the process.
func (c *conn) copySlice(s *storage.Slice) error {
	space := c.srv.memory.take(&c.holder, copyClass, 0)
	defer c.srv.memory.give(&c.holder, &space)
	buf := space.b
	if len(c.gathered) > len(buf)/2 {
		err := c.out.send(c.gathered, true)
		c.resetGathered()
		if err != nil {
			return err
		}
	}
	w := copy(buf, c.gathered)
	c.resetGathered()
	for sent := 0; sent < s.Len(); {
		n := min(s.Len()-sent, len(buf)-w)
		if got, err := s.ReadAt(buf[w:w+n], int64(sent)); got < n {
			return fmt.Errorf("%w: it gave %d of %d bytes: %w", errSegment, sent+got, s.Len(), err)
		}
		sent += n
		if err := c.out.send(buf[:w+n], sent < s.Len()); err != nil {
			return err
		}
		w = 0
	}
	c.srv.metrics.sentByCopy.Add(float64(s.Len()))
	return nil
}

// errSegment says that a segment file did not give what is in the log.
var errSegment = errors.New("segment file failed")

// fromDisk reports whether a failed sending was the segment file's fault, and
// not that of the connection, of which sendfile does not tell.
func fromDisk(err error) bool {
	for _, e := range []error{errSegment, io.ErrUnexpectedEOF, unix.EIO, unix.EUCLEAN, unix.EBADMSG, unix.ENODATA, unix.ESTALE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
