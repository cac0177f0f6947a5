package broker

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// anyPartition in a produce request leaves the choice to the broker.
const anyPartition = -1

// group is what the produce requests of one read buffer, as far as they follow
// one another and are for one partition, want to append: checked sets, slid
// together in the buffer.
type group struct {
	log     *storage.Log // nil: there is no group
	metrics *topicMetrics
	topic   []byte // in the read buffer, before start
	number  int32  // of the partition

	start, end int // the sets: buf[start:end] of the read buffer
	messages   int
	silent     bool     // some of it came in requests that have no answer
	acked      []setAck // of those that have one, in order
}

// setAck is the answer that a set of the group waits for.
type setAck struct {
	start, end int // the set, relative to the group's first byte
	acks       wire.Acks
	deadline   time.Time
}

// movedBytes is the size from which on a set is not moved to the end of a group: one
// more write takes less time, and what has just been checked is still in the
// processor's second cache when it is written.
const movedBytes = 64 << 10

// leaves reports whether a set is to begin a group of its own.
func (g *group) leaves(set []byte) bool { return g.end > g.start && len(set) >= movedBytes }

func (g *group) reset() { *g = group{acked: g.acked[:0]} }

func (c *conn) produce(body []byte, pos int) error {
	p, err := wire.ParseProduce(body)
	if err != nil {
		return c.badFrame(err)
	}
	return c.produceSilent(&p, pos+produceHeader(&p))
}

func (c *conn) multiProduce(body []byte, pos int) error {
	var err error
	if c.produces, err = wire.ParseMultiProduce(c.produces[:0], body); err != nil {
		return c.badFrame(err)
	}
	pos += 2 // the count
	for i := range c.produces {
		p := &c.produces[i]
		pos += produceHeader(p)
		if err := c.produceSilent(p, pos); err != nil {
			return err
		}
		pos += len(p.Set)
	}
	return nil
}

// produceHeader is the size of what precedes the set in a Produce body.
func produceHeader(p *wire.Produce) int { return 2 + len(p.Topic) + 4 + 4 }

// produceSilent adds a set that no answer is given for. The only sign that it
// was refused is the close of the connection; a set that holds too large a
// message, as it is or decompressed, is dropped without one (Kafka 0.7.2).
func (c *conn) produceSilent(p *wire.Produce, pos int) error {
	if err := c.joinGroup(p); err != nil {
		return err
	}
	_, err := c.addSet(p, pos)
	if err == nil {
		c.group.silent = true
		return nil
	}
	c.srv.metrics.failedProduce.Inc()
	if errors.Is(err, message.ErrTooLarge) {
		c.srv.oversizedLog.log(c.log, slog.LevelWarn, "message set dropped", append(place(p.Topic, p.Partition), "error", err)...)
		return nil
	}
	err = fmt.Errorf("produce to topic %.60q partition %d: %w", p.Topic, p.Partition, err)
	if errors.Is(err, errNoLog) {
		return err // it has been logged
	}
	return &refusedError{err: err, where: place(p.Topic, p.Partition)}
}

func (c *conn) ackedProduce(body []byte, pos int) error {
	p, err := wire.ParseAckedProduce(body)
	if err != nil {
		return c.badFrame(err)
	}
	deadline := time.Time{}
	if p.Acks == wire.AcksFlushed || p.Acks == wire.AcksOrdered {
		deadline = time.Now().Add(time.Duration(p.TimeoutMs) * time.Millisecond)
	}
	start := 0
	if badArgument(&p) {
		err = errBadArgument
	} else {
		if err := c.joinGroup(&p.Produce); err != nil {
			return err
		}
		start, err = c.addOrdered(&p, pos+produceHeader(&p.Produce))
	}
	if err != nil {
		c.srv.metrics.failedProduce.Inc()
		// Earlier sets must be answered first.
		if err := c.flushGroup(); err != nil {
			return err
		}
		c.notAppended(p.Acks)
		return c.answerAcked(pendingAnswer{code: appendCode(err), where: nowhere})
	}
	g := &c.group
	g.acked = append(g.acked, setAck{start: start - g.start, end: g.end - g.start, acks: p.Acks, deadline: deadline})
	if len(g.acked) >= maxPendingAnswers {
		return c.flushGroup()
	}
	return nil
}

// addOrdered is addSet of a set that, with wire.AcksOrdered, must not be appended without
// those before it.
func (c *conn) addOrdered(p *wire.AckedProduce, pos int) (start int, err error) {
	if p.Acks != wire.AcksOrdered {
		return c.addSet(&p.Produce, pos)
	}
	if c.orderEnds || c.ordered != nil && c.srv.logs.Lookup(p.Topic, p.Partition) != c.ordered {
		return 0, errNotInOrder
	}
	if start, err = c.addSet(&p.Produce, pos); err == nil {
		c.ordered = c.group.log
	}
	return start, err
}

// notAppended notes that a set with these acks is not appended.
func (c *conn) notAppended(acks wire.Acks) {
	c.orderEnds = c.orderEnds || acks == wire.AcksOrdered
}

