package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"kafkalab/kafka/audit"
	"kafkalab/kafka/etl"
	"kafkalab/kafka/message"
)

const auditCountAbout = `Counts the messages in the files that a load has published ("kafka etl run", or a
MapReduce job whose output was copied here), as one tier, and ends. Files that are
counted already are passed over: it may be called again and again, also while a load
runs. See "kafka audit --help" for what becomes of it.

A window is open until --lag, and then the --grace of the report, after its end: for
so long messages may be on their way to the load.`

const auditCountExamples = `  kafka audit count --tier load --dir loaded --topic clicks --state load.state
  kafka audit count --tier load --dir loaded --topic clicks --state load.state --audit-topic "" --lag 5m
`

// defaultLag is how far a load may be behind by default: about what the paper says of its
// own pipeline, from end to end.
const defaultLag = 10 * time.Second

func runAuditCount(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka audit count --tier NAME --dir DIR --topic T… --state FILE", auditCountAbout, auditCountExamples)
	var f checkerFlags
	f.add(fs)
	dir := fs.String("dir", "", "output folder of the load, on this machine")
	eventTopic := fs.String("audit-topic", audit.DefaultTopic, "topic of the monitoring events, if it is loaded too; \"\": it is not looked at")
	lag := fs.Duration("lag", defaultLag, "how far the load may be behind: what was there so long ago is taken to be loaded")
	fs.require("dir")
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	if err := f.check(fs); err != nil {
		return err
	}
	if *lag < 0 {
		return usagef("--lag %v: 0 or more is wanted", *lag)
	}
	if *eventTopic != "" {
		if err := message.CheckTopic(*eventTopic); err != nil {
			return usagef("--audit-topic: %w", err)
		}
	}
	f.cfg.Logger = slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := f.open(true); err != nil {
		return err
	}
	defer f.close()
	through := time.Now().Add(-*lag)
	loaded, err := loadedFiles(*dir)
	if err != nil {
		return err
	}
	if err := audit.CountLoaded(ctx, f.cfg, loaded, *eventTopic, through); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return errors.New("interrupted: nothing of this call is counted")
		}
		return err
	}
	return nil
}

// loadedFiles returns the files of a load, each known by its path below the folder.
func loadedFiles(dir string) ([]audit.Loaded, error) {
	files, err := etl.Files(dir)
	if err != nil {
		return nil, err
	}
	loaded := make([]audit.Loaded, len(files))
	for i, f := range files {
		name, err := filepath.Rel(dir, f.Path)
		if err != nil {
			return nil, err
		}
		loaded[i] = audit.Loaded{
			Name: filepath.ToSlash(name), Topic: f.Topic, Until: f.Date.AddDate(0, 0, 1),
			Read: func(each func(payload []byte) error) error {
				return etl.ReadFile(f.Path, func(_ int64, payload []byte) error { return each(payload) })
			},
		}
	}
	return loaded, nil
}
