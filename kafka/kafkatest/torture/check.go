package torture

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// maxProblems bounds what a report lists.
const maxProblems = 50

// Crash is what went wrong before a check.
type Crash int

const (
	// Killed: the process died; what it had written, the kernel still has.
	Killed Crash = iota
	// PowerLost: what was not flushed may be gone.
	PowerLost
)

// CheckOptions says what a broker may have done.
type CheckOptions struct {
	Crash Crash
	// VisibleAppended says that the broker shows messages before they are
	// flushed, so that a loss of power may take back what was seen.
	VisibleAppended bool
	// Retention says that the beginning of a log may be gone.
	Retention bool
	// RetentionBytes is the size of log that retention must leave, if the process
	// was killed and not the power lost.
	RetentionBytes int64
}

// Counts are messages of one level.
type Counts struct {
	Sent  int64 // handed to the network, or about to be
	Acked int64
	Found int64
	// Removed were below the start of the log at the check, or may have been.
	Removed   int64
	Lost      int64 // the rest
	LostAcked int64 // those of Lost that were acknowledged
}

// Report is what checks have found.
type Report struct {
	Levels   [levels]Counts
	Checks   int
	Messages int64 // compared, old and new
	Seen     int64 // by consumers
	Trims    int   // logs whose beginning was gone, by retention
	// Problems are broken promises, [maxProblems] at most.
	Problems []string
}

// Err returns the broken promises, or nil.
func (r Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.Problems, "\n"))
}

// Add adds what another check has found.
func (r *Report) Add(o Report) {
	for i := range r.Levels {
		a, b := &r.Levels[i], o.Levels[i]
		a.Sent += b.Sent
		a.Acked += b.Acked
		a.Found += b.Found
		a.Removed += b.Removed
		a.Lost += b.Lost
		a.LostAcked += b.LostAcked
	}
	r.Checks += o.Checks
	r.Messages += o.Messages
	r.Seen += o.Seen
	r.Trims += o.Trims
	for _, p := range o.Problems {
		r.problem("%s", p)
	}
}

// String returns what each level of acknowledgement has lost.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d checks, %d messages compared, %d seen by consumers, %d logs shortened by retention, %d broken promises\n",
		r.Checks, r.Messages, r.Seen, r.Trims, len(r.Problems))
	fmt.Fprintf(&b, "%-9s %10s %10s %10s %10s %10s %18s\n", "acks", "sent", "acked", "found", "removed", "lost", "acked, but lost")
	for level, c := range r.Levels {
		fmt.Fprintf(&b, "%-9v %10d %10d %10d %10d %10d %18d\n", Level(level), c.Sent, c.Acked, c.Found, c.Removed, c.Lost, c.LostAcked)
	}
	return b.String()
}

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check compares what a broker has after a crash with what was promised before
// it, and takes what is there for promised from now on.
func (l *Ledger) Check(s Snapshot, o CheckOptions) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Checks: 1}
	for _, p := range l.problems {
		r.problem("before the crash: %s", p)
	}
	l.checkTopics(&r, s)
	for p, h := range l.history {
		log, ok := s.Logs[p]
		if !ok {
			r.problem("%v is gone", p)
			continue
		}
		c := &partitionCheck{ledger: l, report: &r, options: o, name: p, log: log, history: h}
		c.run()
		h.first, h.end, h.messages = log.First, log.End, log.Messages
	}
	l.problems, l.readings = nil, nil
	clear(l.streams)
	l.settled = l.last
	return r
}

// checkTopics compares the topics. One of which it was not known whether it is
// there is known from now on.
func (l *Ledger) checkTopics(r *Report, s Snapshot) {
	for name, n := range s.Topics {
		f := l.topics[name]
		switch {
		case f == nil:
			r.problem("topic %s with %d partitions was never made", name, n)
		case f.gone:
			r.problem("topic %s with %d partitions is back: its deletion was answered", name, n)
		case f.partitions != 0 && f.partitions != n:
			r.problem("topic %s has %d partitions, it was created with %d", name, n, f.partitions)
		default:
			f.partitions = n
		}
	}
	for name, f := range l.topics {
		if _, there := s.Topics[name]; there {
			continue
		}
		if f.partitions != 0 {
			r.problem("topic %s is gone: it was created with %d partitions", name, f.partitions)
		}
		delete(l.topics, name)
	}
}

