package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

// segment is one file of a log. Whoever uses the file holds the segment: while
// somebody does, the file is open. The log itself holds its active segment, the
// last one. A closed segment, one behind which there is another, is held between
// two reads only as long as [openFiles] finds that worth a descriptor, and its
// file is opened again when it is read.
type segment struct {
	base int64 // offset of its first byte
	path string

	file vfs.File     // set while refs is above 0
	refs atomic.Int64 // holders; at 0 the file is closed
	used atomic.Bool  // read again since openFiles looked last

	// shortened says that it was cut, and no sync has covered that. It is the
	// segment's, as a sync that began before a roll may still come to its turn.
	shortened atomic.Bool

	// suspect says that its file did not give what is in the log: what is read
	// from it is tried before it is answered with.
	suspect atomic.Bool

	first, last moment // of its appends; guarded by the log's mu

	mu    sync.Mutex // opening, and what decides on it
	files *openFiles // nil while it is active
	end   int64      // offset behind its last byte; set before files
	gone  bool       // deleted or closed for good: not to be opened again
	slot  int        // place in files, -1 when it is not held there; guarded by files.mu
}

// errGone says that a segment has left its log.
var errGone = errors.New("segment is gone")

// newSegment returns an active segment, held by its log.
func newSegment(base int64, path string, file vfs.File) *segment {
	s := &segment{base: base, path: path, file: file, slot: -1}
	s.refs.Store(1)
	return s
}

// newClosedSegment returns a closed segment, whose file is opened when somebody
// reads it.
func newClosedSegment(base, end int64, path string, files *openFiles) *segment {
	return &segment{base: base, end: end, path: path, files: files, slot: -1}
}

// acquire holds the segment if its file is open, as that of an active segment
// is.
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

// hold holds the segment and opens its file if need be, or only if there is room
// for it: then the error is [ErrNoRoom]. Other errors are errGone, and that of
// opening. It takes no lock and allocates nothing when the file is open.
func (s *segment) hold(ifRoom bool) error {
	if !s.acquire() {
		return s.open(ifRoom)
	}
	if !s.used.Load() { // mostly is: readers do not fight for its cache line
		s.used.Store(true)
	}
	return nil
}

// open opens the file of a closed segment and holds it. A file that is shorter
// than it was is suspect: somebody has cut it.
func (s *segment) open(ifRoom bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errGone
	}
	if s.acquire() {
		return nil // another reader was faster
	}
	if ifRoom && !s.files.hasRoom() {
		return ErrNoRoom
	}
	file, err := s.files.open(s.path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if info.Size() < s.end-s.base {
		s.suspect.Store(true)
	}
	s.files.opened.Add(1)
	s.file = file   // seen by nobody before refs says that it is there
	s.refs.Store(2) // the caller's and that of files
	s.files.add(s)
	return nil
}

// release lets go of the segment; the last holder closes the file. Its error
// would say nothing that matters: whatever had to be safe was synced before,
// and a sync reports its own.
func (s *segment) release() {
	file := s.file // with refs at 0 another may be opened at once
	if s.refs.Add(-1) == 0 {
		_ = file.Close()
		if s.files != nil { // set for good by now
			s.files.opened.Add(-1)
		}
	}
}

// close makes an active segment a closed one that ends at end: the log's hold
// goes over to files. The caller holds the log's mu.
func (s *segment) close(end int64, files *openFiles) {
	s.mu.Lock()
	s.end, s.files = end, files
	s.mu.Unlock()
	files.opened.Add(1)
	files.add(s)
}

// retire ends a segment that has left its log's list, whose hold ends with it.
// Readers that hold it keep it; nobody can from now on.
func (s *segment) retire() {
	s.mu.Lock()
	s.gone = true
	active := s.files == nil
	s.mu.Unlock()
	if active || s.files.remove(s) {
		s.release()
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

// errInTheWay marks a file that has the name of a segment to be made, and is
// none that an earlier attempt left.
var errInTheWay = errors.New("is in the way")

// createSegment makes the empty segment file of a base offset. A file of that
// name that an earlier, failed attempt left is used if it is empty; with any
// other the error is errInTheWay.
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
	if info.IsDir() || info.Size() != 0 {
		return nil, fmt.Errorf("%s %w and holds %d bytes that this log did not write: move it out of the folder", path, errInTheWay, info.Size())
	}
	return fsys.OpenWrite(path)
}
