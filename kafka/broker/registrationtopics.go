package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// topicsAtOnce is how many topics are registered at the same time.
const topicsAtOnce = 16

// stepDeleted unregisters topics that were deleted. One that was made again since
// is registered anew after it.
func (g *registration) stepDeleted(ctx context.Context) error {
	g.mu.Lock()
	var names []string
	for name := range g.deleted {
		names = append(names, name)
	}
	g.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		g.forget(name)
		if err := g.registry.UnregisterTopic(ctx, name, g.broker.ID); err != nil {
			g.topicDeleted(name)
			return err
		}
	}
	return nil
}

// topicDeleted says that a topic was deleted. Its caller notifies g.topics.
func (g *registration) topicDeleted(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deleted[name] = true
}

// forget takes a topic as one that is neither registered nor to be unregistered.
func (g *registration) forget(name string) {
	if w := g.watches[name]; w != nil {
		w.Close() // without mu, which its function may be waiting for
		delete(g.watches, name)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.deleted, name)
	delete(g.nodes, name)
}

// stepTopics registers topics that are new, several at a time.
func (g *registration) stepTopics(ctx context.Context, s *sessionState) error {
	var mu sync.Mutex // of errs and made
	var errs []error
	var made []string
	var group errgroup.Group
	group.SetLimit(topicsAtOnce)
	for _, topic := range g.srv.logs.Topics() {
		partitions := g.srv.logs.Partitions([]byte(topic))
		g.mu.Lock()
		done := g.nodes[topic] == partitions
		g.mu.Unlock()
		if done {
			continue
		}
		group.Go(func() error {
			err := g.registry.RegisterTopic(ctx, s.Session, topic, g.broker.ID, partitions)
			if err == nil {
				g.mu.Lock()
				g.nodes[topic] = partitions
				g.mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				made = append(made, topic)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	for _, topic := range made {
		g.watchTopic(topic)
	}
	if len(errs) > 1 {
		return fmt.Errorf("%w (and %d topics more)", errs[0], len(errs)-1)
	}
	return errors.Join(errs...)
}

// watchTopic watches the node of a topic that was registered: without it nobody
// would find the topic's partitions at this broker, though it is ready. Somebody may
// delete it, alone or with all that is below a path.
//
// A watch from before is not kept: it may have told of a deletion after the
// registration before nodes knew of that, and would not tell it twice.
func (g *registration) watchTopic(topic string) {
	if w := g.watches[topic]; w != nil {
		w.Close() // without mu, which its function may be waiting for
	}
	g.watches[topic] = g.registry.WatchTopicBroker(topic, g.broker.ID, func(partitions int32, ok bool) {
		g.lookAtTopic(topic, partitions, ok)
	})
}

// lookAtTopic is called with the node of a topic, at first and after each change.
func (g *registration) lookAtTopic(topic string, partitions int32, ok bool) {
	g.mu.Lock()
	want, registered := g.nodes[topic]
	missing := registered && (!ok || partitions != want)
	if missing {
		delete(g.nodes, topic)
	}
	g.mu.Unlock()
	if missing {
		select {
		case g.topics <- struct{}{}:
		default: // it will look anyway
		}
	}
}

func (g *registration) unwatchTopics() {
	for _, w := range g.watches {
		w.Close()
	}
}
