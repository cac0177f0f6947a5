package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/harness/workload"
	"kafkalab/results/resultfile"
)

const (
	// streamLead is how long the consumer has asked for messages before the
	// first one is due: its subscription is not part of any latency.
	streamLead = 200 * time.Millisecond
	// streamOverrun is how many times its planned time a stream may last, and
	// streamGrace what it may last longer in any case. A system that cannot keep
	// up is sent the whole plan, late; but not for ever.
	streamOverrun = 2
	streamGrace   = 10 * time.Second
	// latencyIntervals is about how many intervals the latency file of a long
	// stream has, latencyInterval their length in a short one.
	latencyIntervals = 120
	latencyInterval  = time.Second
	// streamPoints is about how many points and samples a long stream has.
	streamPoints = 2000
	// streamFlag is the share of the planned rate below which an attempt is
	// flagged.
	streamFlag = 0.99
)

// stream sends at the planned rate over one connection and receives over
// another, in one process: the planned time of a message follows from its
// number, and one clock reads it and the moment of receipt. A message that is
// late is sent at once, and the plan stays as it was, so that a stall is in the
// latency of every message that was due in it.
//
// Nothing is flushed before the last message: what a driver holds back to send
// it with others is part of the latency.
func (c *client) stream(ctx context.Context, conns []driver.Client) error {
	s, err := c.newStreaming(ctx, conns[0], conns[1])
	if err != nil {
		return err
	}
	if err := c.phase(ctx, Measure); err != nil {
		return err
	}
	if err := s.measure(ctx); err != nil {
		return s.conclude(ctx, err)
	}
	if err := c.phase(ctx, Verify); err != nil {
		return s.conclude(ctx, err)
	}
	return s.conclude(ctx, surplus(ctx, s.consumer, s.handle))
}

// streaming is a stream in progress.
type streaming struct {
	*client
	pace      pace
	clock     streamClock
	began     time.Time
	producer  driver.Producer
	consumer  driver.Consumer
	asked     driver.Client // for the server's count
	depth     bool          // which falls as messages are consumed
	generator *workload.Generator
	recorder  *measure.Recorder
	latencies *measure.Latencies
	log       *sendLog

	sending  atomic.Bool  // a Send, or the flush behind the last one, is under way
	sent     atomic.Int64 // messages whose Send has returned
	arrived  atomic.Int64 // by the server's count
	received atomic.Int64 // those that were sent, each once
	target   atomic.Int64 // how many are to be received

	finished   chan struct{} // closed when nothing is sent any more
	all        chan struct{} // closed when the target was received
	allOnce    sync.Once
	allArrived chan struct{} // closed when the server has all that was sent

	// Of the receiving goroutine, and of others when it has ended.
	checker *workload.Checker
	unknown int64 // received, but when they were sent was forgotten
	// stalled says that the server or the consumer stood still: what has not
	// come then is lost.
	stalled atomic.Bool
}

func (c *client) newStreaming(ctx context.Context, sending, receiving driver.Client) (*streaming, error) {
	s := &streaming{
		client: c, pace: pace{c.spec.Stream.Rate}, asked: sending, log: newSendLog(sendLogSize),
		checker: workload.NewChecker(c.spec.RunID), finished: make(chan struct{}), all: make(chan struct{}), allArrived: make(chan struct{}),
	}
	s.target.Store(c.spec.Messages)
	if d, ok := sending.(driver.DepthCounter); ok {
		s.depth = d.CountsDepth()
	}
	var err error
	// The producer first: it makes the queue.
	if s.producer, err = sending.Producer(ctx, c.spec.Queue); err != nil {
		return nil, fmt.Errorf("producer for %s: %w", c.spec.Queue, err)
	}
	if s.consumer, err = receiving.Consumer(ctx, c.spec.Queue); err != nil {
		return nil, fmt.Errorf("consumer of %s: %w", c.spec.Queue, err)
	}
	if n, err := sending.Arrived(ctx, c.spec.Queue); err != nil {
		return nil, fmt.Errorf("the server's count before the first message: %w", err)
	} else if n != 0 {
		return nil, fmt.Errorf("the server counts %d messages in %s before the first was sent", n, c.spec.Queue)
	}
	if s.generator, err = workload.NewGenerator(c.spec.RunID, c.spec.PayloadBytes); err != nil {
		return nil, err
	}
	s.latencies = measure.NewLatencies(func(i resultfile.LatencyInterval) {
		c.link.send(Event{Latency: &StreamLatency{Began: s.began, Interval: i}})
	})
	s.recorder, err = measure.NewRecorder(resultfile.Stream, c.spec.PayloadBytes, c.spec.pointInterval(), func(p resultfile.Point) {
		c.link.send(Event{Point: &p})
	})
	return s, err
}

// planned is how long the whole plan lasts.
func (s Spec) planned() time.Duration {
	if s.Stream == nil {
		return 0
	}
	return pace{s.Stream.Rate}.due(s.Messages)
}