// partitionCheck is the check of one partition.
type partitionCheck struct {
	ledger  *Ledger
	report  *Report
	options CheckOptions
	name    TopicPartition
	log     Log
	history *history
}

func (c *partitionCheck) problem(format string, args ...any) {
	c.report.problem("%v: %s", c.name, fmt.Sprintf(format, args...))
}

func (c *partitionCheck) run() {
	c.report.Messages += int64(len(c.log.Messages))
	for _, p := range c.log.Problems {
		c.report.problem("%s", p)
	}
	if c.log.LogEnd != c.log.End {
		c.problem("the log ends at %d after recovery, and only %d of it are visible", c.log.LogEnd, c.log.End)
	}
	c.checkStart()
	c.checkNew(c.checkOld())
	for _, r := range c.ledger.readings {
		if r.Partition == c.name {
			c.checkReading(r)
		}
	}
}

// checkStart looks at what retention has removed.
func (c *partitionCheck) checkStart() {
	first := c.log.First
	if first > c.history.first {
		c.report.Trims++
	}
	switch {
	case first == c.history.first:
	case first < c.history.first && c.options.Retention:
		// Retention shows the end of a segment before it removes the file, and the
		// crash came between the two.
	case first < c.history.first:
		c.problem("the log starts at %d, and did at %d before", first, c.history.first)
	case !c.options.Retention:
		c.problem("the log starts at %d, and did at %d before: nothing may remove messages", first, c.history.first)
	case c.options.Crash == Killed && c.log.End-first < c.options.RetentionBytes:
		c.problem("retention has left %d bytes, from %d to %d; %d must stay", c.log.End-first, first, c.log.End, c.options.RetentionBytes)
	}
}

// checkOld looks whether what the last check has found is there still, and
// returns the messages behind it.
func (c *partitionCheck) checkOld() []Found {
	h := c.history
	kept := h.messages[firstFrom(h.messages, c.log.First):]
	if c.log.End < h.end {
		c.problem("the log ends at %d; before, %d was flushed", c.log.End, h.end)
	}
	messages := c.log.Messages[firstFrom(c.log.Messages, h.first):] // those before it are back
	for i, want := range kept {
		if i == len(messages) {
			c.problem("%d messages are gone from %v on; they were there after the last recovery", len(kept)-i, want)
			return nil
		}
		if got := messages[i]; got != want {
			c.problem("%v stands where after the last recovery there was %v", got, want)
			return c.log.Messages[firstFrom(c.log.Messages, h.end):]
		}
	}
	return messages[len(kept):]
}

// firstFrom returns the index of the first message at or above an offset.
func firstFrom(list []Found, offset int64) int {
	return sort.Search(len(list), func(i int) bool { return list[i].Offset >= offset })
}

// checkNew looks at the messages since the last check: those of each stream, in
// their order.
func (c *partitionCheck) checkNew(messages []Found) {
	byStream := map[uint32][]Found{}
	for _, f := range messages {
		switch s := c.ledger.streams[f.Stream]; {
		case f.Stream == 0: // a problem already
		case f.Stream <= c.ledger.settled:
			c.problem("%v appears, which was not there after the last recovery", f)
		case s == nil || s.Partition != c.name || f.Sequence >= s.next:
			c.problem("%v was never sent here", f)
		default:
			byStream[f.Stream] = append(byStream[f.Stream], f)
		}
	}
	for number, s := range c.ledger.streams {
		if s.Partition == c.name {
			c.checkStream(s, byStream[number])
		}
	}
}

