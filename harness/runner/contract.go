package runner

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// contractLimit is how long the reading of a contract may take, while the
// client waits.
const contractLimit = 10 * time.Second

// confine makes the host on which the server is started: the broker host, held
// to the limits of the plan, and to fewer cores where the system says so.
func (s *session) confine(ctx context.Context, sys scenario.System) (host.Host, error) {
	limits := s.Limits
	if sys.Cores > 0 {
		if have := host.CountCores(limits.Cores); have < sys.Cores {
			return nil, fmt.Errorf("a broker of %d cores: it may use %d", sys.Cores, have)
		}
		limits.Cores = host.FirstCores(limits.Cores, sys.Cores)
	}
	if limits == (host.Limits{}) {
		return s.Broker, nil
	}
	c, err := host.Confine(ctx, s.Broker, limits)
	if err != nil {
		return nil, err
	}
	s.confined = c
	return c, nil
}

// release removes the limits, when the server has ended. That the kernel has
// ended a process of a server that went on nevertheless is noted.
func (s *session) release(ctx context.Context, t *trial) error {
	if s.confined == nil {
		return nil
	}
	if t.failure == "" {
		if why := s.outOfMemory(ctx); why != "" {
			s.note(t, "%s", why)
		}
	}
	return s.confined.Release(ctx)
}

// memoryLimit bounds the question whether the memory was enough.
const memoryLimit = 2 * time.Second

// outOfMemory says that the kernel has ended processes of the server at the
// limit of its memory, "" if it has not.
func (s *session) outOfMemory(ctx context.Context) string {
	if s.confined == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), memoryLimit)
	defer cancel()
	n, err := s.confined.OutOfMemory(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("whether the server's memory was enough is not known: %v", err)
	case n > 0:
		return fmt.Sprintf("the server was out of memory: the kernel ended %d of its processes, which together needed more than the limit of %s (memory in the testbed file)",
			n, host.FormatSize(s.confined.Limits().MemoryBytes))
	}
	return ""
}

// explain adds to the failure of a server that it was out of memory.
func (s *session) explain(ctx context.Context, err error) error {
	if why := s.outOfMemory(ctx); why != "" && err != nil {
		return fmt.Errorf("%s: %w", why, err)
	}
	return err
}

// readsBefore says whether the contract is read before measuring: a queue that
// is consumed holds its messages then, and one that is produced to holds them
// afterwards.
func readsBefore(w resultfile.Work) bool { return w != resultfile.Produce }

// readContract keeps what the measured system's contract is, while its client
// is connected and nothing moves. What cannot be read is noted and no reason to
// fail.
func (a *attempt) readContract(ctx context.Context) {
	if len(a.server.Processes()) == 0 || !a.spec.Measured {
		return // nothing runs
	}
	ctx, cancel := context.WithTimeout(ctx, contractLimit)
	defer cancel()
	// The kernel first: asking the server may take connections.
	rows, err := a.kernelRows(ctx)
	if err != nil {
		a.note(a.trial, "contract: %v", err)
	}
	if r, ok := a.server.(driver.ContractReader); ok {
		said, err := r.Contract(ctx, driver.Measurement{
			Work: a.spec.Work, Options: a.spec.Options, Queue: a.spec.Queue, PayloadBytes: a.spec.PayloadBytes,
		})
		if err != nil {
			a.note(a.trial, "contract: %v", err)
		}
		rows = append(rows, said...)
	}
	rows, err = driver.SortContract(applicable(a.spec, rows))
	if err == nil {
		err = a.keepContract(rows)
	}
	if err != nil {
		a.note(a.trial, "contract: %v", err)
	}
}

// applicable returns the rows with those that are about the other side's client
// as not applying: nobody consumes what is produced alone, and the other way
// round.
func applicable(spec Spec, rows []resultfile.ContractRow) []resultfile.ContractRow {
	other, none := []string{}, ""
	switch {
	case spec.Work == resultfile.Produce && spec.Beside == 0:
		other, none = []string{driver.RowConsumerAck, driver.RowPrefetch}, "does not apply: nobody consumes"
	case spec.Work == resultfile.Consume:
		other, none = []string{driver.RowProducerAck}, "does not apply: nobody produces"
	}
	rows = slices.Clone(rows)
	for i, r := range rows {
		if slices.Contains(other, r.Row) {
			rows[i] = resultfile.ContractRow{Row: r.Row, Value: none}
		}
	}
	return rows
}

// keepContract enters the contract in the result, at the first attempt of the
// system, or else notes how it differs from that one's.
func (a *attempt) keepContract(rows []resultfile.ContractRow) error {
	run := a.Results.Run()
	i := slices.IndexFunc(run.Scenarios, func(s resultfile.Scenario) bool { return s.Name == a.trial.scenario.Name })
	if i < 0 {
		return fmt.Errorf("the result has no scenario %s", a.trial.scenario.Name)
	}
	j := slices.IndexFunc(run.Scenarios[i].Systems, func(s resultfile.System) bool { return s.ID == a.trial.system.ID })
	if j < 0 {
		return fmt.Errorf("the result has no system %s", a.trial.system.ID)
	}
	if was := run.Scenarios[i].Systems[j].Contract; len(was) > 0 {
		for _, change := range contractChanges(was, rows) {
			a.note(a.trial, "contract: %s", change)
		}
		return nil
	}
	run.Scenarios = slices.Clone(run.Scenarios)
	run.Scenarios[i].Systems = slices.Clone(run.Scenarios[i].Systems)
	run.Scenarios[i].Systems[j].Contract = rows
	return a.Results.Update(run)
}

