package runner

import (
	"context"
	"errors"
)

// rebalanceGroup has the consumers of a group join and leave.
func (r *run) rebalanceGroup(ctx context.Context, g group) error {
	return errors.New("rebalanceGroup: not here")
}
