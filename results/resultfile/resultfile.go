// Package resultfile is the format in which the testbed keeps what it
// measured: one folder a run, which explains itself. This file holds the
// schema; reading and writing stand beside it.
//
//	run.json                 Run: what was run, where, with what, and the attempts
//	points/<attempt>.csv     the cumulative points of one attempt
//	samples/<attempt>.csv    both hosts' resources during it
//	scenarios/<name>.toml    each scenario as it was read
//	latency/<attempt>.hdr    the latencies of a stream, or the delays of a pipeline, in the log format of HdrHistogram
//	audit/<attempt>.csv      what the audit of a pipeline said, window by window
//	logs/<attempt>/…         what the servers and the client wrote
//
// <attempt> is <scenario>-<system>-<repetition>. Rates are derived from points
// by whoever reads them; nothing here is rounded. Every attempt stays, with
// its outcome, also when it failed.
package resultfile

import (
	"slices"
	"time"
)

// SchemaVersion is the version of this format that is written. Version 1, which
// had produce and consume alone, is read too.
const SchemaVersion = 2

// ThenCommit stands between the commits of a run that was gone on with by another
// build, in the order in which they measured.
const ThenCommit = ", then "

// Run is a call of the testbed: some scenarios, some systems, some
// repetitions.
type Run struct {
	Schema  int       `json:"schema"`
	Name    string    `json:"name"` // of the folder
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Interrupted says that the user ended it before every attempt was made.
	Interrupted bool   `json:"interrupted,omitempty"`
	Commit      string `json:"commit"` // of the project, with "+changes" if the tree was not clean; of each build, with ThenCommit between
	Command     string `json:"command"`
	// AskedScenarios and AskedSystems are the names that the user gave; of
	// systems none means all. Scenarios is what they came to.
	AskedScenarios []string `json:"asked_scenarios,omitempty"`
	AskedSystems   []string `json:"asked_systems,omitempty"`
	Seed           int64    `json:"seed"` // of the order of the systems
	Testbed        Testbed  `json:"testbed"`
	Messages       int64    `json:"messages"` // asked for, per attempt
	Repeat         int      `json:"repeat"`
	// CapSeconds is the longest time of one attempt, 0 for none.
	CapSeconds float64    `json:"cap_seconds"`
	Scenarios  []Scenario `json:"scenarios"`
	// Ceilings are what the client half does when there is no system behind it.
	Ceilings []Ceiling `json:"ceilings,omitempty"`
	Attempts []Attempt `json:"attempts"`
}

// Ceiling is the rate of the null driver, which throws messages away and makes
// them again: what the testbed itself can do with such a payload. A system that
// is closer to it than a factor of two is bound by the harness.
type Ceiling struct {
	Work              Work    `json:"work"`
	PayloadBytes      int     `json:"payload_bytes"`
	MessagesPerSecond float64 `json:"messages_per_second"`
}

// ValidAttempt returns the attempt that counts for a repetition of a system:
// the last valid one. There may be two, when the testbed was killed after a
// produce and before the consume of its backlog was on record, and both were
// made again.
func (r Run) ValidAttempt(scenario, system string, repetition int) (Attempt, bool) {
	for _, a := range slices.Backward(r.Attempts) {
		if a.Scenario == scenario && a.System == system && a.Repetition == repetition && a.Outcome == Valid {
			return a, true
		}
	}
	return Attempt{}, false
}

// ShortLook is the fact of a broker host whose look before the run was too short
// to measure anything.
const ShortLook = "look before the run"