// badArgument reports whether a request makes no sense, whatever the log holds.
func badArgument(p *wire.AckedProduce) bool {
	return p.Acks < wire.AcksReceived || p.Acks > wire.AcksOrdered || p.TimeoutMs < 0 || p.Partition == anyPartition
}

var (
	errBadArgument = errors.New("bad argument")
	errNotInOrder  = errors.New("one before it is not in the log")
	errNoLog       = errors.New("no log")
	nowhere        = wire.AckedRange{Base: -1, Next: -1}
)

// joinGroup flushes the group if the set of p does not join it, and puts
// the broker's choice into p when that is left to it. An error is that of the
// flush, not of p: the connection must be closed, as what was lost may have had
// no answer of its own.
func (c *conn) joinGroup(p *wire.Produce) error {
	if p.Partition == anyPartition {
		p.Partition = rand.Int32N(c.srv.logs.Partitions(p.Topic))
	}
	g := &c.group
	if g.log != nil && p.Partition == g.number && bytes.Equal(p.Topic, g.topic) && !g.leaves(p.Set) {
		return nil
	}
	return c.flushGroup()
}

// addSet checks the set of p, which lies at position pos of the read buffer,
// and adds it to the group, which joinGroup has prepared. It returns the
// position where the set now lies. After an error nothing of it is in the group.
func (c *conn) addSet(p *wire.Produce, pos int) (start int, err error) {
	g := &c.group
	made := false
	if g.log == nil {
		log := c.srv.logs.Lookup(p.Topic, p.Partition)
		if made = log == nil; made {
			log, err = c.srv.make(p.Topic, p.Partition)
		}
		if err != nil && !errors.Is(err, storage.ErrTopicName) && !errors.Is(err, storage.ErrWrongPartition) {
			c.storageFailed("make partition", p.Topic, p.Partition, err)
			return 0, fmt.Errorf("%w: %w", errNoLog, err)
		}
		if err != nil {
			return 0, err
		}
		g.log, g.metrics = log, c.srv.metrics.topic(log)
		g.topic, g.number = p.Topic, p.Partition
	}
	valid, messages, err := c.check(p.Set)
	if err != nil {
		return 0, err
	}
	if made {
		c.makeAhead()
	}
	if g.start == g.end {
		g.start, g.end = pos, pos
	}
	start = g.end
	if start != pos {
		copy(c.in.buf[start:], p.Set[:valid])
	}
	g.end += valid
	g.messages += messages
	return start, nil
}

// check looks at a set that is to be appended, see [message.Check].
func (c *conn) check(set []byte) (valid, messages int, err error) {
	return message.Check(set, message.Limits{
		MaxPayload: c.srv.cfg.MaxMessageBytes, MaxDecompressed: c.srv.cfg.MaxDecompressedBytes,
	})
}

// flushGroup appends the group, if there is one, and gives its answers. It
// returns an error when the connection must be closed.
func (c *conn) flushGroup() error {
	g := &c.group
	if g.log == nil {
		return nil
	}
	defer g.reset()
	at, err := c.appendGroup()
	if err != nil {
		c.srv.metrics.failedProduce.Inc()
		c.storageFailed("append", g.topic, g.number, err)
	}
	if err := c.answerGroup(at, err); err != nil {
		return err
	}
	if err != nil {
		if g.silent {
			return fmt.Errorf("append to topic %q partition %d: %w", g.topic, g.number, err)
		}
		return nil
	}
	if !at.FlushDue {
		return nil
	}
	// The count of the flush rule is reached. Other connections go on, but
	// what follows on this one finds its messages visible.
	if err := c.sendGathered(); err != nil {
		return err
	}
	if err := g.log.WaitAppended(c.ctx, at); errors.Is(err, storage.ErrNoSuchTopic) {
		return nil // deleted meanwhile, and these messages with it
	} else if err != nil {
		c.storageFailed("flush", g.topic, g.number, err, "offset", at.Next)
		return fmt.Errorf("flush of topic %q partition %d: %w", g.topic, g.number, err)
	}
	return nil
}

// remakes is how often a topic is made anew for a group that was deleted each time
// before the group came to its log.
const remakes = 10

// appendGroup hands the group to its log. If the topic was deleted since the
// log was looked up, it is made anew, as if the request had come a moment
// later; but not for ever, as one whose deletion has failed stays as it is, and not for
// sets that are to be behind those that were deleted.
func (c *conn) appendGroup() (storage.Appended, error) {
	g := &c.group
	if g.start == g.end {
		end := g.log.State().LogEnd
		return storage.Appended{Base: end, Next: end}, nil
	}
	sets := c.in.buf[g.start:g.end]
	at, err := g.log.Append(sets, g.messages)
	for range remakes {
		if !errors.Is(err, storage.ErrNoSuchTopic) || g.log == c.ordered {
			break
		}
		// Not Lookup: while the deletion is under way that gives the old log.
		if g.log, err = c.srv.make(g.topic, g.number); err == nil {
			g.metrics = c.srv.metrics.topic(g.log)
			at, err = g.log.Append(sets, g.messages)
		}
	}
	if err == nil {
		g.metrics.appended(g.messages, len(sets))
	}
	return at, err
}

