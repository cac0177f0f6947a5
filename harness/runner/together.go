package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/harness/workload"
	"kafkalab/results/resultfile"
)

// together is produce with several producers, or with consumers beside them,
// over a connection for each. The consumers receive what the queue held before,
// as fast as it goes. As soon as the producers have sent everything, or the
// consumers have received everything, nobody goes on: a rate that one side has
// by itself would be no rate of both.
//
// The clock is that of a produce, and runs until the server has what was sent.
// What was received counts until the moment at which nobody went on.
func (c *client) together(ctx context.Context, conns []driver.Client) error {
	producers := max(c.spec.Producers, 1)
	t := &both{client: c}
	for i, conn := range conns[:producers] {
		if err := t.addSender(ctx, conn, i, producers); err != nil {
			return err
		}
	}
	if err := c.countFirst(ctx, conns[0]); err != nil {
		return err
	}
	for _, conn := range conns[producers:] {
		consumer, err := conn.Consumer(ctx, c.spec.Queue)
		if err != nil {
			return fmt.Errorf("consumer of %s: %w", c.spec.Queue, err)
		}
		t.receivers = append(t.receivers, &receiver{consumer: consumer, checker: workload.NewChecker(c.spec.RunID), wanted: c.spec.First})
	}
	recorder, err := measure.NewRecorder(resultfile.Produce, c.spec.PayloadBytes, measure.DefaultInterval, func(p resultfile.Point) {
		c.moved.Store(p.Messages + p.Arrived + t.received())
		c.link.send(Event{Point: &p})
	})
	if err != nil {
		return err
	}
	if err := c.phase(ctx, Measure); err != nil {
		return err
	}
	if err := c.measureProduce(ctx, conns[0], recorder, func() error { return t.run(ctx, recorder) }); err != nil {
		return err
	}
	t.tell()
	return c.phase(ctx, Verify)
}

// both is a produce with its several producers, and consumers if there are any.
type both struct {
	*client
	senders   []*sender
	receivers []*receiver
	over      atomic.Bool   // nobody goes on
	ended     time.Duration // from the beginning until that
	endOnce   sync.Once
}

// sender is one of several producers.
type sender struct {
	producer  driver.Producer
	generator *workload.Generator
	wanted    int64
	sent      int64
}

// receiver is one of the consumers beside them.
type receiver struct {
	consumer driver.Consumer
	checker  *workload.Checker
	wanted   int64
	count    atomic.Int64  // of the wanted ones
	took     time.Duration // until the last of them, or until nobody went on
}

// addSender makes the producer of that number, with its share of the messages.
func (t *both) addSender(ctx context.Context, conn driver.Client, number, of int) error {
	p, err := conn.Producer(ctx, t.spec.Queue)
	if err != nil {
		return fmt.Errorf("producer %d for %s: %w", number+1, t.spec.Queue, err)
	}
	id, first := t.spec.RunID, t.spec.First
	if of > 1 {
		id, first = shareID(t.spec.RunID, number), 0
	}
	g, err := workload.NewGenerator(id, t.spec.PayloadBytes)
	if err != nil {
		return err
	}
	g.Seek(uint64(first))
	share := t.spec.Messages / int64(of)
	if int64(number) < t.spec.Messages%int64(of) {
		share++
	}
	t.senders = append(t.senders, &sender{producer: p, generator: g, wanted: share})
	return nil
}

// received is what all consumers have of what was there before.
func (t *both) received() int64 {
	var n int64
	for _, r := range t.receivers {
		n += r.count.Load()
	}
	return n
}