// Testbed is where a run took place.
type Testbed struct {
	Kind       string `json:"kind"`     // local, netns, ssh
	Emulated   bool   `json:"emulated"` // both hosts share one machine
	ClientHost Host   `json:"client_host"`
	BrokerHost Host   `json:"broker_host"`
	// LinkGoodputMbps is the TCP goodput of the link, measured before the run,
	// client to broker and back, in 10^6 bits a second.
	LinkGoodputMbps        float64 `json:"link_goodput_mbps"`
	LinkReverseGoodputMbps float64 `json:"link_reverse_goodput_mbps"`
	LinkNote               string  `json:"link_note"` // how the link is made and held to its rate
	// The same of the link while it was held to no rate, for scenarios that ask
	// for that; 0: not measured.
	UnshapedGoodputMbps        float64 `json:"unshaped_goodput_mbps,omitempty"`
	UnshapedReverseGoodputMbps float64 `json:"unshaped_reverse_goodput_mbps,omitempty"`
	// RAID10 says that the broker's data lay on a RAID 10 that was made for the
	// run, of six files on one disk.
	RAID10 bool `json:"raid10,omitempty"`
	// BrokerLimits is what every broker was held to.
	BrokerLimits *Limits `json:"broker_limits,omitempty"`
	// HeldMemoryBytes is how much of the broker host's free memory was held when the
	// run began, so that the host of that virtual machine did not take it back; of
	// several sittings the least. 0: in one of them none was, or not to the end, or
	// there was no need.
	HeldMemoryBytes int64 `json:"held_memory_bytes,omitempty"`
	// HeldInPart says that it is 0 though memory was held in one of the sittings, or
	// for a part of one.
	HeldInPart bool `json:"held_in_part,omitempty"`
	// Clock is how the clock of the broker host stood to that of the client
	// host; nil: it was not measured.
	Clock *Clock `json:"clock,omitempty"`
}

// Limits are the cores and the memory that the processes of a broker may use.
type Limits struct {
	Cores       string `json:"cores"`        // as taskset writes them: "0-1"; empty: not held
	MemoryBytes int64  `json:"memory_bytes"` // page cache included; 0: not held
	Note        string `json:"note"`         // how they are enforced, or why not
}

// Clock is the difference of two hosts' clocks: broker minus client. Hosts that
// share a clock have 0 and no error.
type Clock struct {
	OffsetSeconds float64 `json:"offset_seconds"`
	ErrorSeconds  float64 `json:"error_seconds"` // the true offset is at most so far from it
	Same          bool    `json:"same"`          // one machine, one clock
}

// Host describes a machine. Facts is ordered as it is to be shown.
type Host struct {
	Name  string `json:"name"`
	Facts []Fact `json:"facts"`
}

// Fact is one thing known of a host: processor, memory, kernel, versions, …
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// MachineFacts are the facts that tell one machine from another.
func MachineFacts() []string { return []string{"processor", "cores", "memory", "kernel"} }

