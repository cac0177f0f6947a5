package runner

import (
	"time"

	"kafkalab/results/resultfile"
)

// Update is a piece of news of a run.
type Update struct {
	Attempt resultfile.Attempt // as far as it is known; complete when Ended
	Label   string             // of the system
	Number  int                // of the attempt among Total, from 1
	Total   int
	Phase   Phase
	// Done of Of messages are through in this phase; Of is 0 where a phase has
	// no messages.
	Done, Of int64
	// Left is about how long the rest of the run takes, this attempt included;
	// 0 if all of it has taken longer than was estimated.
	Left time.Duration

	Ended bool   // the attempt is on record
	Kept  bool   // it was on record before, from the run that is resumed
	Note  string // something to be told; nothing else has changed
}

// Progress is told of everything that happens, one call at a time. It must be
// quick.
type Progress func(Update)
