package driver

import (
	"context"
	"io"
	"time"

	"kafkalab/results/resultfile"
)

// What follows are interfaces that a server may offer beside [Server]. The
// testbed looks for them with a type assertion; what a system has not is
// reported as not known, never as 0.

// Restarter is implemented by servers that can end and come back over the same
// data. A server that is down because of Shut or Kill has not died: Died
// stays open until it ends by itself. Neither may be called at once with
// another of them, or with Stop.
type Restarter interface {
	// Shut ends the server cleanly, as its maker says, and leaves the data.
	Shut(ctx context.Context) error
	// Kill ends all its processes with SIGKILL.
	Kill(ctx context.Context) error
	// Restart starts it again over the same data, at the same address, and
	// returns when it takes requests. Processes are new ones after it.
	Restart(ctx context.Context) error
}

// FanOut is implemented by clients that can have each message reach several
// consumers, as a log does by itself and a broker of queues with a queue for
// each of them.
type FanOut interface {
	// FanOut prepares that what a Producer of queue sends, made after it, on
	// this or on another connection, reaches every one of the returned queues,
	// and returns one for each group (of at least 2). Consumer and Arrived take
	// their names, on other connections too. A log returns queue itself each
	// time; elsewhere all are different, and Arrived of queue need not be known.
	FanOut(ctx context.Context, queue string, groups int) ([]string, error)
}

// Promiser is implemented by producers that the server tells what it has taken
// on: what a scenario of work "crash" holds it to.
type Promiser interface {
	// Promised returns how many of the messages handed over, from the first on
	// and without a gap, the server has confirmed. With options that ask for no
	// confirmation it is 0. It may be called at once with Send and Flush, and
	// after these have failed: then it counts what was confirmed before that.
	Promised() int64
}

// StorePart is a part of what a server stores.
type StorePart struct {
	Name  string   // "log", "index", "journal", "metadata"
	Globs []string // below StoreDir, as path.Match takes them
}

// StoreSplitter is implemented by servers whose files show what the space in
// StoreDir is taken for. Files of no part are "other".
type StoreSplitter interface {
	StoreParts() []StorePart
}

// ContractReader is implemented by servers that say, or whose kernel says, what
// is set in them: the settings on which a comparison rests ([ContractRows]).
type ContractReader interface {
	// Contract is called while a client is connected and nothing moves, and may
	// ask the server. It leaves out the rows that the testbed reads for every
	// system itself ([KernelRows]).
	Contract(ctx context.Context, m Measurement) ([]resultfile.ContractRow, error)
}

// Measurement is what a contract is read for. The options are those of the
// client half, which may be others than those that the server was started with.
type Measurement struct {
	Work         resultfile.Work
	Options      Options
	Queue        string // what is measured; it is there
	PayloadBytes int
}

// MetricsServer is implemented by servers written in Go that show their metrics
// for Prometheus, the processor time of garbage collection among them.
type MetricsServer interface {
	// MetricsURL can be reached from the broker host.
	MetricsURL() string
}

// Grouper is implemented by drivers whose consumers share the partitions of a
// topic in groups: what a scenario of work "rebalance" needs. It runs on the
// client host.
type Grouper interface {
	// Rebalance runs what the plan says at a server of this driver. The error is
	// for what kept it from its end; what was found until then is returned too.
	Rebalance(ctx context.Context, target Target, o Options, plan RebalancePlan) (RebalanceResult, error)
}

// Helper is implemented by drivers whose client half needs processes of its
// own on the client host, such as consumers that are killed.
type Helper interface {
	// Help is all that such a process does: it talks with the client half over
	// in and out, in a language of the driver's own, and ends when in does.
	Help(ctx context.Context, in io.Reader, out io.Writer) error
}

// RebalancePlan is what the consumers of a group are to do.
type RebalancePlan struct {
	RunID        uint64
	PayloadBytes int
	Messages     int64 // produced during it at most, spread over the partitions
	Consumers    int   // of the group, when all have joined; at least 2
	Seed         int64 // of who leaves and who is killed
	// Helper starts a [Helper] of this driver on this host: a program and its
	// arguments.
	Helper []string
	// Stall is how long it may take until a change has settled, or until
	// everything that was sent is consumed.
	Stall time.Duration
	// Moved, if not nil, is told how many messages have been consumed so far, at
	// least once in a while as long as something happens.
	Moved func(consumed int64)
}

// RebalanceResult is what they did. Counts are of the whole plan.
type RebalanceResult struct {
	Partitions int `json:"partitions"` // of all brokers
	// Settles are the times from each join and each clean leave until every
	// partition had an owner again, the owners had equal shares, and stayed so, in
	// seconds, and Tries how many rebalance attempts the busiest consumer made
	// for it.
	Settles []float64 `json:"settles"`
	Tries   []int     `json:"tries"`
	// KillSettles are the same times after a consumer was killed: until its
	// session has ended, its partitions are its own.
	KillSettles []float64 `json:"kill_settles"`
	// QuietRequests is how many requests all consumers together made of
	// ZooKeeper in QuietSeconds without a join or leave, pings not counted.
	QuietRequests int64   `json:"quiet_requests"`
	QuietCommits  int64   `json:"quiet_commits"` // of those, commits of offsets
	QuietProofs   int64   `json:"quiet_proofs"`  // of those, proofs that a session lives
	QuietSeconds  float64 `json:"quiet_seconds"`
	// Consumed is every message that was handed out, repeats counted, and Lost
	// how many of those sent never were.
	Sent     int64 `json:"sent"`
	Consumed int64 `json:"consumed"`
	Lost     int64 `json:"lost"`
	Damaged  int64 `json:"damaged"`
	// RepeatsClean came twice although every consumer before had closed cleanly,
	// RepeatsUnclean after one that was killed; Uncommitted is how many of the
	// killed one had not been committed, which bounds the latter.
	RepeatsClean   int64 `json:"repeats_clean"`
	RepeatsUnclean int64 `json:"repeats_unclean"`
	Uncommitted    int64 `json:"uncommitted"`
	// Exhausted says that all messages had been sent before a consumer was
	// killed: that nothing came twice after it then says nothing.
	Exhausted bool `json:"exhausted"`
}

// DepthCounter is implemented by clients whose [Client.Arrived] may be what a
// queue holds, which falls as messages are consumed, and not what it has ever
// taken. Where a queue is consumed while it is being filled, the testbed then
// adds what was consumed.
type DepthCounter interface {
	// CountsDepth says whether it is so with the client's options.
	CountsDepth() bool
}
