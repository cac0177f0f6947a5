package host

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"kafkalab/results/resultfile"
)

// Confined is a host whose Start holds every program, and all that it starts, to
// limits. Everything else is the host's own: what Run runs is not held.
//
// Cores are held by the affinity that a program inherits (taskset), which needs
// no rights. Memory is held by a control group that is made for it, of version
// 2 where the machine's unified hierarchy has the memory controller, else of
// version 1; that needs root. Swap is not to be used. The group is removed by
// Release, or, whatever happens to this program, by the host's guard, which
// also ends what is left in it.
type Confined struct {
	Host
	m *machine
	// held is what is held. Where memory could not be, it is 0 and note says why.
	held Limits
	note string
	// group is the folder of the control group, "" for none, and version its.
	group   string
	version int

	releaseOnce sync.Once
	releaseErr  error
}

// confinements counts those of this program, for the groups' names.
var confinements atomic.Int64

// Confine makes limits for what is started on a host from now on. Cores that
// the host has not, and hosts that are none of this package, are errors. Memory
// that cannot be held is none: the note of [Confined.Limits] says why.
func Confine(ctx context.Context, h Host, l Limits) (*Confined, error) {
	m := machineOf(h)
	if m == nil {
		return nil, fmt.Errorf("limits of %s: only a host of this package can be held to any", h.Name())
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("limits of %s: %w", h.Name(), err)
	}
	c := &Confined{Host: m, m: m, held: l}
	if l.Cores != "" {
		if err := c.checkCores(ctx); err != nil {
			return nil, fmt.Errorf("limits of %s: %w", h.Name(), err)
		}
	}
	if l.MemoryBytes > 0 {
		if err := c.makeGroup(ctx); err != nil {
			return nil, fmt.Errorf("limits of %s: %w", h.Name(), err)
		}
	}
	return c, nil
}

// machineOf returns what is behind a host of this package, nil for another.
func machineOf(h Host) *machine {
	switch h := h.(type) {
	case *machine:
		return h
	case *Confined:
		return h.m
	}
	return nil
}

// MemoryLimit is the memory that programs started on the host may use, 0 where
// they are not held. Servers that size themselves by the machine's memory must
// be told.
func MemoryLimit(h Host) int64 {
	if c, ok := h.(*Confined); ok {
		return c.held.MemoryBytes
	}
	return 0
}

// coresScript is held to the cores $1, and says which those are for the kernel,
// and which this shell may use. The kernel passes over cores that there are not,
// as long as one is left.
const coresScript = `command -v taskset >/dev/null 2>&1 || { echo "there is no program taskset: install the package util-linux" >&2; exit 1; }
mine=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
taskset -c "$1" sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null || echo none
echo "$mine"`

// checkCores makes sure that all cores are there, and writes them as the kernel
// does. A host's cores stay as they are: they are asked for once.
func (c *Confined) checkCores(ctx context.Context) error {
	out, err := c.m.once("cores\x00"+c.held.Cores, func() ([]byte, error) {
		return c.m.reach.shell(ctx, coresScript, c.held.Cores)
	})
	if err != nil {
		return err
	}
	held, all, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !coresPattern.MatchString(held) || countCores(held) != countCores(c.held.Cores) {
		return fmt.Errorf("cores %s: %s has the cores %s for programs of this user", c.held.Cores, c.Name(), all)
	}
	c.held.Cores = held
	return nil
}

// Limits says what is held and how.
func (c *Confined) Limits() resultfile.Limits {
	var parts []string
	if c.held.Cores != "" {
		parts = append(parts, "cores by the processes' affinity (taskset)")
	}
	switch {
	case c.group != "":
		parts = append(parts, fmt.Sprintf("memory by a control group of version %d, in which the page cache counts; no swap", c.version))
	case c.note == NeedsRoot:
		parts = append(parts, "memory not held: "+NeedsRoot+" on "+c.Name())
	case c.note != "":
		parts = append(parts, fmt.Sprintf("memory not held on %s: %s", c.Name(), c.note))
	default:
		parts = append(parts, "memory not held")
	}
	return resultfile.Limits{Cores: c.held.Cores, MemoryBytes: c.held.MemoryBytes, Note: strings.Join(parts, "; ")}
}

// Start starts a program that is held to the limits.
func (c *Confined) Start(ctx context.Context, cmd Command) (Process, error) {
	if cmd.Name == "" && len(cmd.Args) > 0 {
		cmd.Name = path.Base(cmd.Args[0])
	}
	cmd.confined = c
	return c.m.Start(ctx, cmd)
}

// joinScript joins the control group $2 unless that is empty, and becomes a
// program that is held to the cores $1, to all if that is empty. The pid stays.
const joinScript = `[ -z "$2" ] || echo $$ > "$2/cgroup.procs" || exit 126
if [ -n "$1" ]; then cores=$1; shift 2; exec taskset -c "$cores" "$@"; fi
shift 2; exec "$@"`

// words are the first two that joinScript takes.
func (c *Confined) words() (cores, group string) {
	if c == nil {
		return "", ""
	}
	return c.held.Cores, c.group
}

// defaultLimitsScript says which cores this shell may use, and the machine's
// memory.
const defaultLimitsScript = `sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
sed -n 's/^MemTotal:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/meminfo`

// WithDefaults fills in what limits leave open: all cores of the host, and the
// memory of the paper's machines, or three quarters of the host's if that is
// less.
func (l Limits) WithDefaults(ctx context.Context, h Host) (Limits, error) {
	m := machineOf(h)
	if m == nil || l.Cores != "" && l.MemoryBytes > 0 {
		return l, nil
	}
	out, err := m.reach.shell(ctx, defaultLimitsScript)
	if err != nil {
		return l, fmt.Errorf("cores and memory of %s: %w", h.Name(), err)
	}
	cores, memory, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	kib, err := strconv.ParseInt(memory, 10, 64)
	if err != nil || !coresPattern.MatchString(cores) {
		return l, fmt.Errorf("cores and memory of %s: unexpected output %q", h.Name(), out)
	}
	if l.Cores == "" {
		l.Cores = cores
	}
	if l.MemoryBytes == 0 {
		const mib = 1 << 20 // a round number is easier to read, and to type
		l.MemoryBytes = min(PaperMemoryBytes, kib*1024/4*3/mib*mib)
	}
	return l, nil
}
