package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"kafkalab/kafka/registry"
)

// endPoll is how often a member that is to end looks how far the others are, and
// tells them how far it is itself.
const endPoll = time.Second

// groupEnd is what a group has to get through before --exit-at-end is content:
// the log ends, at the start, of all partitions of its topics.
type groupEnd struct {
	zk      zkOptions
	reg     *registry.Registry
	connect *connector
	group   string
	notes   io.Writer

	brokers []registry.Broker // at the start

	mu      sync.Mutex
	missing map[partitionID]int64 // log ends that the group has not come to
}

// find asks the brokers for the log ends of the topics that are subscribed to.
// Those that are named must be there, and one at least.
func (e *groupEnd) find(ctx context.Context, sub registry.Subscription) (err error) {
	if e.brokers, err = e.zk.liveBrokers(ctx, e.reg, e.notes); err != nil {
		return err
	}
	states, err := brokerStates(ctx, e.connect, e.brokers, sub.Topics()...)
	if err != nil {
		return err
	}
	e.missing = map[partitionID]int64{}
	found := map[string]bool{}
	for id, s := range states {
		if !sub.Matches(id.topic) {
			continue
		}
		found[id.topic] = true
		if s.First < s.LogEnd {
			e.missing[id] = s.LogEnd
		}
	}
	for _, t := range sub.Topics() {
		if !found[t] {
			return noTopicAtAll(t, len(e.brokers))
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("no topic is one that %s takes: \"kafka topics list\" names those that are there", sub.Text())
	}
	return nil
}

// reach takes in how far lines of a partition go. When they are the last that is
// wanted of all partitions it says so, and how many of them are.
func (e *groupEnd) reach(id partitionID, lines []lineEnd) (wanted int, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	end, missing := e.missing[id]
	if !missing {
		return 0, len(e.missing) == 0
	}
	for i, l := range lines {
		if l.next >= end {
			delete(e.missing, id)
			return i + 1, len(e.missing) == 0
		}
	}
	return 0, false
}

// watch calls done when the group has come to all ends, also by other members
// and where there was nothing to print. Until then it commits now and then, for
// others that wait in the same way.
func (e *groupEnd) watch(ctx context.Context, commit func(context.Context) error, done func()) error {
	poll, check := time.NewTicker(endPoll), time.NewTicker(endCheckInterval)
	defer poll.Stop()
	defer check.Stop()
	for {
		err := e.lookUp(ctx)
		if err == nil && len(e.left()) == 0 {
			done()
			return nil
		}
		e.problem(ctx, err)
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
			if err := e.stillThere(ctx); err != nil {
				return err
			}
		case <-poll.C:
			e.problem(ctx, commit(ctx))
		}
	}
}

// problem tells what keeps the end from being found, unless it is the end of ctx.
func (e *groupEnd) problem(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(e.notes, err)
	}
}

// left returns what the group has not come to.
func (e *groupEnd) left() map[partitionID]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.missing)
}

// lookUp takes in what the group has committed.
func (e *groupEnd) lookUp(ctx context.Context) error {
	topics := map[string]bool{}
	for id := range e.left() {
		topics[id.topic] = true
	}
	for t := range topics {
		offsets, err := e.reg.Offsets(ctx, e.group, t)
		if err := skipBad(err, e.notes); err != nil {
			return err
		}
		for p, offset := range offsets {
			e.reach(partitionID{t, p}, []lineEnd{{next: offset}})
		}
	}
	return nil
}

// stillThere looks whether the ends still can come: they do not when a topic is
// deleted meanwhile. A broker that cannot be asked may come back.
func (e *groupEnd) stillThere(ctx context.Context) error {
	left := e.left()
	topics := map[string]bool{}
	for id := range left {
		topics[id.topic] = true
	}
	if len(topics) == 0 {
		return nil
	}
	for _, b := range e.brokers {
		states, err := brokerStates(ctx, nil, []registry.Broker{b}, slices.Sorted(maps.Keys(topics))...)
		if err != nil {
			e.problem(ctx, err)
			continue
		}
		for id, end := range left {
			if now := states[id].LogEnd; id.Broker == b.ID && now < end {
				return fmt.Errorf("the log of %v ended at offset %d at the start and ends at %d now: its topic was deleted, and perhaps made anew", id, end, now)
			}
		}
	}
	return nil
}
