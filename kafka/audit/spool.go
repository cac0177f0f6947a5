package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"kafkalab/kafka/internal/vfs"
)

// spoolKind begins the file of a spool.
const spoolKind = "kafka-audit-spool-1"

// spool keeps the events of closed windows in a file until they are acknowledged, so
// that they outlive the process. With an empty name it keeps nothing.
type spool struct {
	files vfs.FS
	name  string
	lock  io.Closer

	mu   sync.Mutex
	kept int // events in the file
}

// openSpool takes the file for this process and returns the events that an earlier
// one has left in it.
func openSpool(files vfs.FS, name string) (*spool, []*Event, error) {
	s := &spool{files: files, name: name}
	if name == "" {
		return s, nil, nil
	}
	lock, err := files.Lock(name + lockSuffix)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, nil, fmt.Errorf("audit: spool %s: another producer uses it: give each its own", name)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("audit: spool: %w", err)
	}
	s.lock = lock
	events, err := s.read()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("audit: spool: %w", err), lock.Close())
	}
	s.kept = len(events)
	return s, events, nil
}

func (s *spool) read() ([]*Event, error) {
	content, err := readFile(s.files, s.name, spoolKind)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var events []*Event
	for line := range splitLines(content) {
		e, err := ParseEvent(line)
		if err != nil {
			return nil, fmt.Errorf("%s, event %d: %w", s.name, len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// splitLines gives the lines of a text, without their ends.
func splitLines(text []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		start := 0
		for i, c := range text {
			if c == '\n' {
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
	}
}

// keep replaces what is in the file, payloads of events. Nothing to be kept removes it.
func (s *spool) keep(payloads [][]byte) error {
	if s.name == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(payloads) == 0 {
		if s.kept == 0 {
			return nil
		}
		if err := s.files.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("audit: empty the spool: %w", err)
		}
		s.kept = 0
		return nil
	}
	var content []byte
	for _, p := range payloads {
		content = append(append(content, p...), '\n')
	}
	if err := replaceFile(s.files, s.name, spoolKind, content); err != nil {
		return fmt.Errorf("audit: spool: %w", err)
	}
	s.kept = len(payloads)
	return nil
}

// close gives the file up, and leaves it to the next process.
func (s *spool) close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}
