package runner

import (
	"kafkalab/harness/workload"
)

// firstShare is what is added to a run's ID for the first of several producers:
// each has a sequence of its own, and so an ID of its own. What was filled in
// before has the run's, and the warm-up the one behind that.
const firstShare = 2

// shareID is the ID of what a producer sends, of several.
func shareID(runID uint64, producer int) uint64 { return runID + firstShare + uint64(producer) }

// shares checks a queue to which several producers have sent: each one's
// messages by themselves, since nothing says how they follow one another.
type shares struct {
	runID uint64
	sent  []int64             // by each producer
	total int64               // the sum of them
	held  *workload.Checker   // of what was there before
	of    []*workload.Checker // each producer's; nil until something of it has come
}

func newShares(runID uint64, sent []int64) *shares {
	s := &shares{runID: runID, sent: sent, held: workload.NewChecker(runID), of: make([]*workload.Checker, len(sent))}
	for _, n := range sent {
		s.total += n
	}
	return s
}

// Check looks at one payload. One of nobody here counts as foreign, or damaged.
func (s *shares) Check(payload []byte) error {
	if h, ok := workload.Peek(payload); ok {
		if i := h.RunID - s.runID - firstShare; i < uint64(len(s.of)) { // below 0 it is huge
			if s.of[i] == nil {
				s.of[i] = workload.NewChecker(shareID(s.runID, int(i)))
			}
			return s.of[i].Check(payload)
		}
	}
	return s.held.Check(payload)
}

// Result is what was found, if expected messages are in the queue: what every
// producer has sent, and before it the rest.
func (s *shares) Result(expected int64) workload.Result {
	found := s.held.Result(max(expected-s.total, 0))
	for i, c := range s.of {
		if c == nil {
			found.Lost += s.sent[i]
			continue
		}
		found = sum(found, c.Result(s.sent[i]))
	}
	return found
}
