package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/kafka/etl"
	"kafkalab/kafka/registry"
)

func etlCommand() command {
	return command{name: "etl", summary: "load topics into dated files, on one machine or by Hadoop", run: runETL}
}

const etlAbout = `Loads topics into OUT/<topic>/2026/11/29/<broker>-<partition>-<start>-<end>.gz, so
that each message is there exactly once: data and offsets are published together,
by renaming one folder, and whatever fails or is killed is done again.

run       loads what came since the last load, on this machine; with --interval
          again and again. It prints a line for each load that had something to do
plan      asks the brokers what there is, and writes one line for each task:
          the input of a MapReduce job. It prints where that is, and where the
          output of the job belongs, as JSON
map       is the mapper of that job (Hadoop Streaming, one line for each task,
          no reducer). It reads the broker itself; its files go to the task's
          own output folder, as the environment tells it, or to --output
commit    publishes what the job has made, if it is complete. It can be repeated

OUT is a local folder or, but for run, hdfs://HOST:PORT/PATH. HDFS is used by the
command in the environment variable HADOOP_HDFS_COMMAND ("hdfs dfs" if it is not
set). The files hold, in gzip, an offset of 8 bytes, a length of 4 (big-endian),
and the payload, for each message. With --schema-registry they are Avro container
files, one for each schema (…-s<id>.avro); what does not fit its schema goes into
a file of the other kind, and is counted.

What retention has deleted before it was loaded is told, with its offsets, and
counted in the manifest of the load (OUT/_etl/runs). The exit status is 1 when
partitions had to be left out; all others are loaded all the same.`

const etlExamples = `  kafka etl run --zk-connect 127.0.0.1:2181 --topic clicks --out loaded
  kafka etl run --zk-connect 127.0.0.1:2181 --topic clicks --out loaded --interval 5s

  kafka etl plan --zk-connect 127.0.0.1:2181 --topic clicks --out hdfs://nn:8020/loaded
  hadoop jar hadoop-streaming.jar -D mapreduce.job.reduces=0 \
      -D mapreduce.fileoutputcommitter.algorithm.version=1 \
      -inputformat org.apache.hadoop.mapred.lib.NLineInputFormat \
      -input INPUT -output OUTPUT -mapper "kafka etl map"
  kafka etl commit --out hdfs://nn:8020/loaded --plan PLAN
`

// etlOptions are the flags of etl.
type etlOptions struct {
	zk       zkOptions
	out      string
	plan     etl.PlanConfig
	by       string
	split    *byteSize
	interval time.Duration
	tasks    int
	planID   string
	line     string
	output   string
	json     bool
}

// etlFlags says which flags an action takes, and which of them it must be given.
var etlFlags = map[string]struct{ needed, others []string }{
	"run":    {[]string{zkFlag, "topic", "out"}, []string{"split-size", "by", "max-late", "max-ahead", registryFlag, "interval", "tasks", "json", "connect-timeout"}},
	"plan":   {[]string{zkFlag, "topic", "out"}, []string{"split-size", "by", "max-late", "max-ahead", registryFlag, "connect-timeout"}},
	"map":    {nil, []string{"split", "output"}},
	"commit": {[]string{"out", "plan"}, []string{"json"}},
}

