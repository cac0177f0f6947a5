package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

const (
	defaultAutoCommit = 10 * time.Second // 0.7's autocommit.interval.ms
	defaultSession    = 6 * time.Second  // 0.7's zk.sessiontimeout.ms
)

// handoverWait is how long a partition that is given up waits for lines to be
// written out, so that the next owner does not print them again.
const handoverWait = time.Second

// quiet is the log of connections to brokers: that one is away for long is an error
// of its partitions, which is told.
var quiet = slog.New(slog.DiscardHandler)

// checkGroup checks the flags of a member of a group, and returns what it
// subscribes to.
func (o *consumeOptions) checkGroup() (sub registry.Subscription, err error) {
	named, ways := map[string]int{}, 0
	for _, t := range o.topics {
		named[t] = o.streams
	}
	for _, given := range []bool{len(o.topics) > 0, o.white != "", o.black != ""} {
		if given {
			ways++
		}
	}
	switch {
	case o.group == "":
		return sub, usagef("--group is missing: a name that all members of the group give")
	case ways == 0:
		return sub, usagef("--topic is missing, or --whitelist or --blacklist")
	case ways > 1:
		return sub, usagef("--topic, --whitelist and --blacklist: one of them is wanted")
	case o.autoCommit <= 0:
		return sub, usagef("--autocommit-interval %v: more than 0 is wanted", o.autoCommit)
	case o.white != "":
		sub, err = registry.WhiteList(o.white, o.streams)
	case o.black != "":
		sub, err = registry.BlackList(o.black, o.streams)
	default:
		sub, err = registry.Static(named)
	}
	if err == nil {
		err = registry.CheckGroup(o.group)
	}
	if err != nil {
		return sub, usageError{err}
	}
	return sub, nil
}

// groupConfig returns the settings of the member.
func (o *consumeOptions) groupConfig(r *registry.Registry) consumer.GroupConfig {
	cfg := consumer.GroupConfig{
		Registry: r, Group: o.group, WhiteList: o.white, BlackList: o.black,
		OffsetReset: o.reset, AutoCommit: o.autoCommit, HandoverWait: handoverWait,
		Feed: consumer.PartitionConfig{FetchBytes: int(*o.fetchSize), MaxDecompressedBytes: int(*o.maxDecompressed), Logger: quiet},
	}
	if len(o.topics) == 0 {
		cfg.Streams = o.streams
		return cfg
	}
	cfg.Topics = map[string]int{}
	for _, t := range o.topics {
		cfg.Topics[t] = o.streams
	}
	return cfg
}

// consumeGroup consumes as a member of a group.
func (o *consumeOptions) consumeGroup(ctx context.Context, std stdio) (err error) {
	sub, err := o.checkGroup()
	if err != nil {
		return err
	}
	o.zk.joins = true
	reg, err := o.zk.open(ctx, std.Err)
	if err != nil {
		return err
	}
	notes := &groupNotes{out: std.Err, joined: make(chan struct{})}
	defer func() {
		var told *notLeftError
		if errors.As(err, &told) {
			closeRegistry(reg, io.Discard) // that the session could not be ended is told
			return
		}
		closeRegistry(reg, notes)
	}()
	cfg := o.groupConfig(reg)
	notes.deletions = &deletions{reg}
	notes.hook(&cfg, o.zk.session)
	var end *groupEnd
	if o.exit {
		end = &groupEnd{zk: o.zk, reg: reg, connect: o.connect, group: o.group, notes: notes}
		if err := end.find(ctx, sub); err != nil {
			return err
		}
	}
	g, err := consumer.OpenGroup(ctx, cfg)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(notes, "member %s of group %s\n", g.ID(), o.group)
	close(notes.joined)
	if o.avro.reader != nil {
		o.avro.reader.notes = notes // several streams tell of what they cannot read
	}
	p := &groupPrinter{out: std.Out, json: o.json, avro: o.avro.reader, max: o.max, end: end, seek: g.Seek, note: notes.problem}
	missing := &missing{zk: o.zk, reg: reg, group: o.group, sub: sub}
	err = p.printAll(ctx, g, groupStreams(g, cfg),
		func(ctx context.Context) { tellZooKeeper(ctx, reg.Client(), notes) },
		func(ctx context.Context) { missing.tell(ctx, g, notes) })
	leaving := &leaving{group: g, client: reg.Client(), session: o.zk.session, notes: notes}
	return errors.Join(err, leaving.leave(ctx))
}

