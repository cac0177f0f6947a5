package rawlimit

import (
	"context"
	"slices"
)

// FanOut returns the queue itself: each of its consumers gets everything, as of
// a log.
func (c *client) FanOut(_ context.Context, queue string, groups int) ([]string, error) {
	return slices.Repeat([]string{queue}, groups), nil
}
