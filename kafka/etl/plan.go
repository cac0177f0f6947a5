package etl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/registry"
)

// Defaults of [PlanConfig].
const (
	// DefaultSplitBytes is what one task reads in some seconds.
	DefaultSplitBytes = 256 << 20
	// DefaultMaxLate is how long a mirror may have been down.
	DefaultMaxLate = 7 * 24 * time.Hour
	// DefaultMaxAhead is more than clocks are off that anybody looks after.
	DefaultMaxAhead = time.Hour

	// maxSplitBytes is more than a disk holds, and an offset can be added to it.
	maxSplitBytes = 1 << 60
	// maxSplits bounds a plan (inclusive); what is behind them is for the next one.
	maxSplits = 100_000
)

// PlanConfig says what is to be loaded.
type PlanConfig struct {
	// Brokers are those that live, with their ids as they are registered: the id is a
	// part of what a partition is called.
	Brokers []registry.Broker
	Topics  []string // at least one
	// SplitBytes is the largest split, in bytes of the log (inclusive), but for one
	// message that is larger. 0: [DefaultSplitBytes]. Where it is less than a segment
	// of the log, the planner reads what is behind in that segment, to find where
	// messages begin.
	SplitBytes int64
	By         By // "": [ByEnvelope]
	// MaxLate and MaxAhead bound the time of a message against its arrival, in
	// milliseconds; 0: [DefaultMaxLate] and [DefaultMaxAhead].
	MaxLate, MaxAhead time.Duration
	SchemaRegistry    string // see [Settings.SchemaRegistry]
	Client            client.Config
}

func (c PlanConfig) withDefaults() (PlanConfig, error) {
	if c.SplitBytes == 0 {
		c.SplitBytes = DefaultSplitBytes
	}
	if c.By == "" {
		c.By = ByEnvelope
	}
	if c.MaxLate == 0 {
		c.MaxLate = DefaultMaxLate
	}
	if c.MaxAhead == 0 {
		c.MaxAhead = DefaultMaxAhead
	}
	switch {
	case len(c.Topics) == 0:
		return c, errors.New("no topic is given to be loaded")
	case c.SplitBytes < 1 || c.SplitBytes > maxSplitBytes:
		return c, fmt.Errorf("splits of %d bytes: give 1 up to %d", c.SplitBytes, int64(maxSplitBytes))
	case c.MaxLate < 0 || c.MaxAhead < 0:
		return c, fmt.Errorf("messages at most %v late and %v ahead: give 0 or more", c.MaxLate, c.MaxAhead)
	}
	return c, c.By.check()
}

// Plan plans a load for a MapReduce job and writes it into the folder, unless it is
// empty: see [Folder.Input], [Folder.Output] and [Folder.Commit]. It lays out what the
// last run has left. Partitions that are left out, as their broker is not reached or
// their log ends before what was loaded, are in [Plan.Problems]; it is an error when
// no broker could be asked.
func (f *Folder) Plan(ctx context.Context, cfg PlanConfig) (plan *Plan, err error) {
	err = f.locked(ctx, func(run int64) error {
		if plan, err = f.plan(ctx, cfg, run, false); err != nil || plan.Empty() {
			return err
		}
		return f.writePlan(ctx, plan)
	})
	return plan, err
}

func (f *Folder) writePlan(ctx context.Context, plan *Plan) error {
	whole, err := jsonFile(planFile, plan)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, s := range plan.Splits {
		line, err := s.Line()
		if err != nil {
			return err
		}
		lines.WriteString(line + "\n")
	}
	err = f.store.write(ctx, plansFolder+"/"+plan.ID, whole, content{splitsFile, []byte(lines.String())})
	if err != nil {
		return fmt.Errorf("write plan %s: %w", plan.ID, err)
	}
	return nil
}

// plan makes a plan that goes on from a run.
func (f *Folder) plan(ctx context.Context, cfg PlanConfig, run int64, local bool) (*Plan, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	for _, topic := range cfg.Topics {
		if err := f.store.checkTopic(topic); err != nil {
			return nil, err
		}
	}
	base, err := f.offsets(ctx, run)
	if err != nil {
		return nil, err
	}
	now := f.now()
	p := planner{
		cfg:  cfg,
		plan: &Plan{ID: newPlanID(run+1, now, local), Splits: []Split{}},
		at:   map[Partition]int64{}, maxSplits: f.maxSplits,
		settings: Settings{
			By: cfg.By, ArrivalMs: now.UnixMilli(), MaxLateMs: cfg.MaxLate.Milliseconds(), MaxAheadMs: cfg.MaxAhead.Milliseconds(),
			SchemaRegistry: cfg.SchemaRegistry,
		},
	}
	for _, o := range base {
		p.at[o.Partition] = o.Next
	}
	if err := p.askAll(ctx); err != nil {
		return nil, err
	}
	p.missing(base)
	for q, next := range p.at {
		p.plan.Offsets = append(p.plan.Offsets, Offset{q, next})
	}
	slices.SortFunc(p.plan.Offsets, func(a, b Offset) int { return a.Partition.Compare(b.Partition) })
	return p.plan, p.plan.check(base)
}

