package storage

import (
	"errors"
	"io"
)

// Slice is a piece of one segment file: what a fetch answers with. It holds the
// segment open until [Slice.Release], also when the segment is deleted
// meanwhile. It must not be copied and then released twice.
type Slice struct {
	segment  *segment // nil: the slice is empty
	position int64
	length   int
}

// Len returns the number of bytes.
func (s *Slice) Len() int { return s.length }

// Position returns where in the file the slice begins.
func (s *Slice) Position() int64 { return s.position }

// Fd returns the descriptor of the segment file, for sendfile from Position,
// and whether there is one: there is none for an empty slice and for files in
// memory. It is valid until Release.
func (s *Slice) Fd() (uintptr, bool) {
	if s.segment == nil {
		return 0, false
	}
	return s.segment.file.Fd()
}

// ReadAt implements [io.ReaderAt]; off counts from the slice's begin.
func (s *Slice) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(s.length) {
		return 0, io.EOF
	}
	left := int64(s.length) - off
	if int64(len(p)) <= left {
		return s.segment.file.ReadAt(p, s.position+off)
	}
	n, err := s.segment.file.ReadAt(p[:left], s.position+off)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// Release lets go of the segment and empties the slice. Further calls do
// nothing.
func (s *Slice) Release() {
	if s.segment != nil {
		s.segment.release()
	}
	*s = Slice{}
}

// Read returns what can be read from offset on: at most maxBytes, cut at the
// watermark and at the end of the segment, and so usually in the middle of a
// message (Kafka 0.7 §1.4). At the watermark itself it is empty. An offset that
// is not the start of a message is not noticed.
//
// It takes no lock and allocates nothing, unless the segment's file has to be
// opened first: see [Config.OpenSegments]. The error is [ErrOffsetOutOfRange],
// that of opening the file, or [Log.Err] when the log has ended. It is
// [ErrOutOfService] for an offset beyond the watermark that may be visible again
// when the log is back in service: readers must not be led to think that it is
// gone.
func (l *Log) Read(offset int64, maxBytes int) (Slice, error) {
	if maxBytes < 0 {
		return Slice{}, l.errorf("read %d bytes: give 0 or more", maxBytes)
	}
	for {
		end := l.visible.Load() // before the list: see Log
		list := *l.segments.Load()
		if len(list) == 0 {
			return Slice{}, l.Err()
		}
		if s := l.failed.Load(); s != nil && offset > end && offset <= l.logEnd.Load() {
			return Slice{}, s.err
		}
		if offset < list[0].base || offset > end {
			return Slice{}, l.errorf("%w: %d is not within %d to %d", ErrOffsetOutOfRange, offset, list[0].base, end)
		}
		if offset == end {
			return Slice{}, nil
		}
		i := list.find(offset)
		if i+1 < len(list) {
			end = min(end, list[i+1].base)
		}
		switch err := list[i].hold(); {
		case err == nil:
			return Slice{
				segment:  list[i],
				position: offset - list[i].base,
				length:   int(min(end-offset, int64(maxBytes))),
			}, nil
		case !errors.Is(err, errGone): // it has left the list before: look at the new one
			return Slice{}, l.errorf("read at offset %d: %w", offset, err)
		}
	}
}
