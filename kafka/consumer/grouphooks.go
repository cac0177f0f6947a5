package consumer

import (
	"context"
	"fmt"
)

// callHook calls a function of the application and waits for it until HookTimeout
// or the end of ctx. One that does not return keeps further hooks from being called
// until it does, and holds up nothing else for longer than that.
func (g *Group) callHook(ctx context.Context, name string, hook func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.HookTimeout)
	defer cancel()
	select {
	case g.hooks <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s was not called, as an earlier hook has not returned: %w", name, ctx.Err())
	}
	done := make(chan error, 1)
	go func() { // Close waits for it, by the token
		defer func() { <-g.hooks }()
		done <- hook(ctx)
	}()
	select {
	case err := <-done:
		if err == nil {
			err = ctx.Err() // it has given up
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not returned: %w", name, ctx.Err())
	}
}

func (g *Group) tellAssigned(ctx context.Context, fresh []*ownership) error {
	if g.cfg.OnAssigned == nil {
		return nil
	}
	partitions := partitionsOf(fresh)
	return g.callHook(ctx, "OnAssigned", func(ctx context.Context) error {
		g.cfg.OnAssigned(ctx, partitions)
		return nil
	})
}

func (g *Group) tellRelease(ctx context.Context, leaving []*ownership, lost bool) error {
	if g.cfg.OnRelease == nil {
		return nil
	}
	partitions := partitionsOf(leaving)
	return g.callHook(ctx, "OnRelease", func(ctx context.Context) error {
		return g.cfg.OnRelease(ctx, partitions, lost)
	})
}

func partitionsOf(list []*ownership) []TopicPartition {
	partitions := make([]TopicPartition, len(list))
	for i, o := range list {
		partitions[i] = o.TopicPartition
	}
	return partitions
}
