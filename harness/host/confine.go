package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
// does.
func (c *Confined) checkCores(ctx context.Context) error {
	// A host's cores stay as they are: asked once, as by Ask.
	question := "cores\x00" + c.held.Cores
	c.m.mu.Lock()
	known, ok := c.m.answers[question]
	c.m.mu.Unlock()
	if ok {
		c.held.Cores = string(known)
		return nil
	}
	out, err := c.m.reach.shell(ctx, coresScript, c.held.Cores)
	if err != nil {
		return err
	}
	held, all, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !coresPattern.MatchString(held) || countCores(held) != countCores(c.held.Cores) {
		return fmt.Errorf("cores %s: %s has the cores %s for programs of this user", c.held.Cores, c.Name(), all)
	}
	c.held.Cores = held
	c.m.mu.Lock()
	c.m.answers[question] = []byte(held)
	c.m.mu.Unlock()
	return nil
}

// makeGroupScript makes a control group of the name $2 that holds $3 bytes, and
// says its version and folder, or why there is none. It is entered with the
// guard, in the folder $1, before it is made; whoever finds after that that the
// guard has gone takes it away again.
//
// A group of version 1 is made below that of this shell, so that what holds the
// shell holds it too; in version 2 a group with processes can have none below
// it, and it is made at the top.
const makeGroupScript = `
no() { echo "no $1"; exit 0; }
one= two=
while read -r source at kind options rest; do
  case $kind in
  cgroup2) case " $(cat "$at/cgroup.controllers" 2>/dev/null) " in *' memory '*) two=$at;; esac;;
  cgroup) case ",$options," in *,memory,*) one=$at;; esac;;
  esac
done < /proc/mounts
[ -n "$one$two" ] || no "the kernel offers no control groups with memory"
[ "$(id -u)" = 0 ] || no "needs root"
if [ -n "$two" ]; then
  version=2 g=$two/$2 limit=memory.max swap=memory.swap.max swapbytes=0
  case " $(cat "$two/cgroup.subtree_control") " in *' memory '*) ;;
  *) echo +memory 2>/dev/null > "$two/cgroup.subtree_control" || no "the memory controller of $two cannot be switched on";;
  esac
else
  own=$(sed -n 's/^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*://p' /proc/self/cgroup)
  [ -d "$one$own" ] || own=
  version=1 g=${one}${own%/}/$2 limit=memory.limit_in_bytes swap=memory.memsw.limit_in_bytes swapbytes=$3
fi
echo "$g" 2>/dev/null > "$1/$2" || { echo "the guard has gone" >&2; exit 1; }
made=; mkdir "$g" 2>/dev/null && made=1
if [ -z "$made" ]; then rm -f -- "$1/$2"; no "$g could not be made"; fi
if ! [ -e "$1/$2" ]; then rmdir "$g"; echo "the guard has gone" >&2; exit 1; fi
if ! echo "$3" 2>/dev/null > "$g/$limit"; then rmdir "$g"; rm -f -- "$1/$2"; no "$g/$limit could not be set"; fi
[ ! -e "$g/$swap" ] || echo "$swapbytes" 2>/dev/null > "$g/$swap" || :
echo "$version $g"`

// groups is the guard's folder of control groups.
func (m *machine) groups() string { return m.guard.runDir + "/" + groupsFolder }

func (c *Confined) makeGroup(ctx context.Context) error {
	name := fmt.Sprintf("kafkalab-%s-%d", path.Base(c.m.guard.runDir), confinements.Add(1))
	out, err := c.m.reach.shell(ctx, makeGroupScript, c.m.groups(), name, strconv.FormatInt(c.held.MemoryBytes, 10))
	if err != nil {
		return err
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	switch word {
	case "1", "2":
		c.version, _ = strconv.Atoi(word)
		c.group = rest
		return nil
	case "no":
		c.held.MemoryBytes = 0
		c.note = rest
		return nil
	}
	return fmt.Errorf("making a control group: unexpected output %q", out)
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
	case c.note == "needs root":
		parts = append(parts, "memory not held: needs root on "+c.Name())
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

// Release ends what is left in the control group and removes it. It is
// idempotent, and bounded by a few seconds also when ctx has ended.
func (c *Confined) Release(ctx context.Context) error {
	c.releaseOnce.Do(func() {
		if c.group == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
		defer cancel()
		_, err := c.m.reach.shell(ctx, removeGroups+`for f in "$1"; do remove_group; done; [ ! -e "$1" ]`, path.Join(c.m.groups(), path.Base(c.group)))
		if err != nil {
			c.releaseErr = fmt.Errorf("removing the control group %s on %s: %w", c.group, c.Name(), err)
		}
	})
	return c.releaseErr
}

const releaseLimit = 8 * time.Second

// groupsFolder is where a guard keeps the control groups: a file for each, with
// its folder in it.
const groupsFolder = "groups"

// removeGroups defines what takes away the control group that the file $f
// names: it ends every process in it, and tries again until they are reaped.
const removeGroups = `
remove_group() {
  read -r g < "$f" || return 0
  n=0
  while [ -d "$g" ] && [ $n -lt 100 ]; do
    while read -r p; do kill -s KILL "$p" 2>/dev/null; done < "$g/cgroup.procs"
    rmdir "$g" 2>/dev/null && break
    n=$((n+1)); sleep 0.05
  done
  [ -d "$g" ] || rm -f -- "$f"
}
`

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
