package etl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/vfs"
)

const (
	fetchBytes    = 1 << 20  // of one pull: 0.7's client.buffer.size of its Hadoop consumer
	maxFetchBytes = 64 << 20 // the largest message that can be loaded
	// stallTimeout is how long a broker may give nothing of what it said it has, before
	// the attempt fails. Connections that end are made again within it.
	stallTimeout = 60 * time.Second
)

// HeaderReader returns the audit header of a payload: when and where it was made.
// [envelope.ErrNotEnvelope] says that it has none.
type HeaderReader func(ctx context.Context, payload []byte) (envelope.Header, error)

// MapConfig says how splits are mapped. The zero value is usable for splits without a
// schema registry.
type MapConfig struct {
	// Schemas knows the schemas of payloads; it must be there for a split that names a
	// registry, and is not used for others.
	Schemas SchemaSource
	// StallTimeout ends an attempt to whose requests the broker answers nothing for so
	// long. 0: one minute.
	StallTimeout time.Duration
	// Loaded, if not nil, is added to with every chunk: messages so far, for who shows
	// progress.
	Loaded *atomic.Int64
	Logger *slog.Logger // of connections and gaps; nil: nothing is logged
}

// Map reads a split from its broker and writes its messages into files below a folder
// that belongs to this attempt alone: a local path, a file: URL or an hdfs: URL, as
// Hadoop names a task's output folder. An attempt that fails leaves files there that
// nobody counts. Any number of splits may be mapped at once.
func Map(ctx context.Context, s Split, folder string, cfg MapConfig) (Result, error) {
	if err := s.check(); err != nil {
		return Result{}, err
	}
	if !isHDFS(folder) {
		root, err := localPath(folder)
		if err != nil {
			return Result{}, err
		}
		return mapTo(ctx, s, newLocal(vfs.OS(), root), "", cfg)
	}
	h, err := newHDFS(folder)
	if err != nil {
		return Result{}, err
	}
	dir, err := os.MkdirTemp("", "kafka-etl-")
	if err != nil {
		return Result{}, err
	}
	r, err := mapTo(ctx, s, newLocal(vfs.OS(), dir), "", cfg)
	if err == nil && len(r.Files) > 0 {
		err = h.put(ctx, filepath.Join(dir, filesFolder), "")
	}
	return r, errors.Join(err, os.RemoveAll(dir))
}

// mapTo maps a split into a folder of a local store.
func mapTo(ctx context.Context, s Split, to *local, folder string, cfg MapConfig) (Result, error) {
	if cfg.StallTimeout <= 0 {
		cfg.StallTimeout = stallTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if s.SchemaRegistry != "" && cfg.Schemas == nil {
		return Result{}, fmt.Errorf("%v: its schemas are at %s, and nothing is there to ask for them", s, s.SchemaRegistry)
	}
	t := &task{
		split: s, cfg: cfg,
		out:    newSorter(s, to, folder, cfg.Schemas),
		result: Result{Plan: s.Plan, Number: s.Number, Partition: s.Partition, Start: s.Start, End: s.End},
	}
	err := t.read(ctx)
	if err == nil {
		t.result.Files, err = t.out.finish()
	}
	t.result.Counts = t.out.counts
	if err != nil {
		return Result{}, fmt.Errorf("%v of broker %s, at offset %d: %w", s, s.Address, t.at, err)
	}
	return t.result, nil
}

// task is one attempt at a split.
type task struct {
	split  Split
	cfg    MapConfig
	out    *sorter
	result Result
	at     int64 // up to where the split is read

	// What the stream has told within its last call: that it was moved, as the log does
	// not begin where it was to read any more.
	moved bool
	to    int64
	stop  context.CancelFunc // ends the call, when nothing of the split is left
}

// read reads the whole split.
func (t *task) read(ctx context.Context) (err error) {
	t.at = t.split.Start
	s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{
		Broker: t.split.Address, Topic: t.split.Topic, Partition: t.split.Partition.Number, Start: t.split.Start,
		Reset: consumer.ResetSmallest, FetchBytes: fetchBytes, MaxFetchBytes: maxFetchBytes, Logger: t.cfg.Logger,
		Hooks: consumer.Hooks{Reset: t.reset},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for t.at < t.split.End {
		if err := t.chunk(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// reset is called by the stream when retention has overtaken it.
func (t *task) reset(_, to int64) {
	t.moved, t.to = true, to
	if to < t.at || to >= t.split.End {
		t.stop() // there is nothing to wait for
	}
}

// chunk reads what the broker has sent next.
func (t *task) chunk(ctx context.Context, s *consumer.Stream) error {
	limited, cancel := context.WithTimeout(ctx, t.cfg.StallTimeout)
	defer cancel()
	t.stop = cancel
	chunk, err := s.NextChunk(limited)
	if t.moved {
		t.moved = false
		if t.to < t.at {
			return fmt.Errorf("the log begins at offset %d and ends before the split does: the topic was made anew, or the broker has lost its log", t.to)
		}
		g := Gap{t.split.Partition, t.at, min(t.to, t.split.End)}
		if g.End > g.Start {
			t.result.Gaps = append(t.result.Gaps, g)
			t.cfg.Logger.Warn("retention has overtaken the load", "topic", g.Topic, "partition", g.Partition.String(), "from", g.Start, "to", g.End)
		}
		if t.at = g.End; t.at == t.split.End {
			return nil
		}
	}
	if err != nil {
		return err
	}
	for chunk.Next() {
		offset := chunk.Offset()
		if offset >= t.split.End {
			if offset > t.split.End && t.at != t.split.End {
				return t.crooked(t.at)
			}
			t.at = t.split.End
			break
		}
		if err := t.out.add(ctx, offset, chunk.Message().Payload); err != nil {
			return err
		}
		if t.at = chunk.NextOffset(); t.at > t.split.End {
			return t.crooked(offset)
		}
	}
	if err := chunk.Err(); err != nil {
		return err
	}
	if t.at < t.split.End {
		t.at = chunk.NextOffset() // behind compressed messages that hold none
	}
	if t.cfg.Loaded != nil {
		t.cfg.Loaded.Add(t.out.counts.Messages - t.out.told)
		t.out.told = t.out.counts.Messages
	}
	return nil
}

// crooked is the error of a split that does not end where a message does.
func (t *task) crooked(at int64) error {
	return fmt.Errorf("it ends within the message at offset %d: the log is not the one that was planned for", at)
}
