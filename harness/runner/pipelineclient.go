package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

// pipeline has the driver run the pipeline, and records the delays to its tiers.
func (c *client) pipeline(ctx context.Context) error {
	d, ok := c.driver.(driver.Pipeliner)
	if !ok {
		return fmt.Errorf("%s is no pipeline", c.driver.Name())
	}
	recorder, err := c.newRecorder()
	if err != nil {
		return err
	}
	p := &piping{client: c, recorder: recorder}
	p.delays = measure.NewLatencies(func(i resultfile.LatencyInterval) {
		c.link.send(Event{Latency: &StreamLatency{Began: p.began, Interval: i}})
	}, resultfile.Tiers()...)
	processor, children := processorSeconds(), childrenSeconds()
	running, end := context.WithCancel(ctx)
	result, err := d.Pipeline(ctx, c.spec.Target, c.spec.Options, driver.PipelinePlan{
		RunID: c.spec.RunID, PayloadBytes: c.spec.PayloadBytes, Messages: c.spec.Messages, Rate: c.spec.Pipeline.Rate,
		Program: c.spec.Pipeline.Program, Dir: c.spec.Pipeline.Dir, Stall: c.spec.Stall,
		Ready:   func(ctx context.Context) error { return p.begin(ctx, running) },
		Delayed: p.delays.RecordAt,
		Moved:   p.moved,
		Note:    func(text string) { c.link.send(Event{Note: text}) },
		Part:    p.part,
	})
	end()
	p.cutter.Wait()
	final := recorder.Stop()
	if !p.began.IsZero() {
		err = errors.Join(err, p.delays.Cut(time.Since(p.began)))
	}
	c.result.CPUSeconds = processorSeconds() - processor + childrenSeconds() - children
	c.result.Pipeline = &result
	c.result.Sent, c.result.ClientSeconds = result.Made, result.MadeSeconds
	c.result.Messages, c.result.Seconds = final.Arrived, result.Seconds
	c.result.Measures = p.measures()
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	return c.phase(ctx, Verify)
}

// piping is a pipeline that is being measured.
type piping struct {
	*client
	recorder *measure.Recorder
	delays   *measure.Latencies
	began    time.Time // set before the first message is made
	cutter   sync.WaitGroup

	mu   sync.Mutex
	made int64 // so far
}

// begin waits until messages may be made, and starts the clock. Intervals of
// delays are cut until running ends.
func (p *piping) begin(ctx, running context.Context) error {
	if err := p.phase(ctx, Measure); err != nil {
		return err
	}
	p.began = time.Now()
	p.recorder.StartAt(p.began)
	p.cutter.Go(func() {
		every := time.NewTicker(latencyInterval)
		defer every.Stop()
		for {
			select {
			case <-every.C:
			case <-running.Done():
				return
			}
			if err := p.delays.Cut(time.Since(p.began)); err != nil {
				p.cancel(err)
				return
			}
		}
	})
	return nil
}

// moved counts. What was made and what has come to the last tier are the points;
// that something happens at all keeps the client from being given up.
func (p *piping) moved(made, arrived int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if made > p.made {
		p.recorder.Add(made - p.made)
		p.made = made
	}
	p.recorder.Arrived(arrived)
	p.client.moved.Add(1)
}

// part asks the runner to kill or restart a part of the server.
func (p *piping) part(ctx context.Context, part string, do driver.PartAction) error {
	p.link.send(Event{Part: &PartEvent{Part: part, Do: do}})
	if err := p.link.sent(); err != nil {
		return errors.Join(errRunnerGone, err)
	}
	select {
	case <-p.proceed:
		p.client.moved.Add(1)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measures are the delays to each tier, in seconds: the mean, and percentiles.
func (p *piping) measures() map[string]float64 {
	m := map[string]float64{}
	for i, tier := range resultfile.Tiers() {
		h := p.delays.WholeOf(i)
		if h.TotalCount() == 0 {
			continue
		}
		m["delay_"+tier+"_mean_seconds"] = h.Mean() / float64(time.Second)
		for name, q := range tierMeasures {
			m["delay_"+tier+"_"+name+"_seconds"] = float64(h.ValueAtPercentile(q)) / float64(time.Second)
		}
	}
	return m
}
