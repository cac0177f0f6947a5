package pipeline

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	// feedTick is how often a front end is given the lines that are due.
	feedTick = 5 * time.Millisecond
	// feedBytes bounds what it is given at once.
	feedBytes = 64 << 10
)

// frontEnd is a process that publishes the lines that it is given: those whose
// number is its place modulo the number of front ends.
type frontEnd struct {
	*child
	place int64
}

// frontEndArgs is the command of a front end that publishes through an address.
func (r *run) frontEndArgs(place int, addr string) []string {
	args := []string{r.plan.Program, "produce", "--broker-list", addr, "--topic", topic, "--acks", r.opts.acks, "--batch-size", strconv.Itoa(r.opts.batch),
		"--audit", "--audit-window", r.opts.window.String(), "--audit-topic", auditTopic, "--audit-server", frontEndName(place)}
	if r.opts.linger > 0 {
		args = append(args, "--async", "--queue-interval", r.opts.linger.String())
	}
	return args
}

// frontEndName is the server name in the envelopes of a front end.
func frontEndName(place int) string { return fmt.Sprintf("frontend-%d", place+1) }

// feed gives a front end its lines when they are due, until all are made or ctx
// ends, and the end of its input then. One that takes none makes those after it
// late: they are made when it takes them.
func (r *run) feed(ctx context.Context, f frontEnd) error {
	defer f.closeInput()
	step := int64(r.opts.frontEnds)
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	var lines []byte
	for n := f.place; n < r.plan.Messages; {
		due := r.dueBy(time.Since(r.began))
		lines = lines[:0]
		count := int64(0)
		for ; n < min(due, r.plan.Messages) && len(lines) < feedBytes; n += step {
			lines = append(appendLine(lines, r.plan.RunID, n, r.plan.PayloadBytes), '\n')
			count++
		}
		if count > 0 {
			if _, err := f.in.Write(lines); err != nil {
				return fmt.Errorf("giving %s line %d: %w", f.name, n-step, err)
			}
			r.made.Add(count)
			r.tell()
		}
		if len(lines) >= feedBytes {
			continue // it is behind
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// dueBy is how many lines are due after a time: line n is n/Rate seconds after the
// beginning.
func (r *run) dueBy(since time.Duration) int64 {
	return int64(since.Seconds()*r.plan.Rate) + 1
}

// planned is how long the whole plan lasts.
func (r *run) planned() time.Duration {
	return time.Duration(float64(r.plan.Messages) / r.plan.Rate * float64(time.Second))
}
