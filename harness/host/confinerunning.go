package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Running is what the kernel says of a process that is held, or is to be.
type Running struct {
	PID     int
	Name    string // of the program, as the kernel has it
	Threads int
	Cores   string // Cpus_allowed_list
	// MemoryBytes is the limit of the control group that was made for it, 0 if
	// the process is in another one.
	MemoryBytes int64
}

// runningScript says of each process of the group $1 (version $2) and of each
// pid from $3 on: pid, threads, cores, whether it is in the group, and name.
// The limit as the kernel has it comes first.
const runningScript = `
g=$1 version=$2; shift 2
limit=0 all=
if [ -n "$g" ]; then
  if [ "$version" = 2 ]; then limit=$(cat "$g/memory.max"); else limit=$(cat "$g/memory.limit_in_bytes"); fi
  all=$(cat "$g/cgroup.procs")
fi
echo "$limit"
for p in $(printf '%s\n' "$@" $all | sort -un); do
  in=out; for q in $all; do [ "$p" = "$q" ] && in=in; done
  sed -n -e 's/^Name:[[:space:]]*/n /p' -e 's/^Threads:[[:space:]]*/t /p' -e 's/^Cpus_allowed_list:[[:space:]]*/c /p' "/proc/$p/status" 2>/dev/null |
  { name= threads= cores=
    while read -r key value; do case $key in n) name=$value;; t) threads=$value;; c) cores=$value;; esac; done
    [ -z "$threads" ] || echo "$p $threads $cores $in $name"; }
done`

// Running looks at the processes of those pids, and at all others that are in
// the control group with them. One that has ended is left out.
func (c *Confined) Running(ctx context.Context, pids ...int) ([]Running, error) {
	args := []string{c.group, strconv.Itoa(c.version)}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	out, err := c.m.reach.shell(ctx, runningScript, args...)
	if err != nil {
		return nil, fmt.Errorf("limits of processes on %s: %w", c.Name(), err)
	}
	running, err := parseRunning(string(out))
	if err != nil {
		return nil, fmt.Errorf("limits of processes on %s: %w", c.Name(), err)
	}
	return running, nil
}

func parseRunning(text string) ([]Running, error) {
	first, rest, _ := strings.Cut(text, "\n")
	limit, err := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("memory limit %q of the control group: a number is wanted", first)
	}
	var all []Running
	for line := range strings.Lines(rest) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), " ", 5)
		if len(f) < 5 {
			return nil, fmt.Errorf("unexpected output %q", line)
		}
		pid, err1 := strconv.Atoi(f[0])
		threads, err2 := strconv.Atoi(f[1])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("unexpected output %q: %w", line, err)
		}
		r := Running{PID: pid, Threads: threads, Cores: f[2], Name: f[4]}
		if f[3] == "in" {
			r.MemoryBytes = limit
		}
		all = append(all, r)
	}
	return all, nil
}

// OutOfMemory returns how many processes the kernel has killed because all
// together needed more memory than the limit.
func (c *Confined) OutOfMemory(ctx context.Context) (int64, error) {
	if c.group == "" {
		return 0, nil
	}
	file := "memory.oom_control"
	if c.version == 2 {
		file = "memory.events"
	}
	out, err := c.m.reach.shell(ctx, `exec cat "$1"`, path.Join(c.group, file))
	if err != nil {
		return 0, fmt.Errorf("memory limit on %s: %w", c.Name(), err)
	}
	return keyed(out, "oom_kill ", true)
}
