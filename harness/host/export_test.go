package host

import "time"

// SetGuardSilence sets how long the remote guards that are started from now on
// wait for a word, and returns what was.
func SetGuardSilence(d time.Duration) (was time.Duration) {
	was, guardSilence = guardSilence, d
	return was
}
