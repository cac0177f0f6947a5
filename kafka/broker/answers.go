package broker

import (
	"time"

	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// maxPendingAnswers bounds the answers of one connection that wait for a
// flush. At the bound its requests are no longer read.
const maxPendingAnswers = 1024

// flushWait is one group's wait for its flush.
type flushWait struct {
	done chan struct{} // closed when err is set
	err  error
}

// pendingAnswer is an answer to an AckedProduce in the answerer's queue.
type pendingAnswer struct {
	code  wire.Code
	where wire.AckedRange
	// flush is nil for an answer that is ready, and only waits for its turn.
	flush    *flushWait
	deadline time.Time
	began    time.Time // when the request was read
}

// startFlush begins to wait for what was appended to be flushed, which
// starts a flush or joins one. The wait ends with the connection. It returns
// nil when that is flushed already.
func (c *conn) startFlush(log *storage.Log, at storage.Appended) *flushWait {
	if log.IsFlushed(at) {
		return nil
	}
	f := &flushWait{done: make(chan struct{})}
	c.tasks.Add(1)
	go func() {
		defer c.tasks.Done()
		defer close(f.done)
		if f.err = log.WaitAppended(c.ctx, at); f.err != nil {
			c.storageFailed("flush", []byte(log.Topic()), log.Partition(), f.err, "offset", at.Next)
		}
	}()
	return f
}

// answerAcked gives the answer to an AckedProduce its place in the order: with
// the gathered ones, or behind those that are pending.
func (c *conn) answerAcked(a pendingAnswer) error {
	if a.flush == nil && c.pending.Load() == 0 {
		c.gathered = appendAcked(c.room(ackedAnswerSize), a.code, a.where)
		if len(c.gathered) >= sendAt {
			return c.sendGathered()
		}
		return nil
	}
	if err := c.sendGathered(); err != nil {
		return err
	}
	if c.answers == nil {
		c.answers = make(chan pendingAnswer, maxPendingAnswers)
		c.tasks.Add(1)
		go c.answerer()
	}
	c.pending.Add(1)
	a.began = c.began
	c.deferred++
	select {
	case c.answers <- a:
		return nil
	case <-c.ctx.Done(): // the answerer may have ended already
		return c.ctx.Err()
	}
}

// finishAnswers waits until no answer is pending. Then the sender belongs to
// the caller; but not after an error, which says that the connection is closed.
func (c *conn) finishAnswers() error {
	for c.pending.Load() > 0 {
		select {
		case <-c.idle:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	return c.ctx.Err()
}

// ackedAnswerSize is the size of an answer to an AckedProduce.
const ackedAnswerSize = wire.ResponseHeaderSize + 16

func appendAcked(dst []byte, code wire.Code, where wire.AckedRange) []byte {
	return wire.AppendAckedRange(wire.AppendResponseHeader(dst, code, 16), where)
}

// answerer sends pending answers in their order until the connection ends.
// After a failure it goes on taking answers, so that nobody waits for it, and
// sends none.
func (c *conn) answerer() {
	defer c.tasks.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var ready []byte
	taken := int32(0) // answers in ready
	failed := false
	for {
		var a pendingAnswer
		select {
		case a = <-c.answers:
		default:
			if !c.sendReady(&ready, &taken, failed) {
				failed = true
			}
			select {
			case a = <-c.answers:
			case <-c.ctx.Done():
				return
			}
		}
		if a.flush != nil {
			select {
			case <-a.flush.done:
			default:
				if !c.sendReady(&ready, &taken, failed) {
					failed = true
				}
				a.await(timer)
			}
			a.settle()
		}
		ready = appendAcked(ready, a.code, a.where)
		taken++
		c.srv.metrics.latencies[wire.TypeAckedProduce].observe(time.Since(a.began), 1)
		if len(ready) >= sendAt && !c.sendReady(&ready, &taken, failed) {
			failed = true
		}
	}
}

// await waits for the flush or the deadline of a.
func (a *pendingAnswer) await(timer *time.Timer) {
	timer.Reset(time.Until(a.deadline))
	select {
	case <-a.flush.done:
	case <-timer.C:
	}
}

// settle turns the outcome of the flush into the answer's code.
func (a *pendingAnswer) settle() {
	select {
	case <-a.flush.done:
		if a.flush.err != nil {
			a.code = appendCode(a.flush.err)
		}
	default:
		a.code = wire.CodeTimedOut
	}
}

// sendReady sends the answers that the answerer has gathered and reports
// whether that worked; when it did not, the connection is closed.
func (c *conn) sendReady(ready *[]byte, taken *int32, failed bool) bool {
	if *taken == 0 {
		return true
	}
	if !failed {
		if err := c.out.send(*ready, false); err != nil {
			c.log.Debug("acknowledgements not sent", "error", err)
			c.close()
			failed = true
		}
	}
	*ready = (*ready)[:0]
	c.sent(*taken)
	*taken = 0
	return !failed
}

// sent takes n answers off the pending ones.
func (c *conn) sent(n int32) {
	if c.pending.Add(-n) == 0 {
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
}
