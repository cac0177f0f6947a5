package storage

import (
	"errors"
	"fmt"
	"io"
)

// Slice is a piece of one segment file: what a fetch answers with. It holds the
// segment open until [Slice.Release], also when the segment is deleted
// meanwhile. It must not be copied and then released twice.
type Slice struct {
	segment  *segment // nil: the slice is empty
	position int64
	length   int
	closed   bool
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

// Path returns the path of the segment file, "" for an empty slice.
func (s *Slice) Path() string {
	if s.segment == nil {
		return ""
	}
	return s.segment.path
}

// Closed reports whether the segment is one behind which there is another. Only
// for readers a file of those stays open; that of the last one is open anyway.
func (s *Slice) Closed() bool { return s.closed }

// Distrust says that the segment's file did not give what is in the log. From now
// on, what is read from the segment is tried first; see [Log.Read].
func (s *Slice) Distrust() {
	if s.segment != nil {
		s.segment.suspect.Store(true)
	}
}

// try reads all of the slice and cuts it where its file ends or fails. That it
// does so at its begin is an error.
func (s *Slice) try() error {
	buf := make([]byte, min(s.length, tryBytes))
	for n := 0; n < s.length; {
		want := min(len(buf), s.length-n)
		got, err := s.ReadAt(buf[:want], int64(n))
		if n += got; got == want {
			continue
		}
		if n > 0 {
			s.length = n
			return nil
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("segment %s does not give what is in the log from its byte %d on: put the right file back, or examine it with kafka log verify: %w",
			s.segment.path, s.position, err)
	}
	return nil
}

// tryBytes is how much of a suspect segment is read at once.
const tryBytes = 64 << 10

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
// opened first, see [Config.OpenSegments], or is suspect: it is shorter than it
// was, or [Slice.Distrust] was called. What a suspect file does not give is an
// error that names the file, and the slice ends before it.
//
// The error is [ErrOffsetOutOfRange],
// that of opening the file, or [Log.Err] when the log has ended. It is
// [ErrOutOfService] for an offset beyond the watermark that may be visible again
// when the log is back in service: readers must not be led to think that it is
// gone.
func (l *Log) Read(offset int64, maxBytes int) (Slice, error) {
	return l.read(offset, maxBytes, false)
}

// ReadMore is Read for who holds slices of closed segments already. It fails with
// [ErrNoRoom] when a further one would have to be opened, and more than
// [Config.OpenSegments] would be open then: who does not release what it holds
// would else take all files that the process may open (fault B05).
func (l *Log) ReadMore(offset int64, maxBytes int) (Slice, error) {
	return l.read(offset, maxBytes, true)
}

func (l *Log) read(offset int64, maxBytes int, ifRoom bool) (Slice, error) {
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
		closed := i+1 < len(list)
		if closed {
			end = min(end, list[i+1].base)
		}
		err := list[i].hold(ifRoom)
		if err == nil {
			slice := Slice{
				segment:  list[i],
				position: offset - list[i].base,
				length:   int(min(end-offset, int64(maxBytes))),
				closed:   closed,
			}
			if !list[i].suspect.Load() {
				return slice, nil
			}
			if err = slice.try(); err == nil {
				return slice, nil
			}
			slice.Release()
		}
		switch {
		case err == ErrNoRoom:
			return Slice{}, err // not worth an allocation
		case !errors.Is(err, errGone): // it has left the list before: look at the new one
			return Slice{}, l.errorf("read at offset %d: %w", offset, err)
		}
	}
}
