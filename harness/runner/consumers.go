package runner

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/harness/workload"
)

// consumeAtOnce is consume with a consumer for each connection, each of which
// gets the whole backlog from a queue of its own, or from the one log. The
// points are the sum, and the measured time ends with the last message of the
// last consumer.
func (c *client) consumeAtOnce(ctx context.Context, conns []driver.Client) error {
	var all []*lane
	var intakes []*intake
	for i, conn := range conns {
		consumer, err := conn.Consumer(ctx, c.spec.Queues[i])
		if err != nil {
			return fmt.Errorf("consumer %d of %s: %w", i+1, c.spec.Queues[i], err)
		}
		l := &lane{intake: intake{client: c, consumer: consumer, checker: workload.NewChecker(c.spec.RunID)}}
		all, intakes = append(all, l), append(intakes, &l.intake)
	}
	err := c.phase(ctx, Measure)
	if err != nil {
		return err
	}
	if err = c.measureAtOnce(ctx, all); err == nil {
		err = c.phase(ctx, Verify)
	}
	if err == nil {
		err = each(ctx, all, func(ctx context.Context, l *lane) error { return l.verify(ctx, c.spec.VerifyLimit) })
	}
	return c.conclude(ctx, err, intakes...)
}

func (c *client) measureAtOnce(ctx context.Context, all []*lane) error {
	recorder, err := c.newRecorder()
	if err != nil {
		return err
	}
	over, stop := afterCap(c.spec.Cap)
	defer stop()
	var unfinished atomic.Int64
	unfinished.Store(int64(len(all)))
	processor := processorSeconds()
	started := time.Now()
	recorder.Start()
	err = each(ctx, all, func(ctx context.Context, l *lane) error {
		l.sum, l.started, l.unfinished = recorder, started, &unfinished
		return l.measure(ctx, over)
	})
	end := recorder.Stop()
	r := &c.result
	r.CPUSeconds = processorSeconds() - processor
	r.Messages, r.Seconds = end.Messages, end.Seconds
	r.Sent, r.ClientSeconds = end.Messages, end.Seconds
	r.Cut = err == nil && end.Messages < c.spec.total()
	slowest, fastest := math.Inf(1), 0.0
	for _, l := range all {
		slowest, fastest = min(slowest, l.rate()), max(fastest, l.rate())
	}
	if err == nil {
		r.Measures = map[string]float64{"consumer_slowest_rate": slowest, "consumer_fastest_rate": fastest}
	}
	return err
}

// each does the same for all at once, and returns when all have ended. The
// first error ends the others and is returned.
func each(ctx context.Context, all []*lane, work func(context.Context, *lane) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, l := range all {
		g.Go(func() error {
			if err := work(ctx, l); err != nil {
				return fmt.Errorf("consumer %d of %d: %w", i+1, len(all), err)
			}
			return nil
		})
	}
	return g.Wait()
}

// lane is one of several consumers.
type lane struct {
	intake
	sum        *measure.Recorder // of all consumers
	started    time.Time
	unfinished *atomic.Int64
	untold     int64   // received, and not yet in sum
	seconds    float64 // until the last of the measured messages
	measured   int64
}

// tellEvery is how many messages a consumer adds to the sum at a time: the
// consumers would otherwise slow one another at that counter.
const tellEvery = 64

// measure receives until all is there, or until over.
func (l *lane) measure(ctx context.Context, over *atomic.Bool) error {
	wanted := l.client.spec.Messages
	for l.received < wanted && !over.Load() {
		err := l.consumer.Receive(ctx, l.take)
		l.tell()
		if err != nil {
			return err
		}
	}
	if l.measured < wanted {
		l.seconds = time.Since(l.started).Seconds()
	}
	return nil
}

// take is handle while measuring. The last message of the last consumer ends
// the measured time.
func (l *lane) take(payload []byte) error {
	l.received++
	err := l.checker.Check(payload)
	if l.measured == l.client.spec.Messages {
		return err
	}
	l.measured++
	if l.untold++; l.untold == tellEvery {
		l.tell()
	}
	if l.measured == l.client.spec.Messages {
		l.tell()
		l.seconds = time.Since(l.started).Seconds()
		if l.unfinished.Add(-1) == 0 {
			l.sum.Stop()
		}
	}
	return err
}

func (l *lane) tell() {
	l.sum.Add(l.untold)
	l.untold = 0
}

// rate is what this consumer received while measuring, in messages a second.
func (l *lane) rate() float64 {
	if l.seconds <= 0 {
		return 0
	}
	return float64(l.measured) / l.seconds
}
