package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/kafka/etl"
)

const (
	// reportInterval is how often a task tells Hadoop that it lives, far below the ten
	// minutes after which one is killed.
	reportInterval = 10 * time.Second
	// maxSplitLine bounds a line of input, in bytes: a topic has 249 at most.
	maxSplitLine = 64 << 10
)

// mapSplits maps the splits of the standard input, or the one of a flag, and prints the
// result of each.
func (o *etlOptions) mapSplits(ctx context.Context, std stdio) error {
	t := mapTask{folder: o.output, out: std.Out, notes: io.Discard}
	if t.folder == "" {
		// Hadoop Streaming exports its settings with underscores for dots.
		t.folder = cmp.Or(os.Getenv("mapreduce_task_output_dir"), os.Getenv("mapreduce.task.output.dir"))
		t.notes = std.Err
	}
	if t.folder == "" {
		return usagef("map: no Hadoop task has started this, as mapreduce_task_output_dir is not set: give --output, a folder of this attempt alone")
	}
	if o.line != "" {
		return t.mapLine(ctx, o.line)
	}
	lines := bufio.NewScanner(std.In)
	lines.Buffer(nil, maxSplitLine)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := t.mapLine(ctx, lines.Text()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the splits: %w", err)
	}
	return nil
}

// mapTask is a task of a MapReduce job: one attempt at it.
type mapTask struct {
	folder string
	out    io.Writer
	notes  io.Writer // for Hadoop, which understands lines that begin with "reporter:"
}

func (t *mapTask) mapLine(ctx context.Context, line string) error {
	s, err := etl.ParseSplit(line)
	if err != nil {
		return err
	}
	schemas, end, err := openLoadSchemas(s.SchemaRegistry, nil)
	if err != nil {
		return fmt.Errorf("%v: its schema registry: %w", s, err)
	}
	defer end()
	var loaded atomic.Int64
	t.status(s, "begins")
	stop := t.keepTelling(ctx, s, &loaded)
	r, err := etl.Map(ctx, s, t.folder, etl.MapConfig{Schemas: schemas, Loaded: &loaded})
	stop()
	if err != nil {
		return err
	}
	t.count(r)
	t.status(s, "is done")
	text, err := r.Line()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, text)
	return err
}

// status tells what a task does. That it cannot be told is no reason to fail.
func (t *mapTask) status(s etl.Split, what string) {
	fmt.Fprintf(t.notes, "reporter:status:%v offsets %d to %d: %s\n", s.Partition, s.Start, s.End, what)
}

// keepTelling tells again and again, until stop, which waits for its end.
func (t *mapTask) keepTelling(ctx context.Context, s etl.Split, loaded *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.status(s, fmt.Sprintf("%d messages", loaded.Load()))
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

// count adds to the counters of the job, which Hadoop shows.
func (t *mapTask) count(r etl.Result) {
	var gaps, files int64
	for _, g := range r.Gaps {
		gaps += g.End - g.Start
	}
	for _, f := range r.Files {
		files += f.Bytes
	}
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"messages", r.Messages}, {"payload bytes", r.Bytes}, {"files", int64(len(r.Files))}, {"file bytes", files}, {"gap bytes", gaps},
		{"messages without envelope", r.NoEnvelope}, {"messages in malformed envelope", r.BadEnvelope},
		{"messages too late", r.TooLate}, {"messages too early", r.TooEarly}, {"messages without schema", r.NoSchema},
	} {
		if c.n > 0 {
			fmt.Fprintf(t.notes, "reporter:counter:kafka etl,%s,%d\n", c.name, c.n)
		}
	}
}
