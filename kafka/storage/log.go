package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// Log is the log of one partition. All methods may be called by any number of
// goroutines at the same time.
//
// Locks, in the order in which they are taken:
//
//	filesBusy     removing files from the folder, and the folder itself
//	mu            the tail: appending, rolling, closing; and the list of segments
//	syncMu        one sync at a time, and with it everything that moves the flushed end
//	roundMu       who waits for which sync, and whether the log is being restored
//	watchMu       the watchers
//	segment.mu    opening a closed segment's file
//	openFiles.mu  which files stay open; after segment.mu
//
// Readers take none of them while the file is open. They load the visible end
// first and the list of segments after it: a list that is newer than the end
// still covers it, while an older one might not.
type Log struct {
	topic     string
	partition int32
	dir       string
	cfg       *Config // with what is different for the topic

	mu        sync.Mutex
	unflushed int // messages appended since the last flush began; guarded by mu

	segments atomic.Pointer[segments] // replaced under mu, read by anybody
	logEnd   atomic.Int64             // end of what is appended; stored under mu
	flushed  atomic.Int64             // end of what is flushed; stored under syncMu
	visible  atomic.Int64             // end of what can be read; stored where logEnd or flushed is

	failed atomic.Pointer[stop] // out of service: no appends, no flushes; reads go on, and restore works
	ended  atomic.Pointer[stop] // closed or deleted: no appends; reads end with the list

	refused atomic.Pointer[AppendFailure] // the last append, if it failed while in service; stored under mu

	losses   atomic.Int32    // how often unflushed messages were lost; stored under mu
	troubled chan<- struct{} // told when the log goes out of service; nil: nobody is
	remadeAt int64           // base of the segment file that an attempt to restore left in place; only restore uses it

	syncMu sync.Mutex

	filesBusy chan struct{} // holds something while retention works on the files; see lockFiles
	doomed    []doomedFile  // left the list, still in the folder; guarded by filesBusy

	roundMu     sync.Mutex
	round       *round        // gathers those who wait for the next sync; nil: nobody
	runner      chan struct{} // closed when the goroutine that runs the rounds ends; nil: there is none
	roundsOver  bool          // the log is closing: no further rounds and restorations
	restoration *restoration  // the attempt under way to bring the log back into service; nil: there is none

	watchMu  sync.Mutex
	watchers []*watcher
	watching atomic.Int32 // len(watchers), read without watchMu
}

func newLog(cfg *Config, topic string, partition int32, dir string) *Log {
	l := &Log{topic: topic, partition: partition, dir: dir, cfg: cfg.forTopic(topic), filesBusy: make(chan struct{}, 1)}
	l.segments.Store(&segments{})
	return l
}

// start puts a log into service whose segments end at end and are flushed up to
// flushed. Only that is visible, as the rest may be lost yet.
func (l *Log) start(list segments, flushed, end int64) {
	l.segments.Store(&list)
	l.logEnd.Store(end)
	l.flushed.Store(flushed)
	l.visible.Store(flushed)
}

// Topic returns the name of the topic.
func (l *Log) Topic() string { return l.topic }

// Partition returns the number of the partition, from 0.
func (l *Log) Partition() int32 { return l.partition }

// State describes a log at one moment.
type State struct {
	First     int64 // offset of the first message
	Watermark int64 // exclusive end of what is visible
	Flushed   int64 // exclusive end of what is flushed; the watermark, unless appended messages are visible
	LogEnd    int64 // exclusive end of what is appended
	Segments  int
	Bytes     int64 // from First to LogEnd
}

// State returns the state of the log. Of a log that is closed, deleted, or was
// never fit for service, it is all zeros.
func (l *Log) State() State {
	list := *l.segments.Load() // before the ends: none is below it then
	if len(list) == 0 {
		return State{}
	}
	s := State{Flushed: l.flushed.Load(), Watermark: l.visible.Load()}
	s.LogEnd = l.logEnd.Load()
	s.First = list[0].base
	s.Segments = len(list)
	s.Bytes = s.LogEnd - s.First
	return s
}

// Appended says where a group went.
type Appended struct {
	// Base is the offset of the group's first byte, Next the one behind its
	// last. The k-th set of a group begins at Base plus its start in the group.
	Base, Next int64
	// FlushDue reports that as many messages are unflushed as call for a flush
	// ([Config.FlushMessages]). The caller owes a [Log.WaitAppended] before it
	// handles the next request of the same connection.
	FlushDue bool

	losses int32 // of the log when it was appended
}

// Append appends a group: the complete entries of one or more message sets back
// to back, which the caller has checked with message.Check. messages is their
// number. The group goes to the end of the active segment with one write, so it
// is never split between two segments. An empty group is appended as nothing.
//
// After an error nothing of the group is in the log. The log stays in service,
// for the next attempt to succeed when there is room again, unless the error is
// [ErrOutOfService].
func (l *Log) Append(group []byte, messages int) (Appended, error) {
	l.mu.Lock()
	a, err := l.append(group, messages)
	l.noteAppend(len(group), err)
	l.mu.Unlock()
	if err == nil && l.cfg.Visible == VisibleAppended && a.Next > a.Base {
		l.notify()
	}
	return a, err
}

// AppendFailure is a failed append to a log that is in service.
type AppendFailure struct {
	Err error     // names topic, partition and offset
	At  time.Time // the first since one succeeded

	last time.Duration // when this one failed, by clock.Clock.Elapsed
}

// tellsFor is how long a failed append tells something about the log.
const tellsFor = 5 * time.Minute