// Fact returns the value of the named fact, or "".
func (h Host) Fact(name string) string {
	for _, f := range h.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// Work is what a scenario measures.
type Work string

// The kinds of work.
const (
	Produce Work = "produce" // as fast as the server takes it
	Consume Work = "consume" // a backlog, as fast as it comes
	// Stream sends at a planned rate and receives at once; every message's
	// latency counts from its planned send time.
	Stream Work = "stream"
	// Crash kills the broker in the middle of a produce, starts it again over
	// the same data, and counts what is there.
	Crash Work = "crash"
	// Rebalance has consumers of a group join and leave.
	Rebalance Work = "rebalance"
	// Pipeline has front ends publish to a cluster from which messages are copied
	// to another one and loaded from there, and audited on each tier (NetDB'11 §4).
	Pipeline Work = "pipeline"
)

// Chart is the kind of figure that shows a scenario.
type Chart string

// The charts.
const (
	OverData  Chart = "over data" // rate over the data moved, as in the paper
	Sweep     Chart = "sweep"     // a quantity over System.X, a line for each System.Series
	Bars      Chart = "bars"      // a bar for each system
	OverTime  Chart = "over time" // what was sampled, over the time of an attempt
	Latencies Chart = "latencies" // latency over the share of messages
	OverTiers Chart = "tiers"     // the delays to each tier of a pipeline over time, and what the audit found complete
)

// Axis is what System.X counts.
type Axis struct {
	Label string `json:"label"` // with its unit: "messages a request"
	Log   bool   `json:"log,omitempty"`
}

// Scenario is a scenario as it was run.
type Scenario struct {
	Name         string `json:"name"`
	Title        string `json:"title"`
	Purpose      string `json:"purpose"`
	Work         Work   `json:"work"`
	PayloadBytes int    `json:"payload_bytes"`
	Limit        string `json:"limit"` // the expected limit, with its arithmetic
	// Link is LinkUnshaped or LinkAsItIs where the scenario asks for a link
	// without a rate; empty: the testbed's own.
	Link string `json:"link,omitempty"`
	// Chart is how the figure shows it; empty: OverData.
	Chart Chart `json:"chart,omitempty"`
	Axis  *Axis `json:"axis,omitempty"` // of a Sweep
	// Shows are the quantities in the figure, a panel for each, by the names of
	// package plots; none: the message rate.
	Shows   []string `json:"shows,omitempty"`
	Systems []System `json:"systems"`
}

// What a link was that was to have no rate.
const (
	// LinkUnshaped is an emulated link whose rate was taken off for the attempts
	// of the scenario.
	LinkUnshaped = "unshaped"
	// LinkAsItIs is a real link, or none: nothing was taken off.
	LinkAsItIs = "as it is"
)

// System is one line of a figure: a driver with options.
type System struct {
	ID      string            `json:"id"`    // unique in its scenario, used in file names
	Label   string            `json:"label"` // in legend and tables
	Driver  string            `json:"driver"`
	Options map[string]string `json:"options,omitempty"`
	// Role says how to show it: "system" as in the paper, "limit" for the
	// physical limit, "extra" for a labelled addition to the paper's figure, "also
	// measured" for a system that is none of the paper's.
	Role string `json:"role"`
	// Capped says that the attempt is held to a time even when the run has no
	// cap: systems that would take hours, and the additions to the paper's
	// figures, fast ones too, which only show how a system differs from another.
	Capped bool `json:"capped,omitempty"`
	// Series is the line of a Sweep to which the system belongs, X its place on
	// the axis.
	Series string  `json:"series,omitempty"`
	X      float64 `json:"x,omitempty"`
	// View is which view of a rival this is, ViewPaper or ViewBest; empty where
	// there is only one.
	View string `json:"view,omitempty"`
	// What this system does otherwise than its scenario or run says; 0: nothing.
	PayloadBytes int       `json:"payload_bytes,omitempty"`
	Messages     int64     `json:"messages,omitempty"`      // for an attempt
	FillMessages int64     `json:"fill_messages,omitempty"` // stored before the measuring begins
	Consumers    int       `json:"consumers,omitempty"`     // at once
	Producers    int       `json:"producers,omitempty"`     // at once; 0: one
	Beside       int       `json:"beside,omitempty"`        // consumers that receive while it is produced
	Cores        int       `json:"cores,omitempty"`         // of the broker; 0: those of the run
	Rate         float64   `json:"rate,omitempty"`          // planned, messages a second
	Before       []string  `json:"before,omitempty"`        // done to the broker before it is measured
	Settings     []Setting `json:"settings"`
	// Contract is what the comparison rests on, read back from the live broker
	// where it can be. It is there once an attempt has started a broker.
	Contract []ContractRow `json:"contract,omitempty"`
}

// The two views of a rival.
const (
	ViewPaper = "as in the paper"
	ViewBest  = "documented best"
)

// ContractRow is one setting that must be the same for all systems of a figure,
// or is named in its caption.
type ContractRow struct {
	Row   string `json:"row"`
	Value string `json:"value"` // for people
	// Class is what is compared: two systems with the same class have the same
	// setting, whatever they call it. Empty: the row is shown and not compared.
	Class string `json:"class,omitempty"`
	// ReadBack says that the live broker or the kernel has said so, and not the
	// driver that set it.
	ReadBack bool `json:"read_back,omitempty"`
}

// The values of System.Role.
const (
	RoleSystem = "system"        // as in the paper
	RoleLimit  = "limit"         // the physical limit
	RoleExtra  = "extra"         // a labelled addition to the paper's figure
	RoleAlso   = "also measured" // none of the systems that the paper compared
)

// Setting is a row of the settings table.
type Setting struct {
	Row   string `json:"row"`
	Value string `json:"value"`
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes. Only Valid attempts count.
const (
	Valid        Outcome = "valid"
	Invalid      Outcome = "invalid"       // it ran, but counts or contents disagree
	Failed       Outcome = "failed"        // it did not run to its end
	Interrupted  Outcome = "interrupted"   // by the user
	NotInstalled Outcome = "not installed" // the system's packages are missing
)

// Attempt is one system, measured once in one scenario.
type Attempt struct {
	ID         string    `json:"id"` // <scenario>-<system>-<repetition>
	Scenario   string    `json:"scenario"`
	System     string    `json:"system"`     // System.ID
	Repetition int       `json:"repetition"` // from 1
	Order      int       `json:"order"`      // in which it ran, from 1
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	Outcome    Outcome   `json:"outcome"`
	Reason     string    `json:"reason,omitempty"` // why not valid
	Notes      []string  `json:"notes,omitempty"`  // "held to 45 s", …
	// OtherLoad is how many processors other work kept busy right before the
	// attempt; 0: no more than on a quiet machine, or not looked at.
	OtherLoad float64 `json:"other_load,omitempty"`

	// What the headline is made of. For produce, Messages is what arrived at
	// the broker by its own count and Seconds the time from the first send to
	// the arrival of the last; for consume, what was consumed, until the last.
	Messages     int64   `json:"messages"`
	PayloadBytes int64   `json:"payload_bytes"`
	StoredBytes  int64   `json:"stored_bytes"` // in the system's own message format
	Seconds      float64 `json:"seconds"`

	// The client's own view: handed over, and when the last Send returned.
	ClientMessages int64   `json:"client_messages"`
	ClientSeconds  float64 `json:"client_seconds"`

	Verified  bool  `json:"verified"` // contents were checked, one by one
	Lost      int64 `json:"lost"`
	Doubled   int64 `json:"doubled"`
	Damaged   int64 `json:"damaged"`
	Reordered int64 `json:"reordered"`

	BrokerCPUSeconds     float64 `json:"broker_cpu_seconds"` // user and system, measured phase and drain
	ClientCPUSeconds     float64 `json:"client_cpu_seconds"`
	BrokerResidentBytes  int64   `json:"broker_resident_bytes"` // at the end
	StoreBytesBefore     int64   `json:"store_bytes_before"`    // allocated on disk
	StoreBytesAfter      int64   `json:"store_bytes_after"`
	BrokerDiskWriteBytes int64   `json:"broker_disk_write_bytes"`

	// Measures holds what else was measured, by a name that says its unit at
	// the end: "store_index_bytes", "zookeeper_requests", "settle_seconds".
	Measures map[string]float64 `json:"measures,omitempty"`
}

// MessagesPerSecond is the headline rate, 0 if nothing was measured.
func (a Attempt) MessagesPerSecond() float64 {
	if a.Seconds <= 0 {
		return 0
	}
	return float64(a.Messages) / a.Seconds
}

// Point is one point of an attempt: everything since the first send or the
// first receipt. Points are cumulative and never go back.
type Point struct {
	Seconds  float64
	Messages int64 // handed over or consumed, by the client's own view
	Bytes    int64 // payload bytes of Messages
	Arrived  int64 // messages at the broker by its own count; for consume the same as Messages
}

// Sample is the state of one host at a moment of an attempt. Counters are
// cumulative since the attempt began.
type Sample struct {
	Seconds        float64
	Host           string // Host.Name
	CPUSeconds     float64
	ProcessSeconds float64 // of the system's processes on that host
	NetRxBytes     int64   // of the test network's device
	NetTxBytes     int64
	DiskReadBytes  int64
	DiskWriteBytes int64
	MemoryFree     int64 // available; without what is held of it (Testbed.HeldMemoryBytes)
	RunQueue       int   // runnable processes

	// Of the system's processes. 0 where it is not known, as in files of
	// version 1.
	ProcessResidentBytes int64
	ProcessReadBytes     int64   // from the disk
	ProcessWriteBytes    int64   // to the disk
	ProcessSyscalls      int64   // read and write calls, sendfile among them (/proc/PID/io)
	GCSeconds            float64 // processor time of Go's garbage collection
}
