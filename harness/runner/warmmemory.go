package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

// warmLimit bounds the touching of memory, which takes seconds, or most of a
// minute for 15 GB that a virtual machine's host has taken back.
const warmLimit = 5 * time.Minute

// warmMemory has the broker's host ready to give as much memory as a produce
// will fill with messages. Where a link holds them back the machine keeps up
// anyway; without one, chance would else decide the rates of systems and limits.
func (a *attempt) warmMemory(ctx context.Context) error {
	t := a.trial
	if a.spec.Work != resultfile.Produce || !t.scenario.Unshaped {
		return nil
	}
	binary, err := a.Broker.Binary(ctx, "testbed")
	if err != nil {
		return err
	}
	warming, cancel := context.WithTimeout(ctx, warmLimit)
	defer cancel()
	wanted := int64(min(float64(a.spec.total())*float64(t.system.StoredBytes)*11/10, 1<<62))
	out, err := a.Broker.Run(warming, binary, "warm-memory", strconv.FormatInt(wanted, 10))
	if err != nil {
		return fmt.Errorf("touching %d bytes of free memory of %s: %w", wanted, a.Broker.Name(), err)
	}
	var warmed measure.Warmed
	if err := json.Unmarshal(out, &warmed); err != nil {
		return fmt.Errorf("touching %d bytes of free memory of %s: %q: %w", wanted, a.Broker.Name(), out, err)
	}
	t.measure("memory_warmed_bytes", float64(warmed.Bytes))
	t.measure("memory_warming_seconds", warmed.Seconds)
	return nil
}