// checkStream looks at what was found of one stream.
func (c *partitionCheck) checkStream(s *Stream, found []Found) {
	left := found
	for _, set := range s.sets {
		n := 0
		for n < len(left) && left[n].Sequence < set.first+set.count {
			if want := set.first + uint32(n); left[n].Sequence != want {
				c.problem("%v is there twice or out of order: message %d of the stream was expected", left[n], want)
				return
			}
			n++
		}
		begun := len(left) < len(found) // something of the stream is there, before this set
		c.checkSet(s, set, left[:n], begun, left[n:])
		left = left[n:]
	}
	if len(left) > 0 {
		c.problem("%v is there twice or out of order", left[0])
	}
}

// checkSet looks at what was found of one set: all of it, or nothing, or, at the
// end of the log, a part. begun says that something before it in its stream is
// there, and behind is what is there of the stream behind it.
func (c *partitionCheck) checkSet(s *Stream, set sentSet, found []Found, begun bool, behind []Found) {
	counts := &c.report.Levels[s.Level]
	counts.Sent += int64(set.count)
	counts.Found += int64(len(found))
	if set.fate == acked {
		counts.Acked += int64(set.count)
	}
	what := fmt.Sprintf("set of messages %d to %d of stream %d (acks %v)", set.first, set.first+set.count-1, s.number, s.Level)
	placed := set.fate == acked && s.Level >= Appended
	missing := int64(set.count) - int64(len(found))
	if len(found) > 0 {
		first, last := found[0], found[len(found)-1]
		switch {
		case placed && (first.Offset != set.base || missing == 0 && last.Next != set.end):
			c.problem("%s was acknowledged at offset %d to %d, and is at %d to %d", what, set.base, set.end, first.Offset, last.Next)
		case missing > 0 && last.Next != c.log.End:
			c.problem("%s is there in part, %d messages of it, and not at the end of the log", what, len(found))
		case missing > 0 && placed && !c.mayLose(s.Level):
			c.problem("%s was acknowledged at offset %d to %d, and is there in part only, to %d", what, set.base, set.end, last.Next)
		}
	}
	if missing == 0 {
		return
	}
	// Retention may have taken the beginning of what is new.
	headMayBeGone := c.log.First > c.history.end
	switch {
	case placed && set.base < c.log.First && headMayBeGone:
		counts.Removed += missing
		return
	case placed && set.base < c.log.End && len(found) == 0:
		c.problem("%s was acknowledged at offset %d to %d, and is not there: the log goes from %d to %d", what, set.base, set.end, c.log.First, c.log.End)
	case placed && !c.mayLose(s.Level) && len(found) == 0:
		c.problem("%s was acknowledged at offset %d to %d, and is lost: the log ends at %d", what, set.base, set.end, c.log.End)
	case !placed && headMayBeGone && !begun && len(found) == 0:
		counts.Removed += missing
		return
	case len(behind) > 0 && set.fate != refused:
		c.problem("%s is missing, %v behind it is there", what, behind[0])
	}
	counts.Lost += missing
	if set.fate == acked {
		counts.LostAcked += missing
	}
}

// mayLose says whether what was acknowledged at a level may be lost.
func (c *partitionCheck) mayLose(level Level) bool {
	return level <= Received || level == Appended && c.options.Crash == PowerLost
}

// checkReading looks whether what a consumer has seen is there.
func (c *partitionCheck) checkReading(r *Reading) {
	c.report.Seen += int64(len(r.seen))
	if c.options.Crash == PowerLost && c.options.VisibleAppended {
		// What was flushed is there by the other checks. The rest may be gone.
		return
	}
	at := 0
	for _, f := range r.seen {
		if f.Offset < c.log.First {
			continue
		}
		if at == len(c.log.Messages) || c.log.Messages[at].Offset < f.Offset {
			at += firstFrom(c.log.Messages[at:], f.Offset)
		}
		if at == len(c.log.Messages) {
			c.problem("a consumer has seen %v, and the log ends at %d", f, c.log.End)
			return
		}
		if got := c.log.Messages[at]; got != f {
			c.problem("a consumer has seen %v, where there is %v", f, got)
			return
		}
		at++
	}
}
