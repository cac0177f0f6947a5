package storage

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"kafkalab/kafka/internal/vfs"
)

// segmentSuffix ends the name of every segment file, and of nothing else.
const segmentSuffix = ".kafka"

// segmentDigits is the length that a base offset is padded to in a file name.
const segmentDigits = 20

// segmentName returns the file name of the segment with a base offset.
func segmentName(base int64) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, base, segmentSuffix)
}

// parseSegmentName returns the base offset in a segment's file name. ok is
// false for files that are no segments; an error means that the name claims to
// be one, but is not as segmentName would write it.
func parseSegmentName(name string) (base int64, ok bool, err error) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false, nil
	}
	base, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 || segmentName(base) != name {
		return 0, true, fmt.Errorf("%s is not named like a segment (%d digits and %s): move it out of the folder", name, segmentDigits, segmentSuffix)
	}
	return base, true, nil
}

// segment is one file of a log. It is open as long as somebody holds it: the
// log itself does from its making to its deletion, a reader while it reads.
type segment struct {
	base int64 // offset of its first byte
	path string
	file vfs.File
	refs atomic.Int64 // holders; at 0 the file is closed for good
}

func newSegment(base int64, path string, file vfs.File) *segment {
	s := &segment{base: base, path: path, file: file}
	s.refs.Store(1)
	return s
}

// acquire holds the segment open. It fails when the segment is closed.
func (s *segment) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release lets go of the segment; the last holder closes the file. Its error
// would say nothing that matters: whatever had to be safe was synced before,
// and a sync reports its own.
func (s *segment) release() {
	if s.refs.Add(-1) == 0 {
		_ = s.file.Close()
	}
}

// segments is the list of a log's segments, by ascending base offset, each
// beginning where the one before ends. A list that was published never changes
// (NetDB'11 §3.1: the broker keeps the first offset of every segment file in
// memory and searches it).
type segments []*segment

// find returns the index of the segment that holds offset: the last one whose
// base is not above it. The caller has made sure that there is one.
func (s segments) find(offset int64) int {
	low, high := 0, len(s) // s[low].base <= offset < s[high].base
	for high-low > 1 {
		if mid := int(uint(low+high) >> 1); s[mid].base <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// createSegment makes the empty segment file of a base offset. A file of that
// name that an earlier, failed attempt left is used if it is empty.
func createSegment(fsys vfs.FS, dir string, base int64) (*segment, error) {
	path := filepath.Join(dir, segmentName(base))
	file, err := fsys.Create(path)
	if isExist(err) {
		file, err = reuseSegment(fsys, path)
	}
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	return newSegment(base, path, file), nil
}

func reuseSegment(fsys vfs.FS, path string) (vfs.File, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() != 0 {
		return nil, fmt.Errorf("%s is in the way and holds %d bytes that this log did not write: move it out of the folder", path, info.Size())
	}
	return fsys.OpenWrite(path)
}
