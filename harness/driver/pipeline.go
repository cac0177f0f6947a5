package driver

import (
	"context"
	"time"

	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// Pipeliner is implemented by drivers whose server is a whole pipeline
// (NetDB'11 §4): a cluster that front ends publish to, another one to which its
// messages are copied, a load that reads from that, and an audit of each of these
// tiers. It is what a scenario of work "pipeline" needs.
type Pipeliner interface {
	// PipelineProgram names the program of this project whose commands the client
	// half runs, as [host.Host.Binary] takes it.
	PipelineProgram() string
	// Pipeline runs what the plan says at a server of this driver, on the client
	// host. The error is for what kept it from its end; what was found until then
	// is returned too. Nothing that it has started is left when it returns.
	Pipeline(ctx context.Context, target Target, o Options, plan PipelinePlan) (PipelineResult, error)
}

// PipelinePlan is what goes through a pipeline. Its functions may be called at
// once by several goroutines.
type PipelinePlan struct {
	RunID        uint64
	PayloadBytes int   // of a message as the front ends are given it
	Messages     int64 // made in all
	// Rate is how many messages a second the front ends are given together, more
	// than 0: message n is due n/Rate seconds after the beginning.
	Rate    float64
	Program string // the path on this host of the driver's [Pipeliner.PipelineProgram]
	Dir     string // of this attempt alone, on this host; it is there and empty
	// Stall is how long it may take until something is there that must come.
	Stall time.Duration

	// Ready is called once, when everything stands ready, and returns when
	// messages may be made.
	Ready func(ctx context.Context) error
	// Delayed is told how long after its making a message was to be had in a
	// tier, which is a place in [resultfile.Tiers].
	Delayed func(tier int, delay time.Duration)
	// Moved is told how many messages have been made so far, and how many of them
	// have come to the last tier, each once.
	Moved func(made, arrived int64)
	// Note keeps a remark with the attempt.
	Note func(text string)
	// Part has a part of the server killed or started again ([Parted]), and
	// returns when that is done.
	Part func(ctx context.Context, part string, do PartAction) error
}

// PipelineResult is what came through. What it says of contents is by the
// messages themselves, each of which was looked for in each tier, and owes nothing to
// the audit, whose verdict stands beside it.
type PipelineResult struct {
	Made        int64        `json:"made"`         // given to the front ends
	MadeSeconds float64      `json:"made_seconds"` // until the last was
	Seconds     float64      `json:"seconds"`      // until nothing more came to any tier
	Tiers       []TierResult `json:"tiers"`        // in the order of [resultfile.Tiers]
	// Dropped is how many messages were left out on their way to the first
	// tier, on purpose, of all that were marked as made and counted so.
	Dropped int64 `json:"dropped"`
	// What was done to the pipeline, in words, and when, in seconds since the
	// beginning; "": nothing.
	Fault          string  `json:"fault,omitempty"`
	FaultAtSeconds float64 `json:"fault_at_seconds,omitempty"`
	// Windows is the audit's verdict, window by window. Starts are Unix times in
	// seconds.
	Windows []resultfile.AuditWindow `json:"windows"`
	// AuditComplete is the audit's word that every tier is complete.
	AuditComplete bool `json:"audit_complete"`
}

// TierResult is what a tier had in the end.
type TierResult struct {
	Tier     string `json:"tier"`
	Distinct int64  `json:"distinct"` // different messages that came
	Lost     int64  `json:"lost"`     // made, and never came
	Doubled  int64  `json:"doubled"`  // came, and had come before
	Damaged  int64  `json:"damaged"`  // are not as they were made, or were never made

	// By the audit, over all windows.
	AuditMade       int64 `json:"audit_made"`
	AuditCounted    int64 `json:"audit_counted"`
	AuditMissing    int64 `json:"audit_missing"`
	AuditDoubled    int64 `json:"audit_doubled"`
	AuditUnreported int64 `json:"audit_unreported"`
	AuditOpen       int64 `json:"audit_open"`
}

// PartAction is what can be done to a part of a server.
type PartAction string

// The actions.
const (
	KillPart    PartAction = "kill"    // with SIGKILL
	RestartPart PartAction = "restart" // over the same data, at the same address
)

// Parted is implemented by servers of several programs of which one can be
// killed and come back while the others go on. A part that is down because of
// KillPart has not died. The methods may not be called at once with each other,
// or with Stop.
type Parted interface {
	// KillPart ends a part with SIGKILL, and returns what it had used.
	KillPart(ctx context.Context, part string) (host.Usage, error)
	// RestartPart starts it again and returns when it takes requests.
	RestartPart(ctx context.Context, part string) error
}
