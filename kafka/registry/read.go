package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/coord"
)

// readsAtOnce is how many values are asked for at the same time: as many as make
// one wait for the network of many, and no load that ZooKeeper would notice.
const readsAtOnce = 16

// names returns the names of the nodes below a path, sorted; none if the path is
// not there.
func (r *Registry) names(ctx context.Context, path string) ([]string, error) {
	names, _, err := r.client.Children(ctx, path)
	if errors.Is(err, coord.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// values returns the values of the nodes below a path by name.
func (r *Registry) values(ctx context.Context, path string) (map[string][]byte, error) {
	names, err := r.names(ctx, path)
	if err != nil {
		return nil, err
	}
	return r.valuesOf(ctx, path, names)
}

// valuesOf returns the values of named nodes below a path, but for those that are
// not there.
func (r *Registry) valuesOf(ctx context.Context, path string, names []string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(names))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for _, name := range names {
		g.Go(func() error {
			data, _, err := r.client.Get(ctx, path+"/"+name)
			if errors.Is(err, coord.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			values[name] = data
			return nil
		})
	}
	return values, g.Wait()
}

// parseNodes reads the names and values of the nodes below a path, in no order,
// and gathers those that make no sense.
func parseNodes(path string, values map[string][]byte, parse func(name, value string) error) error {
	var bad []BadNode
	for name, value := range values {
		if err := parse(name, string(value)); err != nil {
			bad = append(bad, BadNode{Path: path + "/" + name, Err: err})
		}
	}
	if len(bad) == 0 {
		return nil
	}
	slices.SortFunc(bad, func(a, b BadNode) int { return cmp.Compare(a.Path, b.Path) })
	return &BadNodesError{Nodes: bad}
}