// run has everybody go on until one side has come to its end.
func (t *both) run(ctx context.Context, recorder *measure.Recorder) error {
	capped, stopCap := afterCap(t.spec.Cap)
	defer stopCap()
	began := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	stopping, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	end := func() {
		t.endOnce.Do(func() {
			t.ended = time.Since(began)
			t.over.Store(true)
			stop(errTogetherOver)
		})
	}
	sending, receiving := atomic.Int64{}, atomic.Int64{}
	sending.Store(int64(len(t.senders)))
	receiving.Store(int64(len(t.receivers)))
	for i, s := range t.senders {
		all.Go(func() error {
			err := s.send(ctx, &t.over, capped, recorder)
			if sending.Add(-1) == 0 || capped.Load() {
				end()
			}
			if err != nil {
				return fmt.Errorf("producer %d of %d: %w", i+1, len(t.senders), err)
			}
			return nil
		})
	}
	for i, r := range t.receivers {
		all.Go(func() error {
			err := r.receive(stopping, &t.over)
			r.took = time.Since(began)
			if errors.Is(context.Cause(stopping), errTogetherOver) {
				err = nil // it was told to stop
			}
			if receiving.Add(-1) == 0 {
				end()
			}
			if err != nil {
				return fmt.Errorf("consumer %d of %d beside: %w", i+1, len(t.receivers), err)
			}
			return nil
		})
	}
	err := all.Wait()
	last := recorder.Mark()
	r := &t.result
	r.Sent, r.ClientSeconds = 0, last.Seconds
	for _, s := range t.senders {
		r.Sent += s.sent
		if len(t.senders) > 1 {
			r.Shares = append(r.Shares, s.sent)
		}
	}
	r.Cut = err == nil && capped.Load() && r.Sent < t.spec.Messages
	return err
}

var errTogetherOver = errors.New("one side has come to its end")

// send sends until all of its share is sent, or nobody goes on; then it flushes.
// Nothing in it may allocate for a message.
func (s *sender) send(ctx context.Context, over, capped *atomic.Bool, recorder *measure.Recorder) error {
	var untold int64
	for s.sent < s.wanted && !over.Load() && !capped.Load() {
		if err := s.producer.Send(ctx, s.generator.Next()); err != nil {
			recorder.Add(untold)
			return fmt.Errorf("sending message %d: %w", s.sent, err)
		}
		s.sent++
		if untold++; untold == tellEvery {
			recorder.Add(untold)
			untold = 0
		}
	}
	recorder.Add(untold)
	if err := s.producer.Flush(ctx); err != nil {
		return fmt.Errorf("flushing after %d messages: %w", s.sent, err)
	}
	return nil
}

// receive receives until all that is wanted has come, or nobody goes on.
func (r *receiver) receive(ctx context.Context, over *atomic.Bool) error {
	for r.count.Load() < r.wanted && !over.Load() {
		if err := r.consumer.Receive(ctx, r.take); err != nil {
			return err
		}
	}
	return nil
}

// take checks a message of what was there before. What comes behind it is
// checked when all is consumed, after the measuring.
func (r *receiver) take(payload []byte) error {
	n := r.count.Load()
	if n == r.wanted {
		return nil
	}
	r.count.Store(n + 1) // nobody else writes it
	return r.checker.Check(payload)
}

// tell writes down what the consumers received, and what was wrong with it.
func (t *both) tell() {
	if len(t.receivers) == 0 {
		return
	}
	slowest, total := math.Inf(1), int64(0)
	for i, r := range t.receivers {
		n := r.count.Load()
		took := min(r.took, t.ended)
		total += n
		slowest = min(slowest, float64(n)/took.Seconds())
		found := r.checker.Result(r.wanted)
		if n < r.wanted {
			found.Lost = 0 // what has not come yet is not lost
		}
		if fault := t.faultOf(found); fault != nil && t.result.Fault == "" {
			t.result.Fault = fmt.Sprintf("consumer %d of %d beside the producers: %v", i+1, len(t.receivers), fault)
		}
	}
	t.result.Measures = map[string]float64{
		"consumed_per_second":   float64(total) / t.ended.Seconds(),
		"consumer_slowest_rate": slowest,
		"together_seconds":      t.ended.Seconds(),
	}
}
