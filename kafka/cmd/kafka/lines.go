package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineBatches reads lines in batches: as many as are there without waiting, up
// to a number. So a pipe is read in full batches and a terminal line by line.
type lineBatches struct {
	r        *bufio.Reader
	maxLines int
	maxBytes int   // of a line, without its end (inclusive)
	number   int64 // of the last line that was read, from 1
	data     []byte
	ends     []int
	lines    [][]byte
}

func newLineBatches(r io.Reader, maxLines, maxBytes int) *lineBatches {
	return &lineBatches{r: bufio.NewReaderSize(r, 256<<10), maxLines: maxLines, maxBytes: maxBytes}
}

// maxBatchBytes ends a batch early, so that a batch of long lines stays small.
const maxBatchBytes = 1 << 20

// next returns the next lines, without their ends, valid until the next call.
// It waits for the first one. At the end of the input the error is io.EOF; a
// last line without an end counts.
func (b *lineBatches) next() ([][]byte, error) {
	b.data, b.ends, b.lines = b.data[:0], b.ends[:0], b.lines[:0]
	var err error
	for len(b.ends) < b.maxLines && len(b.data) < maxBatchBytes && (len(b.ends) == 0 || b.lineReady()) {
		if err = b.line(); err != nil {
			break
		}
	}
	start := 0
	for _, end := range b.ends {
		b.lines = append(b.lines, b.data[start:end:end])
		start = end
	}
	if len(b.lines) > 0 && errors.Is(err, io.EOF) {
		err = nil // the next call says it
	}
	return b.lines, err
}

// lineReady says whether a whole line is there already.
func (b *lineBatches) lineReady() bool {
	n := b.r.Buffered()
	if n == 0 {
		return false
	}
	waiting, err := b.r.Peek(n)
	return err == nil && bytes.IndexByte(waiting, '\n') >= 0
}

// line appends one line to data.
func (b *lineBatches) line() error {
	start := len(b.data)
	for {
		part, err := b.r.ReadSlice('\n')
		b.data = append(b.data, part...)
		n := len(b.data) - start
		switch {
		case err == nil:
			b.data = b.data[:start+n-1] // the line's end is not the message's
			n--
		case errors.Is(err, io.EOF) && n == 0:
			return io.EOF
		}
		if n > b.maxBytes {
			b.data = b.data[:start]
			return fmt.Errorf("line %d of the input is longer than the %d bytes that a message may have", b.number+1, b.maxBytes)
		}
		if err == nil || errors.Is(err, io.EOF) {
			b.number++
			b.ends = append(b.ends, len(b.data))
			return nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			b.data = b.data[:start]
			return fmt.Errorf("line %d of the input: %w", b.number+1, err)
		}
	}
}