// contractChanges says how a later contract of a system differs from the first.
// How many threads a server has is not the same twice, nor how many connections
// where these have no class.
func contractChanges(was, now []resultfile.ContractRow) (changes []string) {
	find := func(rows []resultfile.ContractRow, name string) (what string) {
		for _, r := range rows {
			if r.Row == name {
				if r.Class != "" || name == driver.RowConnections {
					return r.Class
				}
				return r.Value
			}
		}
		return "not known"
	}
	for _, row := range driver.ContractRows {
		if row == driver.RowThreads {
			continue
		}
		if before, after := find(was, row), find(now, row); before != after {
			changes = append(changes, fmt.Sprintf("%s: %s, where the system's first attempt had %s", row, after, before))
		}
	}
	return changes
}

// kernelRows are the rows that the broker host's kernel tells, as far as they
// can be read.
func (a *attempt) kernelRows(ctx context.Context) ([]resultfile.ContractRow, error) {
	var rows []resultfile.ContractRow
	add := func(row, value, class string) {
		rows = append(rows, resultfile.ContractRow{Row: row, Value: value, Class: class, ReadBack: true})
	}
	n, disk, err := a.connectionsAndDisk(ctx)
	if err != nil {
		return rows, err
	}
	class := strconv.Itoa(n)
	if a.spec.Work == resultfile.Pipeline {
		class = "" // its loads and readers come and go, so the number is of a moment
	}
	add(driver.RowConnections, strconv.Itoa(n), class)
	add(driver.RowDisk, disk, disk)
	if a.confined == nil {
		return rows, nil
	}
	var pids []int
	for _, p := range a.server.Processes() {
		pids = append(pids, p.PID())
	}
	running, err := a.confined.Running(ctx, pids...)
	if err != nil {
		return rows, err
	}
	return append(rows, processRows(running, a.confined.Limits())...), nil
}

// shownProcesses bounds the processes that a row names.
const shownProcesses = 8

// processRows are the rows that are about a server's processes.
func processRows(running []host.Running, limits resultfile.Limits) []resultfile.ContractRow {
	threads := 0
	var names, cores []string
	held := int64(-1)
	for _, r := range running {
		threads += r.Threads
		names = append(names, fmt.Sprintf("%s %d", r.Name, r.Threads))
		if !slices.Contains(cores, r.Cores) {
			cores = append(cores, r.Cores)
		}
		if held < 0 || r.MemoryBytes < held {
			held = r.MemoryBytes // 0 if one of them is not held
		}
	}
	slices.Sort(cores)
	all := strings.Join(cores, " and ")
	// More names than fit a table are the children of one.
	if len(names) > shownProcesses {
		names = append(names[:shownProcesses], fmt.Sprintf("%d more", len(running)-shownProcesses))
	}
	rows := []resultfile.ContractRow{
		{Row: driver.RowThreads, Value: fmt.Sprintf("%d (%s)", threads, strings.Join(names, ", ")), ReadBack: true},
		{Row: driver.RowCores, Value: all, Class: all, ReadBack: true},
	}
	memory := resultfile.ContractRow{Row: driver.RowMemory, Class: "none", ReadBack: true}
	if held > 0 {
		memory.Value, memory.Class = host.FormatSize(held)+", page cache included", strconv.FormatInt(held, 10)
	} else if limits.MemoryBytes > 0 {
		memory.Value = "a process of the server is not held"
	} else {
		_, why, _ := strings.Cut(limits.Note, "memory ")
		memory.Value = why
	}
	return append(rows, memory)
}

// connectionsScript prints the connections of the host, and the file system
// below $1.
const connectionsScript = `cat /proc/net/tcp; [ ! -e /proc/net/tcp6 ] || cat /proc/net/tcp6
echo disk; exec df -PT -- "$1"`

// connectionsAndDisk counts the connections that are established to the
// server's port, and names the device and the file system that hold its store.
func (a *attempt) connectionsAndDisk(ctx context.Context) (n int, disk string, err error) {
	_, text, err := net.SplitHostPort(a.server.Target().Addr)
	if err != nil {
		return 0, "", fmt.Errorf("connections: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0, "", fmt.Errorf("connections: port %q: %w", text, err)
	}
	out, err := a.Broker.Run(ctx, "sh", "-c", connectionsScript, "sh", a.server.StoreDir())
	if err != nil {
		return 0, "", fmt.Errorf("connections, and disk below the store: %w", err)
	}
	connections, table, _ := strings.Cut(string(out), "disk\n")
	_, line, _ := strings.Cut(table, "\n")
	f := strings.Fields(line)
	if len(f) < 2 {
		return 0, "", fmt.Errorf("disk below the store: unexpected output %q", table)
	}
	return established(connections, port), fmt.Sprintf("%s, %s", f[0], f[1]), nil
}

// established counts the lines of /proc/net/tcp and tcp6 of connections whose
// own end has that port: "sl: ADDRESS:PORT ADDRESS:PORT STATE", in hexadecimal
// digits, where state 01 is established.
func established(text string, port int) (n int) {
	end := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], end) && f[3] == "01" {
			n++
		}
	}
	return n
}