// planner makes one plan.
type planner struct {
	cfg      PlanConfig
	plan     *Plan
	settings Settings
	at       map[Partition]int64 // up to where each partition is loaded, and then will be
	asked    []Partition         // that brokers have
	silent   map[int32]bool      // brokers that were not reached

	maxSplits int
}

// askAll plans the partitions of every broker. One that fails keeps only its own
// partitions out.
func (p *planner) askAll(ctx context.Context) error {
	p.silent = map[int32]bool{}
	var errs []error
	for _, b := range p.cfg.Brokers {
		if err := p.ask(ctx, b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err = fmt.Errorf("broker %d at %s: %w", b.ID, b.Addr(), err)
			errs = append(errs, err)
			p.silent[b.ID] = true
			p.problem("%v: its partitions wait", err)
		}
	}
	if len(errs) == len(p.cfg.Brokers) {
		return errors.Join(append([]error{errors.New("no broker could be asked what it holds")}, errs...)...)
	}
	return nil
}

func (p *planner) problem(format string, args ...any) {
	p.plan.Problems = append(p.plan.Problems, fmt.Sprintf(format, args...))
}

// held is what a broker holds of a partition.
type held struct {
	Partition
	first, watermark int64
}

func (p *planner) ask(ctx context.Context, b registry.Broker) error {
	conn, err := client.Dial(ctx, b.Addr(), p.cfg.Client)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // what it was for has been answered, or failed
	// All topics: a broker that does not have one of those asked for would refuse.
	states, err := conn.Topics(ctx)
	if err != nil {
		return err
	}
	var partitions []held
	for _, s := range states {
		if slices.Contains(p.cfg.Topics, s.Topic) {
			partitions = append(partitions, held{Partition{s.Topic, b.ID, s.Partition}, s.First, s.Watermark})
		}
	}
	slices.SortFunc(partitions, func(a, b held) int { return a.Partition.Compare(b.Partition) })
	for _, h := range partitions {
		p.asked = append(p.asked, h.Partition)
		if err := p.add(ctx, conn, b.Addr(), h); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			p.problem("%v is left out: %v", h.Partition, err)
			if conn.Err() != nil {
				return err
			}
		}
	}
	return nil
}

// add plans one partition. After an error nothing of it is in the plan.
func (p *planner) add(ctx context.Context, conn *client.Conn, address string, h held) error {
	from, known := p.at[h.Partition]
	if !known {
		from = h.first // what was deleted before the first load was nobody's
	}
	if from > h.watermark {
		return fmt.Errorf("it is loaded up to offset %d, and its log at %s ends at %d: the topic was deleted and made again, or the broker has lost its log. Load it into another output folder", from, address, h.watermark)
	}
	start := max(from, h.first)
	ends, err := p.cut(ctx, conn, h, start)
	if err != nil {
		return err
	}
	if start > from {
		p.plan.Gaps = append(p.plan.Gaps, Gap{h.Partition, from, start})
	}
	for _, end := range ends {
		p.plan.Splits = append(p.plan.Splits, Split{
			Plan: p.plan.ID, Number: len(p.plan.Splits), Partition: h.Partition, Address: address, Start: start, End: end, Settings: p.settings,
		})
		start = end
	}
	// Also where there is nothing to be loaded yet: what retention takes from now on is
	// a gap.
	p.at[h.Partition] = start
	return nil
}

// missing tells of partitions that were loaded once and that no broker has now, and of
// topics that nobody has heard of.
func (p *planner) missing(base []Offset) {
	for _, topic := range p.cfg.Topics {
		known := func(o Offset) bool { return o.Topic == topic }
		if !slices.ContainsFunc(p.asked, func(q Partition) bool { return q.Topic == topic }) && !slices.ContainsFunc(base, known) {
			p.problem("topic %s: no broker that was asked has it", topic)
		}
	}
	registered := map[int32]bool{}
	for _, b := range p.cfg.Brokers {
		registered[b.ID] = true
	}
	for _, o := range base {
		switch {
		case !slices.Contains(p.cfg.Topics, o.Topic) || slices.Contains(p.asked, o.Partition) || p.silent[o.Broker]:
		case !registered[o.Broker]:
			p.problem("%v, loaded up to offset %d, waits: broker %d is not registered", o.Partition, o.Next, o.Broker)
		default:
			p.problem("%v, loaded up to offset %d, is gone: broker %d does not have it any more", o.Partition, o.Next, o.Broker)
		}
	}
}