// groupStreams returns all streams of a member.
func groupStreams(g *consumer.Group, cfg consumer.GroupConfig) []*consumer.GroupStream {
	if cfg.Topics == nil {
		return g.FilterStreams()
	}
	var streams []*consumer.GroupStream
	for t := range cfg.Topics {
		streams = append(streams, g.Streams(t)...)
	}
	return streams
}

// groupNotes tells the user which partitions come and go, and what goes wrong in
// the group.
type groupNotes struct {
	out    io.Writer
	joined chan struct{} // closed once the member was named
	*deletions
	mu    sync.Mutex
	ended map[string]bool // topics whose end was told
}

// Write takes a line, or several, of what is told.
func (n *groupNotes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.Write(p)
}

// problem tells of an error that is not the end. That the topic of a partition was
// deleted is told when the partition is given up.
func (n *groupNotes) problem(err error) {
	var of *consumer.PartitionError
	if errors.As(err, &of) && errors.Is(err, wire.CodeWrongPartition) && n.deleted(context.Background(), of.Topic, of.Broker) {
		return
	}
	_, _ = fmt.Fprintln(n, err)
}

// hook lets a group tell of itself, in lines that come after that of its name. The
// members' sessions last so long after an end that they could not tell of.
func (n *groupNotes) hook(cfg *consumer.GroupConfig, session time.Duration) {
	log := &groupLog{notes: n, session: session, deletions: n.deletions}
	cfg.Logger = log.logger()
	cfg.OnAssigned = func(ctx context.Context, partitions []consumer.TopicPartition) {
		select {
		case <-n.joined:
		case <-ctx.Done():
		}
		log.came()
		n.assigned(partitions)
	}
	cfg.OnRelease = func(ctx context.Context, partitions []consumer.TopicPartition, lost bool) error {
		n.released(ctx, partitions, lost)
		return nil
	}
}

// released tells of partitions that are given up. A topic that was deleted is told of
// once: its partitions may be lost one after the other.
func (n *groupNotes) released(ctx context.Context, partitions []consumer.TopicPartition, lost bool) {
	var others []consumer.TopicPartition
	for _, p := range partitions {
		switch {
		case !n.deleted(ctx, p.Topic, p.Partition.Broker):
			others = append(others, p)
		case n.first(p.Topic):
			_, _ = fmt.Fprintf(n, "topic %q was deleted: there is nothing to read of it any more\n", p.Topic)
		}
	}
	if lost {
		n.say("lost", others)
	} else {
		n.say("giving up", others)
	}
}

// first says whether the end of a topic was not told yet.
func (n *groupNotes) first(topic string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended[topic] {
		return false
	}
	if n.ended == nil {
		n.ended = map[string]bool{}
	}
	n.ended[topic] = true
	return true
}

// assigned tells of partitions that this member reads now.
func (n *groupNotes) assigned(partitions []consumer.TopicPartition) {
	n.mu.Lock()
	for _, p := range partitions {
		delete(n.ended, p.Topic) // it is there again
	}
	n.mu.Unlock()
	n.say("now reading", partitions)
}

func (n *groupNotes) say(what string, partitions []consumer.TopicPartition) {
	if len(partitions) == 0 {
		return
	}
	names := make([]string, len(partitions))
	for i, p := range partitions {
		names[i] = p.String()
	}
	// A note that cannot be written is no reason to stop consuming.
	_, _ = fmt.Fprintf(n, "%s %s\n", what, strings.Join(names, ", "))
}
