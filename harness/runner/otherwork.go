package runner

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/host"
)

const (
	// busyShare of the processors, though at least busyLeast of one, is more
	// than a quiet machine uses for itself.
	busyShare = 0.1
	busyLeast = 0.2
)

// look looks how busy the hosts are while nothing of ours runs, once they are
// ready, and notes in the attempt if that is more than a quiet machine would be:
// rates that were measured beside other work are too low and spread more widely.
func (r *run) look(ctx context.Context, t *trial) {
	if r.Ready != nil {
		if err := r.Ready(ctx); err != nil && ctx.Err() == nil {
			r.note(t, "%v", err)
		}
	}
	hosts := []host.Host{r.Broker} // both share one machine
	if r.Broker.Kind() == host.SSH {
		hosts = append(hosts, r.Client)
	}
	before := make([]string, len(hosts))
	for i, h := range hosts {
		before[i] = stat(ctx, h)
	}
	select {
	case <-time.After(r.Look):
	case <-ctx.Done():
		return
	}
	for i, h := range hosts {
		load, cores, ok := otherWork(before[i], stat(ctx, h))
		if !ok || load <= max(busyLeast, busyShare*float64(cores)) {
			continue
		}
		machine := "the machine"
		if len(hosts) > 1 {
			machine = h.Name()
		}
		t.attempt.OtherLoad = max(t.attempt.OtherLoad, math.Round(load*100)/100)
		r.note(t, "%s was busy with other work: load %.1f on %d cores", machine, load, cores)
	}
}

// stat returns the counters of a host's processors, or "" when it does not
// tell: if that matters, whatever comes next fails and says why.
func stat(ctx context.Context, h host.Host) string {
	b, err := h.ReadFile(ctx, "/proc/stat")
	if err != nil {
		return ""
	}
	return string(b)
}

// otherWork says how many processors were busy on average between two readings
// of /proc/stat, and how many there are.
func otherWork(before, after string) (load float64, cores int, ok bool) {
	busyBefore, allBefore, _, ok := processors(before)
	if !ok {
		return 0, 0, false
	}
	busyAfter, allAfter, cores, ok := processors(after)
	if !ok || allAfter <= allBefore {
		return 0, 0, false
	}
	return float64(busyAfter-busyBefore) / float64(allAfter-allBefore) * float64(cores), cores, true
}

// processors adds up a reading of /proc/stat, in ticks. What a virtual machine
// was kept waiting for (steal) is other work too; guests are in user and nice
// already.
func processors(text string) (busy, all int64, cores int, ok bool) {
	const idle, ioWait, guest = 3, 4, 8
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu"):
			continue
		case fields[0] != "cpu":
			cores++
			continue
		}
		for i, f := range fields[1:] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, 0, 0, false
			}
			if i >= guest {
				break
			}
			all += n
			if i != idle && i != ioWait {
				busy += n
			}
		}
	}
	return busy, all, cores, all > 0 && cores > 0
}