// answerGroup gives the answers to the sets of the group, which was appended
// at the given place or failed.
func (c *conn) answerGroup(at storage.Appended, failure error) error {
	g := &c.group
	var flush *flushWait
	started := false
	for i := range g.acked {
		s := &g.acked[i]
		a := pendingAnswer{where: nowhere}
		switch {
		case failure != nil:
			a.code = appendCode(failure)
			c.notAppended(s.acks)
		case s.acks == wire.AcksFlushed, s.acks == wire.AcksOrdered:
			if !started {
				flush, started = c.startFlush(g.log, at), true
			}
			a.flush, a.deadline = flush, s.deadline
			fallthrough
		case s.acks == wire.AcksAppended:
			a.where = wire.AckedRange{Base: at.Base + int64(s.start), Next: at.Base + int64(s.end)}
		}
		if err := c.answerAcked(a); err != nil {
			return err
		}
	}
	return nil
}

// appendCode is the error code of the answer to a set that was not appended,
// or not flushed, because of err.
func appendCode(err error) wire.Code {
	switch {
	case errors.Is(err, message.ErrTooLarge):
		return wire.CodeMessageTooLarge
	case errors.Is(err, storage.ErrWrongPartition):
		return wire.CodeWrongPartition
	case errors.Is(err, errBadArgument), errors.Is(err, storage.ErrTopicName):
		return wire.CodeBadArgument
	case errors.Is(err, errNotInOrder):
		return wire.CodeNotInOrder
	case errors.Is(err, storage.ErrOutOfService):
		return wire.CodeOutOfService
	case errors.Is(err, storage.ErrNoSuchTopic):
		return wire.CodeNoSuchTopic // deleted before its flush
	}
	var corrupt *message.CorruptError
	if errors.As(err, &corrupt) {
		return wire.CodeInvalidMessage
	}
	return wire.CodeUnknown
}

// mostAhead is how many partitions a connection makes at once.
const mostAhead = 64

// makeAhead makes the partitions that the produce requests behind the one in hand
// are for, as far as they are in the buffer: all together, as the disk takes little
// longer for many than for one. A producer that begins to spread over a thousand
// partitions would wait for it a thousand times. It makes none that those requests
// would not make themselves, unless what is inside a compressed message ends the
// connection before, and what fails here they meet again.
func (c *conn) makeAhead() {
	var missing []wire.Produce
	ahead := c.in // a copy, as the requests are still to be taken
	for len(missing) < mostAhead {
		t, body, _, err := ahead.next()
		if err != nil || body == nil {
			break
		}
		p, makes, goOn := c.lookAhead(t, body)
		if !goOn {
			break
		}
		same := func(m wire.Produce) bool { return m.Partition == p.Partition && bytes.Equal(m.Topic, p.Topic) }
		if makes && !slices.ContainsFunc(missing, same) {
			missing = append(missing, p)
		}
	}
	var made sync.WaitGroup
	for _, p := range missing {
		made.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					_ = c.broken(p) // the request itself ends the connection
				}
			}()
			_, _ = c.srv.make(p.Topic, p.Partition)
		})
	}
	made.Wait()
}

// lookAhead returns what a request behind the one in hand is to append, whether that
// makes its partition, and whether the requests behind it are certain to be handled:
// not if it is none that appends to one partition, which may delete a topic, say, or
// is refused with the connection.
func (c *conn) lookAhead(t wire.Type, body []byte) (p wire.Produce, makes, goOn bool) {
	answered := false
	switch t {
	case wire.TypeProduce:
		var err error
		if p, err = wire.ParseProduce(body); err != nil {
			return p, false, false
		}
	case wire.TypeAckedProduce:
		a, err := wire.ParseAckedProduce(body)
		if err != nil {
			return p, false, false
		}
		if badArgument(&a) || a.Acks == wire.AcksOrdered { // the latter makes it if all before is in order
			return p, false, true
		}
		p, answered = a.Produce, true
	default:
		return p, false, false
	}
	if p.Partition != anyPartition {
		log, code := c.srv.lookup(p.Topic, p.Partition)
		if code != wire.CodeNone {
			return p, false, answered
		}
		makes = log == nil
	}
	err := c.checkAhead(p.Set)
	return p, makes && err == nil, err == nil || answered || errors.Is(err, message.ErrTooLarge)
}

// checkAhead is check but for what compressed messages hold: they are not opened twice.
func (c *conn) checkAhead(set []byte) error {
	most := c.srv.cfg.MaxMessageBytes
	for rest := set; ; {
		m, size, err := message.Parse(rest)
		switch {
		case err != nil:
			return err
		case size == 0 && len(rest) == len(set) && len(set) > 0:
			return message.ErrIncomplete
		case size == 0:
			return nil
		case most > 0 && len(m.Payload) > most:
			return message.ErrTooLarge
		}
		rest = rest[size:]
	}
}

// make makes the log of a partition, unless somebody has.
func (s *Server) make(topic []byte, partition int32) (*storage.Log, error) {
	log, err := s.logs.Ensure(string(topic), partition)
	if err == nil {
		s.topicWatchers.notify()
	}
	return log, err
}
