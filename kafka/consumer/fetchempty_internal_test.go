package consumer

import (
	"testing"
	"time"
)

// TestEndOfTheLogIsAskedForAtOnce: the last range came whole, as the log ends where it
// does, and the next one empty. A broker that holds requests back is asked again at once,
// for what is appended next; one that does not is left alone for a while.
func TestEndOfTheLogIsAskedForAtOnce(t *testing.T) {
	for _, noWait := range []bool{false, true} {
		s := &Stream{connects: connects{noWait: noWait}}
		s.moveTo(1000)
		if complete, err := s.take(ask{offset: 1000, maxBytes: 1000}, nil, time.Now()); complete || err != nil || !s.atEnd {
			t.Errorf("no wait %v: complete %v, %v, at the end %v", noWait, complete, err, s.atEnd)
		}
		if quiet := !s.quietUntil.IsZero(); quiet != noWait {
			t.Errorf("no wait %v: the next request is put off: %v", noWait, quiet)
		}
	}
}
