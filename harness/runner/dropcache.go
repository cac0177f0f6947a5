package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kafkalab/harness/measure"
)

// dropLimit bounds the dropping of a store from the page cache: everything that
// is not on the disk yet is written first.
const dropLimit = 10 * time.Minute

// dropCache makes what the server stores leave the page cache of its host. What
// stays there, such as the files that the server itself has mapped, is kept as
// a measure.
func (s *session) dropCache(ctx context.Context, t *trial) error {
	s.enter(t, DropCache, 0)
	binary, err := s.Broker.Binary(ctx, "testbed")
	if err != nil {
		return err
	}
	dropping, cancel := context.WithTimeout(ctx, dropLimit)
	defer cancel()
	out, err := s.Broker.Run(dropping, binary, "drop-cache", s.server.StoreDir())
	if err != nil {
		return fmt.Errorf("dropping %s from the page cache of %s: %w", s.server.StoreDir(), s.Broker.Name(), err)
	}
	var left measure.Cached
	if err := json.Unmarshal(out, &left); err != nil {
		return fmt.Errorf("dropping %s from the page cache of %s: %q: %w", s.server.StoreDir(), s.Broker.Name(), out, err)
	}
	t.measure("cache_left_bytes", float64(left.CachedBytes))
	return nil
}
