package storage

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Bounds of the part of the limit of open files that partitions leave free.
const (
	minFreeFiles = 20
	maxFreeFiles = 64
)

// fileLimit returns how many files the process may have open.
func fileLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt64 // as good as none: opening a file says what is wrong
	}
	return limit.Cur
}

// partitionLimit returns how many partitions there can be with a limit of open
// files. Each has its active segment open all the time. What is left is for what
// a process has open anyway, for the few files that the recovery of a log opens
// beside it, without which a broker could not start again after a crash, and for
// the first connections (fault B05).
func partitionLimit(files uint64) uint64 {
	return files - min(files, max(minFreeFiles, min(files/8, maxFreeFiles)))
}

// checkFileLimit refuses one more partition beyond [partitionLimit]. The caller
// holds m.mu.
func (m *Manager) checkFileLimit() error {
	partitions := len(m.making)
	for _, t := range *m.table.Load() {
		for _, l := range t.logs {
			if l != nil {
				partitions++
			}
		}
	}
	files := fileLimit()
	if most := partitionLimit(files); uint64(partitions) >= most {
		return fmt.Errorf("%w: %d partitions are there, and of the %d files that may be open a start needs some for itself: raise the limit with ulimit -n above %d, or delete topics",
			ErrFileLimit, partitions, files, files)
	}
	return nil
}

// atFileLimitHint adds to an error of opening partitions what to do about it.
func atFileLimitHint(err error, partitions int) error {
	if !atFileLimit(err) {
		return err
	}
	return fmt.Errorf("%w: %d partitions do not go with the limit of %d open files: raise it with ulimit -n", err, partitions, fileLimit())
}
