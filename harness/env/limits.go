package env

import (
	"context"
	"fmt"
	"strings"

	"kafkalab/harness/host"
)

// limits tries to hold something to what every broker is to have. Where that
// cannot be, a run is possible, and says so.
func (c checker) limits(ctx context.Context, h host.Host) {
	const check = "equal limits"
	wanted, err := c.site.Limits.WithDefaults(ctx, h)
	if err != nil {
		c.report(h.Name(), check, Note, err.Error(), "")
		return
	}
	held, err := host.Confine(ctx, h, wanted)
	if err != nil {
		// A run would refuse it.
		c.report(h.Name(), check, Missing, err.Error(), "change cores and memory of [broker] in the testbed file, or install the package util-linux")
		return
	}
	l := held.Limits()
	if err := held.Release(ctx); err != nil {
		c.report(h.Name(), check, Note, err.Error(), "")
		return
	}
	if l.MemoryBytes == 0 {
		mend := "run as root on the broker host"
		if !strings.Contains(l.Note, host.NeedsRoot) {
			mend = "see that the memory controller of control groups is mounted, and may be used, below /sys/fs/cgroup of the broker host; a container may hide or bar it"
		}
		c.report(h.Name(), check, Note, fmt.Sprintf("each broker has cores %s, and all memory: %s", l.Cores, l.Note), mend)
		return
	}
	c.report(h.Name(), check, OK, fmt.Sprintf("each broker has cores %s and %s of memory (%s)", l.Cores, host.FormatSize(l.MemoryBytes), l.Note), "")
}
