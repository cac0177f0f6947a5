package storage

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"kafkalab/kafka/internal/vfs"
)

// maxOpenSegments is how many closed segments are kept open when nothing else is
// said. Opening a file costs some microseconds and a fetch sends many kilobytes,
// so more would hardly be seen.
const maxOpenSegments = 512

// defaultOpenSegments returns maxOpenSegments, or what the process's limit of
// open files leaves: most of that is for connections and active segments (fault
// B05).
func defaultOpenSegments() int {
	return int(min(max(fileLimit()/8, 1), maxOpenSegments))
}

// openFiles holds closed segments, so that their files stay open between two
// reads. There are at most limit; one more takes the place of one that was not
// read lately: a hand goes round over them and takes the first that nobody has
// read again since it came by last. A read of an open file so costs no more than
// to set a flag, and takes no lock.
//
// Readers keep the files of segments open that were let go of here. Who wants
// several at once asks hasRoom, so that those are not all the files there can be.
type openFiles struct {
	fs    vfs.FS
	limit int

	opened atomic.Int64 // closed segments that are open, here or with readers

	mu   sync.Mutex
	held []*segment // segment.slot is the index
	hand int
}

func newOpenFiles(fsys vfs.FS, limit int) *openFiles {
	return &openFiles{fs: fsys, limit: limit}
}

// open opens a file for reading.
func (f *openFiles) open(path string) (file vfs.File, err error) {
	err = f.makeRoom(func() error {
		file, err = f.fs.Open(path)
		return err
	})
	return file, err
}

// makeRoom does something that opens files. When that fails because the limit of
// open files is reached, it lets go of all segments and tries once more.
func (f *openFiles) makeRoom(do func() error) error {
	err := do()
	if !atFileLimit(err) {
		return err
	}
	f.mu.Lock()
	held := f.held
	f.held = nil
	for _, s := range held {
		s.slot = -1
	}
	f.mu.Unlock()
	if len(held) == 0 {
		return err
	}
	for _, s := range held {
		s.release()
	}
	return do()
}

// atFileLimit reports whether err says that the process or the machine has as
// many files open as it may: nothing that is wrong with a file or a disk.
func atFileLimit(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// add takes over one hold of a segment.
func (f *openFiles) add(s *segment) {
	f.mu.Lock()
	var out *segment
	if len(f.held) >= f.limit {
		out = f.leastUsed()
		f.take(out)
	}
	s.slot = len(f.held)
	f.held = append(f.held, s)
	f.mu.Unlock()
	if out != nil {
		out.release()
	}
}

// hasRoom reports whether one more file can be opened without more than limit
// being open then: there are fewer, or one that nobody reads would be closed for
// it.
func (f *openFiles) hasRoom() bool {
	if int(f.opened.Load()) < f.limit {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.opened.Load()) == f.limit && slices.ContainsFunc(f.held, (*segment).unread)
}

// leastUsed moves the hand to a segment that nobody reads, as the file of another
// would stay open, and that was not used since the hand came by last. There is
// one after two rounds, unless readers keep using all of them. The caller holds
// f.mu, and there are segments.
func (f *openFiles) leastUsed() *segment {
	for range 2 * len(f.held) {
		if f.hand >= len(f.held) {
			f.hand = 0
		}
		if s := f.held[f.hand]; s.unread() && !s.used.Swap(false) {
			return s
		}
		f.hand++
	}
	return f.held[0]
}

// remove gives the hold of a segment back, if it is held here.
func (f *openFiles) remove(s *segment) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.slot < 0 {
		return false
	}
	f.take(s)
	return true
}

// take takes a segment out; the last one takes its place. The caller holds f.mu.
func (f *openFiles) take(s *segment) {
	last := len(f.held) - 1
	f.held[s.slot] = f.held[last]
	f.held[s.slot].slot = s.slot
	f.held[last] = nil
	f.held = f.held[:last]
	s.slot = -1
}

// unread reports whether only openFiles holds the segment.
func (s *segment) unread() bool { return s.refs.Load() == 1 }
