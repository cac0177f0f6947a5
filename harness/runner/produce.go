package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/harness/workload"
)

// produce is the measured phase of a produce and its drain. The clock runs
// from the first send until the server's own count has everything: what a
// client has put into its buffers is not throughput (and the client's own view
// is reported beside it).
func (c *client) produce(ctx context.Context, conn driver.Client) error {
	producer, generator, recorder, err := c.prepare(ctx, conn)
	if err != nil {
		return err
	}
	if err := c.countFirst(ctx, conn); err != nil {
		return err
	}
	generator.Seek(uint64(c.spec.First))
	if err := c.phase(ctx, Measure); err != nil {
		return err
	}
	err = c.measureProduce(ctx, conn, recorder, func() error { return c.send(ctx, producer, generator, recorder) })
	if err != nil {
		return err
	}
	return c.phase(ctx, Verify)
}

// countFirst makes sure that the queue holds what the first message is to come
// behind, by the server's own count.
func (c *client) countFirst(ctx context.Context, conn driver.Client) error {
	n, err := conn.Arrived(ctx, c.spec.Queue)
	switch {
	case err != nil:
		return fmt.Errorf("the server's count before the first message: %w", err)
	case n != c.spec.First:
		return fmt.Errorf("the server counts %d messages in %s before the first was sent, where %d are", n, c.spec.Queue, c.spec.First)
	}
	return nil
}

// measureProduce has send send while the server is asked over conn for its
// count, and then waits until it has everything.
func (c *client) measureProduce(ctx context.Context, conn driver.Client, recorder *measure.Recorder, send func() error) error {
	processor := processorSeconds()
	recorder.Start()
	polling, giveUp := context.WithCancel(ctx)
	defer giveUp()
	enough, polled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(polled)
		c.pollArrived(polling, enough, conn, recorder)
	}()
	err := send()
	if err == nil {
		c.link.send(Event{Phase: Drain})
	} else {
		giveUp()
	}
	// Else a question under way gets its answer: one that is broken off costs
	// some systems the connection, and the next one the time for another.
	close(enough)
	<-polled
	if err == nil {
		err = c.drain(ctx, conn, recorder)
	}
	end := recorder.Stop()
	c.result.CPUSeconds = processorSeconds() - processor
	c.result.Messages, c.result.Seconds = end.Arrived, end.Seconds
	return err
}

// prepare makes what a measured sending takes.
func (c *client) prepare(ctx context.Context, conn driver.Client) (driver.Producer, *workload.Generator, *measure.Recorder, error) {
	producer, err := conn.Producer(ctx, c.spec.Queue)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("producer for %s: %w", c.spec.Queue, err)
	}
	generator, err := workload.NewGenerator(c.spec.RunID, c.spec.PayloadBytes)
	if err != nil {
		return nil, nil, nil, err
	}
	recorder, err := c.newRecorder()
	return producer, generator, recorder, err
}

// send is the loop that is measured: nothing in it may allocate.
func (c *client) send(ctx context.Context, p driver.Producer, g *workload.Generator, r *measure.Recorder) error {
	over, stop := afterCap(c.spec.Cap)
	defer stop()
	var sent int64
	var err error
	for sent < c.spec.Messages && !over.Load() {
		if err = p.Send(ctx, g.Next()); err != nil {
			break
		}
		sent++
		r.Add(1)
	}
	last := r.Mark()
	c.result.Sent, c.result.ClientSeconds = sent, last.Seconds
	c.result.Cut = err == nil && sent < c.spec.Messages
	if err != nil {
		return fmt.Errorf("sending message %d: %w", sent, err)
	}
	if err := p.Flush(ctx); err != nil {
		return fmt.Errorf("flushing after %d messages: %w", sent, err)
	}
	return nil
}

// arrived is the server's count of what was sent while measuring.
func (c *client) arrived(ctx context.Context, conn driver.Client) (int64, error) {
	n, err := conn.Arrived(ctx, c.spec.Queue)
	return n - c.spec.First, err
}

// pollArrived asks for the server's count until it is enough or ctx ends. A
// server that does not answer ends the client.
func (c *client) pollArrived(ctx context.Context, enough <-chan struct{}, conn driver.Client, r *measure.Recorder) {
	t := time.NewTicker(arrivedInterval)
	defer t.Stop()
	for {
		n, err := c.arrived(ctx, conn)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.cancel(fmt.Errorf("asking the server for its count: %w", err))
			return
		}
		r.Arrived(n)
		r.Mark() // now the count is fresh: a later point would show it as it was
		select {
		case <-t.C:
		case <-enough:
			return
		case <-ctx.Done():
			return
		}
	}
}

// drain waits until the server has all that was sent. It stops the recorder
// the moment it does.
func (c *client) drain(ctx context.Context, conn driver.Client, r *measure.Recorder) error {
	t := time.NewTicker(drainInterval)
	defer t.Stop()
	arrived := r.Mark().Arrived
	for {
		n, err := c.arrived(ctx, conn)
		if err == nil {
			arrived = n
			r.Arrived(n)
		}
		switch {
		case errors.Is(context.Cause(ctx), errStalled):
			c.result.Fault = fmt.Sprintf("of %d messages sent, %d never arrived: the server's count stood at %d for %v",
				c.result.Sent, c.result.Sent-arrived, arrived, c.spec.Stall)
			return context.Cause(ctx)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("asking the server for its count: %w", err)
		case n == c.result.Sent:
			r.Stop()
			return nil
		case n > c.result.Sent:
			r.Stop()
			c.result.Fault = fmt.Sprintf("the server counts %d messages, but %d were sent", n, c.result.Sent)
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}
