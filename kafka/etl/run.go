package etl

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sync/errgroup"
)

// Defaults of [RunConfig].
const (
	DefaultTasks    = 4
	DefaultAttempts = 4 // Hadoop's mapreduce.map.maxattempts
)

// RunConfig says how a load is run on one machine.
type RunConfig struct {
	PlanConfig
	Map      MapConfig
	Tasks    int // splits that are mapped at once. 0: [DefaultTasks]
	Attempts int // at a split, before the load fails. 0: [DefaultAttempts]
	// Planned, if not nil, is called with the plan before it is carried out.
	Planned func(*Plan)
}

// Run loads once, without Hadoop: it plans, maps and commits. The output folder must be
// a local one. It returns nothing when there was nothing to load. When it fails, or is
// killed at any point, the next one goes on from what was published, and removes what
// this one has left.
func (f *Folder) Run(ctx context.Context, cfg RunConfig) (m *Manifest, err error) {
	l, ok := f.store.(*local)
	if !ok {
		return nil, fmt.Errorf("%s is no local folder: plan, map by Hadoop, and commit", f.store.url(""))
	}
	err = f.locked(ctx, func(run int64) error {
		m, err = f.load(ctx, cfg, l, run)
		return err
	})
	return m, err
}

// load loads what came since a run. The caller holds the lock.
func (f *Folder) load(ctx context.Context, cfg RunConfig, l *local, run int64) (*Manifest, error) {
	// Before anything new takes room: on a disk that is full this is what makes some.
	if err := f.tidy(ctx, true); err != nil {
		return nil, err
	}
	plan, err := f.plan(ctx, cfg.PlanConfig, run, true)
	if err != nil {
		return nil, err
	}
	if cfg.Planned != nil {
		cfg.Planned(plan)
	}
	if plan.Empty() {
		return nil, nil
	}
	m, err := f.carryOut(ctx, cfg, l, plan)
	if err != nil {
		// What is published has another name by now.
		return m, errors.Join(err, f.store.remove(context.WithoutCancel(ctx), planOutput(plan.ID)))
	}
	return m, f.tidy(ctx, true)
}

// carryOut maps the splits of a plan and publishes what they have made.
func (f *Folder) carryOut(ctx context.Context, cfg RunConfig, l *local, plan *Plan) (*Manifest, error) {
	tasks, attempts := cfg.Tasks, cfg.Attempts
	if tasks <= 0 {
		tasks = DefaultTasks
	}
	if attempts <= 0 {
		attempts = DefaultAttempts
	}
	output := planOutput(plan.ID)
	results := make([]result, len(plan.Splits))
	g, mapping := errgroup.WithContext(ctx)
	g.SetLimit(tasks)
	for i, s := range plan.Splits {
		g.Go(func() (err error) {
			results[i], err = attempt(mapping, s, l, output, cfg.Map, attempts)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	made, err := f.store.tree(ctx, output)
	if err != nil {
		return nil, err
	}
	return f.commit(ctx, plan, results, made)
}

// attempt maps a split, again if that fails. Each attempt has a folder of its own.
func attempt(ctx context.Context, s Split, l *local, output string, cfg MapConfig, attempts int) (result, error) {
	var errs []error
	for n := range attempts {
		folder := fmt.Sprintf("%05d-%d", s.Number, n)
		r, err := mapTo(ctx, s, l, path.Join(output, folder), cfg)
		if err == nil {
			return result{r, path.Join(folder, filesFolder)}, nil
		}
		if ctx.Err() != nil {
			return result{}, errors.Join(err, ctx.Err())
		}
		// The room that it takes may be what the next one lacks.
		errs = append(errs, err, l.remove(ctx, path.Join(output, folder)))
		cfg.logAttempt(s, n, err)
	}
	return result{}, fmt.Errorf("%d attempts have failed: %w", attempts, errors.Join(errs...))
}

func (c MapConfig) logAttempt(s Split, n int, err error) {
	if c.Logger != nil {
		c.Logger.Warn("an attempt has failed", "split", s.Number, "topic", s.Topic, "partition", s.Partition.String(), "attempt", n, "error", err)
	}
}
