package storage

import "time"

// Hooks tell an observer, such as the metrics of a broker, what happens to the
// logs. Each may be nil. They are called by any number of goroutines at the
// same time, some while a lock of the log is held, so they must neither wait
// nor call anything of this package that takes a lock or works on files.
type Hooks struct {
	// Found is called once by [Open], before the first log is opened, with the
	// number of partition folders, and whether the last stop was clean.
	Found func(folders int, clean bool)
	// Opened is called by [Open] for each log, whether it can be served or not.
	// recovered says that it had to be looked through.
	Opened func(l *Log, recovered bool)
	// Cut is called when bytes were cut off the end of a log, from an offset on,
	// by Open or after a failed flush.
	Cut func(l *Log, offset, bytes int64)
	// Flushed is called after each sync of a segment, with the time that it
	// took and its error.
	Flushed func(l *Log, took time.Duration, err error)
	// Deleted is called when retention has deleted segments, which held so many
	// bytes.
	Deleted func(l *Log, segments int, bytes int64)
}

func (h *Hooks) found(folders int, clean bool) {
	if h.Found != nil {
		h.Found(folders, clean)
	}
}

func (h *Hooks) opened(l *Log, recovered bool) {
	if h.Opened != nil && l != nil {
		h.Opened(l, recovered)
	}
}

func (h *Hooks) cut(l *Log, offset, bytes int64) {
	if h.Cut != nil {
		h.Cut(l, offset, bytes)
	}
}

func (h *Hooks) flushed(l *Log, took time.Duration, err error) {
	if h.Flushed != nil {
		h.Flushed(l, took, err)
	}
}

func (h *Hooks) deleted(l *Log, segments int, bytes int64) {
	if h.Deleted != nil {
		h.Deleted(l, segments, bytes)
	}
}