func runETL(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka etl run|plan|map|commit [flags]", etlAbout, etlExamples)
	var o etlOptions
	zk := fs.zkConnectFlag()
	fs.StringArrayVar(&o.plan.Topics, "topic", nil, "topic to be loaded; may be given several times")
	fs.StringVar(&o.out, "out", "", "output folder")
	o.split = fs.sizeFlag("split-size", etl.DefaultSplitBytes, "largest part of a log that one task reads; where it is smaller than a segment the planner reads the log too")
	fs.StringVar(&o.by, "by", string(etl.ByEnvelope), "which day a message is filed under: envelope (of its making) or arrival (of the plan)")
	fs.DurationVar(&o.plan.MaxLate, "max-late", etl.DefaultMaxLate, "a message made longer before it arrived is filed under its arrival, and counted")
	fs.DurationVar(&o.plan.MaxAhead, "max-ahead", etl.DefaultMaxAhead, "and so is one made longer after it, as clocks are off")
	fs.registryURLFlag(&o.plan.SchemaRegistry, "payloads are Avro, which goes into container files")
	fs.DurationVar(&o.interval, "interval", 0, "run: load again so long after each load has begun; 0: once")
	fs.IntVar(&o.tasks, "tasks", etl.DefaultTasks, "run: splits that are read at once")
	fs.StringVar(&o.planID, "plan", "", "commit: the plan, as \"kafka etl plan\" has named it")
	fs.StringVar(&o.line, "split", "", "map: the line of one split, instead of lines on the standard input")
	fs.StringVar(&o.output, "output", "", "map: folder of this attempt alone; without it, that of the Hadoop task")
	fs.BoolVar(&o.json, "json", false, "run, commit: print the manifest of each load, as a line of JSON")
	connectTimeout := fs.connectFlag()
	fs.oneOf("run", "plan", "map", "commit")
	if err := fs.parse(args, 1, 1); err != nil {
		return err
	}
	action := fs.Arg(0)
	if err := checkETLFlags(fs, action); err != nil {
		return err
	}
	o.zk = zkOptions{servers: *zk, connect: *connectTimeout}
	o.plan.SplitBytes, o.plan.By = int64(*o.split), etl.By(o.by)
	switch action {
	case "map":
		return o.mapSplits(ctx, std)
	case "commit":
		return o.commit(ctx, std)
	}
	if err := o.check(); err != nil {
		return err
	}
	if action == "plan" {
		return o.makePlan(ctx, std)
	}
	return o.run(ctx, std)
}

// checkETLFlags checks that an action was given the flags that it needs, and no others.
func checkETLFlags(fs *flagSet, action string) error {
	takes := etlFlags[action]
	for _, name := range takes.needed {
		if !fs.Changed(name) {
			return usagef("%s: --%s is missing", action, name)
		}
	}
	var wrong error
	fs.Visit(func(f *pflag.Flag) {
		if !slices.Contains(takes.needed, f.Name) && !slices.Contains(takes.others, f.Name) {
			wrong = usagef("--%s is not for %s", f.Name, action)
		}
	})
	return wrong
}

// check checks the flags of plan and run.
func (o *etlOptions) check() error {
	for i, t := range o.plan.Topics {
		if err := etl.CheckTopic(t); err != nil {
			return usageError{err}
		}
		if slices.Contains(o.plan.Topics[:i], t) {
			return usagef("topic %s is named twice", t)
		}
	}
	switch {
	case o.plan.SplitBytes < 1:
		return usagef("--split-size %d: more than 0 is wanted", o.plan.SplitBytes)
	case o.plan.By != etl.ByEnvelope && o.plan.By != etl.ByArrival:
		return usagef("--by %q: envelope or arrival is wanted", o.by)
	case o.plan.MaxLate <= 0:
		return usagef("--max-late %v: more than 0 is wanted", o.plan.MaxLate)
	case o.plan.MaxAhead <= 0:
		return usagef("--max-ahead %v: more than 0 is wanted", o.plan.MaxAhead)
	case o.interval < 0:
		return usagef("--interval %v: 0 or more is wanted", o.interval)
	case o.tasks < 1:
		return usagef("--tasks %d: 1 or more are wanted", o.tasks)
	}
	_, end, err := openLoadSchemas(o.plan.SchemaRegistry, nil)
	if err != nil {
		return usagef("--%s: %w", registryFlag, err)
	}
	end() // nothing was asked for
	return o.zk.check()
}

// openFolder opens the output folder; what is wrong with its name is a usage error.
func (o *etlOptions) openFolder() (*etl.Folder, error) {
	f, err := etl.OpenFolder(o.out)
	if err != nil {
		return nil, usagef("--out: %w", err)
	}
	return f, nil
}