// pointInterval is the time between two points of a stream.
func (s Spec) pointInterval() time.Duration {
	return min(max(measure.DefaultInterval, s.planned()/streamPoints), measure.MaxStreamInterval)
}

// streamSampleInterval is the time between two samples of a host, which for a
// long stream is longer than usual.
func (s Spec) streamSampleInterval(usual time.Duration) time.Duration {
	return max(usual, s.planned()/(streamPoints/2))
}

// limit is the longest time that the sending may take.
func (s *streaming) limit() time.Duration {
	most := streamOverrun*s.spec.planned() + streamGrace
	if s.spec.Cap > 0 {
		return min(s.spec.Cap, most)
	}
	return most
}

// measure runs the stream until everything has arrived and was received.
func (s *streaming) measure(ctx context.Context) error {
	processor := processorSeconds()
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.began = time.Now().Add(streamLead)
	s.clock = &wallClock{began: s.began}
	var group sync.WaitGroup
	var receiveErr error
	group.Go(func() {
		if receiveErr = s.receive(running); receiveErr != nil {
			end(receiveErr)
		}
	})
	group.Go(func() { s.attend(running) })
	err := s.clock.Wait(running, 0)
	if err == nil {
		s.recorder.StartAt(s.began)
		group.Go(func() { s.ask(running) })
		err = s.send(running)
	}
	if err == nil {
		s.link.send(Event{Phase: Drain})
		err = s.settle(running)
	}
	final := s.recorder.Stop()
	end(errStreamOver)
	group.Wait()
	if err == nil {
		err = receiveErr
	}
	err = errors.Join(err, s.latencies.Cut(s.clock.Now()))
	s.result.CPUSeconds = processorSeconds() - processor
	s.result.Messages, s.result.Seconds = final.Arrived, final.Seconds
	s.tell()
	return err
}

var errStreamOver = errors.New("the stream is over")

// send is the sending half: nothing in it may allocate for a message.
func (s *streaming) send(ctx context.Context) error {
	limit := s.limit()
	over, stop := afterCap(limit)
	defer stop()
	var n int64
	var err error
	payload := s.generator.Next()
	for n < s.spec.Messages && !over.Load() {
		due := s.pace.due(n)
		if due >= limit {
			break
		}
		if err = s.clock.Wait(ctx, due); err != nil {
			break
		}
		s.log.note(n, s.clock.Now())
		s.sending.Store(true)
		err = s.producer.Send(ctx, payload)
		s.sending.Store(false)
		if err != nil {
			break
		}
		n++
		s.sent.Store(n)
		s.recorder.Add(1)
		payload = s.generator.Next()
	}
	last := s.recorder.Mark()
	s.result.Sent, s.result.ClientSeconds = n, last.Seconds
	if err != nil {
		return fmt.Errorf("sending message %d: %w", n, err)
	}
	if n < s.spec.Messages {
		s.note("held to %v of sending: %d of %d planned messages were sent", limit.Round(time.Millisecond), n, s.spec.Messages)
	}
	s.sending.Store(true)
	err = s.producer.Flush(ctx)
	s.sending.Store(false)
	if err != nil {
		return fmt.Errorf("flushing after %d messages: %w", n, err)
	}
	s.target.Store(n)
	if s.received.Load() >= n {
		s.haveAll()
	}
	close(s.finished)
	return nil
}

func (s *streaming) haveAll() { s.allOnce.Do(func() { close(s.all) }) }

func (s *streaming) note(format string, args ...any) {
	s.link.send(Event{Note: fmt.Sprintf(format, args...)})
}

// receive is the receiving half. It ends when all has come, or with ctx.
func (s *streaming) receive(ctx context.Context) error {
	for {
		err := s.consumer.Receive(ctx, s.handle)
		select {
		case <-s.all:
			return nil
		default:
		}
		if err != nil {
			return fmt.Errorf("receiving behind message %d: %w", s.received.Load(), err)
		}
	}
}

// handle takes one message. The time is read first: what checking takes is not
// part of the latency, but of that of the next message of the same pull.
func (s *streaming) handle(payload []byte) error {
	now := s.clock.Now()
	number, fresh, err := s.checker.Take(payload)
	n := int64(number)
	if err != nil || !fresh || n >= s.log.begun.Load() { // the last was never sent
		return err
	}
	sent := time.Duration(-1)
	if at, ok := s.log.at(n); ok {
		sent = now - at
	} else {
		s.unknown++
	}
	s.latencies.Record(now-s.pace.due(n), sent)
	if s.received.Add(1) >= s.target.Load() {
		s.haveAll()
	}
	return nil
}

// settle waits until the server has all that was sent, and the consumer too.
func (s *streaming) settle(ctx context.Context) error {
	for _, done := range []chan struct{}{s.allArrived, s.all} {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
