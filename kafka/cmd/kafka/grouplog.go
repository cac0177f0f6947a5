package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// groupLog puts what a group logs into lines for the user: what goes wrong, in words
// that say what comes of it. What is told elsewhere is left out: that ZooKeeper is
// away ([tellZooKeeper]) and that a topic was deleted, with all that follows from it.
type groupLog struct {
	notes io.Writer
	*deletions
	session time.Duration // how long the session of a member may last after its end

	mu      sync.Mutex
	waiting string // the owners that are waited for, as they were told last
}

// noLease is how the group says that nothing of a partition is read as long as it is
// not known whether that still is its own: while ZooKeeper is away, or after a pause of the
// process. It has no error that could be told from others.
const noLease = "no lease on a partition"

// logger returns the log.
func (l *groupLog) logger() *slog.Logger { return slog.New(l) }

// Enabled implements slog.Handler.
func (l *groupLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs implements slog.Handler: who is meant, group and consumer, is known.
func (l *groupLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *groupLog) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l *groupLog) Handle(ctx context.Context, r slog.Record) error {
	var cause error
	var more []string
	deleted := false
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Any().(type) {
		case error:
			cause = errors.Join(cause, v)
		case consumer.TopicPartition:
			deleted = deleted || l.deleted(ctx, v.Topic, v.Partition.Broker)
			more = append(more, v.String())
		default:
			more = append(more, a.Key+" "+a.Value.String())
		}
		return true
	})
	owned := ownersIn(cause)
	switch {
	case len(owned) > 0:
		l.waitFor(owned)
		return nil
	case deleted, strings.HasPrefix(r.Message, noLease), errors.Is(cause, coord.ErrUnavailable), errors.Is(cause, coord.ErrExpired):
		return nil
	case errors.Is(cause, registry.ErrNotOwner): // it was told that the partition is lost
		return nil
	}
	line := r.Message
	if len(more) > 0 {
		line += " (" + strings.Join(more, ", ") + ")"
	}
	if cause != nil {
		line += ": " + cause.Error()
	}
	_, err := fmt.Fprintln(l.notes, line)
	return err
}

// waitFor tells which partitions are still another member's, unless that was the last
// that was told of them. It is so after the end of a member that could not say so.
func (l *groupLog) waitFor(owned []*registry.OwnedError) {
	lines := make([]string, len(owned))
	for i, o := range owned {
		lines[i] = fmt.Sprintf("waiting for %s %v: still owned by %s, whose session may last up to %v\n", o.Topic, o.Partition, o.Owner, l.session)
	}
	slices.Sort(lines)
	text := strings.Join(lines, "")
	l.mu.Lock()
	defer l.mu.Unlock()
	if text == l.waiting {
		return
	}
	l.waiting = text
	_, _ = io.WriteString(l.notes, text)
}

// came says that partitions have come to this member: who owned them before may be
// told of again.
func (l *groupLog) came() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = ""
}

// ownersIn returns all errors that name another owner of a partition.
func ownersIn(err error) (owned []*registry.OwnedError) {
	if o, ok := err.(*registry.OwnedError); ok {
		return []*registry.OwnedError{o}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			owned = append(owned, ownersIn(err)...)
		}
	case interface{ Unwrap() error }:
		return ownersIn(e.Unwrap())
	}
	return owned
}