// open opens the output folder, and the registry of the cluster, which is to be closed.
func (o *etlOptions) open(ctx context.Context, notes io.Writer) (*etl.Folder, *registry.Registry, error) {
	f, err := o.openFolder()
	if err != nil {
		return nil, nil, err
	}
	reg, err := o.zk.open(ctx, notes)
	return f, reg, err
}

// plannedJob is what plan prints: all that the job and its commit need.
type plannedJob struct {
	Plan     string    `json:"plan,omitempty"`
	Splits   int       `json:"splits"`
	Bytes    int64     `json:"bytes"`
	Input    string    `json:"input,omitempty"`
	Output   string    `json:"output,omitempty"`
	Gaps     []etl.Gap `json:"gaps,omitempty"`
	Problems []string  `json:"problems,omitempty"`
}

func (o *etlOptions) makePlan(ctx context.Context, std stdio) error {
	f, reg, err := o.open(ctx, std.Err)
	if err != nil {
		return err
	}
	defer closeRegistry(reg, std.Err)
	if o.plan.Brokers, err = o.zk.liveBrokers(ctx, reg, std.Err); err != nil {
		return err
	}
	p, err := f.Plan(ctx, o.plan)
	if err != nil {
		return err
	}
	tellPlan(std.Err, p)
	job := plannedJob{Splits: len(p.Splits), Bytes: p.Bytes(), Gaps: p.Gaps, Problems: p.Problems}
	if !p.Empty() {
		job.Plan, job.Input, job.Output = p.ID, f.Input(p.ID), f.Output(p.ID)
	}
	return errors.Join(writeJSON(std.Out, job), leftOut(p.Problems))
}

// tellPlan tells the user what is not as it should be.
func tellPlan(notes io.Writer, p *etl.Plan) {
	for _, g := range p.Gaps {
		fmt.Fprintf(notes, "kafka etl: %v\n", g)
	}
	for _, text := range p.Problems {
		fmt.Fprintf(notes, "kafka etl: %s\n", text)
	}
}

// leftOut is the error of a load that was not of everything.
func leftOut(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("not everything could be planned: %s told above", count(len(problems), "problem"))
}

func (o *etlOptions) commit(ctx context.Context, std stdio) error {
	f, err := o.openFolder()
	if err != nil {
		return err
	}
	m, err := f.Commit(ctx, o.planID)
	if err != nil {
		return err
	}
	return o.tell(std, m, nil)
}

// tell prints what was loaded. Gaps that the plan knew of have been told.
func (o *etlOptions) tell(std stdio, m *etl.Manifest, told []etl.Gap) error {
	for _, g := range m.Gaps {
		if !slices.Contains(told, g) {
			fmt.Fprintf(std.Err, "kafka etl: %v\n", g)
		}
	}
	if o.json {
		return writeJSON(std.Out, m)
	}
	_, err := fmt.Fprintf(std.Out, "run %d: %s, %d bytes, %s, %s%s\n",
		m.Run, count(m.Messages, "message"), m.Bytes, count(len(m.Files), "file"), count(m.Splits, "split"), oddities(m))
	return err
}

// oddities tells of what was filed otherwise than it should be.
func oddities(m *etl.Manifest) string {
	var b strings.Builder
	for _, c := range []struct {
		n    int64
		what string
	}{
		{m.NoEnvelope, "without an envelope"}, {m.BadEnvelope, "in a malformed envelope"},
		{m.TooLate, "made too long before"}, {m.TooEarly, "made after their arrival"}, {m.NoSchema, "that fit no schema"},
	} {
		if c.n > 0 {
			fmt.Fprintf(&b, "; %d %s", c.n, c.what)
		}
	}
	if n := len(m.Gaps); n > 0 {
		fmt.Fprintf(&b, "; %s", count(n, "gap"))
	}
	return b.String()
}