// AppendFailure returns how the last append failed, or nil when it succeeded,
// there was none yet, or the log is closed or out of service: then
// [Log.OutOfService] says why. A log whose segment cannot be rolled, say, serves
// what it has and refuses all that is new, until an append succeeds. When nobody
// has tried for five minutes, it is not known what would become of another one, and
// the result is nil too.
func (l *Log) AppendFailure() *AppendFailure {
	f := l.refused.Load()
	if f == nil || l.Err() != nil || l.cfg.Clock.Elapsed()-f.last > tellsFor {
		return nil
	}
	return f
}

// noteAppend keeps the outcome of an append for AppendFailure. The caller holds
// l.mu.
func (l *Log) noteAppend(bytes int, err error) {
	before := l.refused.Load()
	switch {
	case err == nil && (before == nil || bytes == 0):
	case err == nil || l.Err() != nil: // what is told of a log out of service is that
		l.refused.Store(nil)
	case before != nil:
		l.refused.Store(&AppendFailure{Err: err, At: before.At, last: l.cfg.Clock.Elapsed()})
	default:
		l.refused.Store(&AppendFailure{Err: err, At: l.cfg.Clock.Now(), last: l.cfg.Clock.Elapsed()})
	}
}

// append does the work of Append. The caller holds l.mu.
func (l *Log) append(group []byte, messages int) (Appended, error) {
	if err := l.Err(); err != nil {
		return Appended{}, err
	}
	end := l.logEnd.Load()
	if len(group) == 0 {
		return Appended{Base: end, Next: end, losses: l.losses.Load()}, nil
	}
	if end > math.MaxInt64-int64(len(group)) {
		return Appended{}, l.errorf("append %d bytes at offset %d: offsets are used up", len(group), end)
	}
	list := *l.segments.Load()
	active := list[len(list)-1]
	elapsed := l.cfg.Clock.Elapsed()
	if l.rollDue(active, end-active.base, elapsed) {
		var err error
		if active, err = l.roll(list, end); err != nil {
			return Appended{}, err
		}
	}
	position := end - active.base
	if err := writeFull(active.file, group, position); err != nil {
		return Appended{}, l.undoWrite(active, position, err)
	}
	active.last = seenAt(elapsed)
	if position == 0 {
		active.first = active.last
	}
	next := end + int64(len(group))
	l.logEnd.Store(next)
	if l.cfg.Visible == VisibleAppended {
		l.visible.Store(next)
	}
	l.unflushed += messages
	due := l.cfg.FlushMessages > 0 && l.unflushed >= l.cfg.FlushMessages
	return Appended{Base: end, Next: next, FlushDue: due, losses: l.losses.Load()}, nil
}

// writeFull writes all of b at a position and goes on where a short write ended
// (KAFKA-309).
func writeFull(file vfs.File, b []byte, position int64) error {
	for len(b) > 0 {
		n, err := file.WriteAt(b, position)
		if err != nil && !(n > 0 && errors.Is(err, io.ErrShortWrite)) {
			return err
		}
		if n == 0 {
			return io.ErrNoProgress
		}
		b, position = b[n:], position+int64(n)
	}
	return nil
}

// undoWrite cuts the active segment back to where a write began that failed, so
// that nothing torn ever stands before the next append (fault B03). The caller
// holds l.mu.
func (l *Log) undoWrite(active *segment, position int64, cause error) error {
	err := active.file.Truncate(position)
	active.shortened.Store(true) // after it: a sync under way must not clear this
	if err != nil {
		return l.fail(stop{mend: mendCut, err: fmt.Errorf("a write at offset %d failed (%w), and cutting %s back to %d bytes failed too: %w",
			active.base+position, cause, active.path, position, err)})
	}
	return l.errorf("append at offset %d: %w", active.base+position, cause)
}

// end refuses appends that begin from now on; the first cause stays. One under
// way still succeeds, and the next sync covers it.
func (l *Log) end(cause error) {
	l.ended.CompareAndSwap(nil, &stop{err: l.errorf("%w", cause)})
}

// close lets go of the segments. Syncs and readers under way hold theirs. The
// caller has called end before.
func (l *Log) close() {
	l.mu.Lock()
	list := l.segments.Swap(&segments{})
	l.mu.Unlock()
	for _, s := range *list {
		s.retire()
	}
	l.notify()
}

// finish flushes and closes the log. When ctx ends first, the disk hangs: the
// files stay open then, as the write or sync that hangs still uses them.
func (l *Log) finish(ctx context.Context) error {
	l.end(ErrClosed)
	var err error
	if r := l.joinRound(); r != nil {
		// Not WaitFlushed: an append under way may move the end once more.
		select {
		case <-r.done:
			err = r.err
		case <-ctx.Done():
			return l.errorf("not flushed from offset %d to %d: %w", l.flushed.Load(), l.logEnd.Load(), context.Cause(ctx))
		}
	}
	if err := l.endRounds(ctx); err != nil {
		return err
	}
	if err := l.lockFiles(ctx); err != nil {
		return err
	}
	defer l.unlockFiles()
	l.close()
	return err
}

// where names topic and partition in what is logged.
func (l *Log) where() slog.Attr {
	// A group without a name stands for its members.
	return slog.Attr{Value: slog.GroupValue(slog.String("topic", l.topic), slog.Int("partition", int(l.partition)))}
}

// errorf returns an error that names topic and partition.
func (l *Log) errorf(format string, args ...any) error {
	return fmt.Errorf("topic %q partition %d: %w", l.topic, l.partition, fmt.Errorf(format, args...))
}

func isExist(err error) bool { return errors.Is(err, fs.ErrExist) }
