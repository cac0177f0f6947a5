package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"kafkalab/kafka/etl"
	"kafkalab/kafka/registry"
)

// lastLoadLimit is how long a load that is under way may go on after the command was
// asked to end.
const lastLoadLimit = 30 * time.Second

// run loads once, or again and again.
func (o *etlOptions) run(ctx context.Context, std stdio) error {
	f, reg, err := o.open(ctx, std.Err)
	if err != nil {
		return err
	}
	defer closeRegistry(reg, std.Err)
	log := slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	schemas, end, err := openLoadSchemas(o.plan.SchemaRegistry, log)
	if err != nil {
		return err
	}
	defer end()
	l := loader{o: o, std: std, folder: f, reg: reg, task: etl.MapConfig{Schemas: schemas, Logger: log}}
	for {
		begun := time.Now()
		err := l.once(ctx)
		if o.interval == 0 {
			return errors.Join(err, leftOut(l.problems))
		}
		if ctx.Err() != nil {
			return nil
		}
		l.note(err)
		select {
		case <-time.After(o.interval - time.Since(begun)):
		case <-ctx.Done():
			return nil
		}
	}
}

// loader runs loads, one after the other.
type loader struct {
	o      *etlOptions
	std    stdio
	folder *etl.Folder
	reg    *registry.Registry
	task   etl.MapConfig

	problems []string // of the last plan
	failed   string   // the error that was told last
}

// once runs one load. When ctx ends, what is under way is finished, but for a time.
func (l *loader) once(ctx context.Context) error {
	brokers, err := l.o.zk.liveBrokers(ctx, l.reg, l.std.Err)
	if err != nil {
		return err
	}
	loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		// A load that hangs ends with it. The timer needs no owner: it can only end what
		// has ended.
		time.AfterFunc(lastLoadLimit, cancel)
	})()
	var gaps []etl.Gap
	cfg := etl.RunConfig{PlanConfig: l.o.plan, Tasks: l.o.tasks, Map: l.task}
	cfg.Brokers = brokers
	cfg.Planned = func(p *etl.Plan) {
		gaps = p.Gaps
		shown := *p
		if slices.Equal(p.Problems, l.problems) {
			shown.Problems = nil // they were told, and go on
		}
		l.problems = p.Problems
		tellPlan(l.std.Err, &shown)
	}
	m, err := l.folder.Run(loading, cfg)
	if m != nil {
		err = errors.Join(err, l.o.tell(l.std, m, gaps))
	}
	return err
}

// note tells of a load that has failed, once as long as it is the same failure.
func (l *loader) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != l.failed {
		fmt.Fprintf(l.std.Err, "kafka etl run: %s; trying again every %v\n", text, l.o.interval)
	}
	l.failed = text
}
