package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/host"
	"kafkalab/plots"
)

func drawCommand() command {
	return command{name: "draw", summary: "draw the paper's Figures 1, 2 and 3 from small live clusters", run: runDraw}
}

// Bounds of draw.
const (
	maxDrawBrokers = 4
	drawLimit      = 2 * time.Minute  // start, work and reading together
	drawStop       = 10 * time.Second // the end
)

func runDraw(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("draw", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	out := flags.String("out", "results/local", "`folder` in which the drawings get a folder of their own")
	brokers := flags.Int("brokers", 2, fmt.Sprintf("brokers of the live cluster, from 1 to %d", maxDrawBrokers))
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed draw [--brokers N] [--out DIR]

Starts a ZooKeeper, brokers, two producers and two consumer groups of this
project on this machine, lets them work until all is consumed and committed, then
a mirror to a second cluster with a load that reads from there, until that has all
too, and reads what both ZooKeepers, the brokers and one partition's files then
hold. That is kept as topology.json and log.json in a folder of its own,
<UTC time>-drawings, and drawn from there as the paper's Figure 1 (brokers, topics,
partitions, groups; of each cluster), Figure 2 (segment files and the list of their
base offsets) and Figure 3 (the clusters and what runs between them), as PNG, SVG
and PDF. "testbed report" takes the folder beside those of runs. Nothing is
measured, and all that was started is ended.

`, flags.FlagUsagesWrapped(helpWidth), `
Example:
  testbed draw --out results/local
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *brokers < 1 || *brokers > maxDrawBrokers {
		return usagef("--brokers %d: from 1 to %d are possible", *brokers, maxDrawBrokers)
	}
	if err := takesFiles(*out); err != nil {
		return err
	}
	topology, log, err := drawLive(ctx, *brokers, std)
	if err != nil {
		return err
	}
	dir, err := timedFolder(*out, topology.Taken, "drawings", func(dir string) error { return os.Mkdir(dir, 0o755) })
	if err != nil {
		return err
	}
	if err := plots.WriteDrawings(dir, topology, log); err != nil {
		return err
	}
	written, err := plots.DrawLive(dir, dir)
	return errors.Join(printLines(std, written), err)
}

// drawLive reads a cluster that lives on this machine for that.
func drawLive(ctx context.Context, brokers int, std stdio) (t *plots.Topology, l *plots.PartitionLog, err error) {
	ctx, cancel := context.WithTimeout(ctx, drawLimit)
	defer cancel()
	h, err := host.Open(ctx, host.Config{Name: "here", Kind: host.Local})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drawStop)
		defer cancel()
		err = errors.Join(err, h.Close(end))
	}()
	return liveCluster(ctx, h, brokers, std)
}

// liveCluster starts a cluster, lets it work and reads it. What it has started
// ends with the host.
func liveCluster(ctx context.Context, h host.Host, brokers int, std stdio) (*plots.Topology, *plots.PartitionLog, error) {
	c := &drawnCluster{host: h, std: std}
	defer c.close()
	if err := c.start(ctx, brokers); err != nil {
		return nil, nil, c.explain(err)
	}
	if err := c.startPipeline(ctx); err != nil {
		return nil, nil, c.explain(err)
	}
	t, l, err := c.read(ctx)
	if err != nil {
		return nil, nil, c.explain(err)
	}
	taken := time.Now().UTC().Truncate(time.Second)
	t.Schema, t.Taken, t.Commit, t.Command = plots.DrawingsSchema, taken, commit(ctx), commandLine()
	l.Schema, l.Taken, l.Commit, l.Command = t.Schema, t.Taken, t.Commit, t.Command
	return t, l, nil
}
