// Package pipeline drives this project's Kafka as LinkedIn ran it (NetDB'11 §4):
// front ends publish through one plain address to a live cluster, mirrors copy
// that to a replica cluster, a load reads from there into files, and an audit
// counts each tier.
//
// The two clusters, each with a ZooKeeper of its own, and the load balancer
// (haproxy, mode tcp) are the server, on the broker host. All else are processes
// on the client host, commands of the same program that a user has: "kafka
// produce --audit" for each front end, "kafka mirror", "kafka audit watch" for
// each cluster, and "kafka etl run". So a message is made, and looked for in every
// tier, by one clock.
//
// What is found in a tier is found twice: by this package, which reads each
// tier itself and looks for every line that a front end was given, and by the
// audit, which knows nothing of those lines.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

type pipeline struct{}

// New returns the driver. It is a [driver.Pipeliner].
func New() driver.Driver { return pipeline{} }

func (pipeline) Name() string { return "pipeline" }

// program is the name of the program that everything but the balancer is.
const program = "kafka"

func (pipeline) PipelineProgram() string { return program }

func (pipeline) Check(ctx context.Context, broker host.Host, o driver.Options) error {
	if _, err := readOptions(o); err != nil {
		return err
	}
	if err := launch.Missing(ctx, broker, balancerPackage, balancerProgram); err != nil {
		return err
	}
	_, err := broker.Binary(ctx, program)
	return err
}

func (pipeline) Settings(_ context.Context, _ host.Host, o driver.Options) ([]driver.Setting, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	acks := opts.acks
	if acks == "none" {
		acks = "none, as in the paper"
	}
	batching := fmt.Sprintf("what has gathered, at most %d a request", opts.batch)
	if opts.linger > 0 {
		batching = fmt.Sprintf("%d a request; a batch that is not full waits %v", opts.batch, opts.linger)
	}
	return []driver.Setting{
		{Row: "version", Value: "this project's own, protocol and files of Kafka 0.7; haproxy of the distribution in front of the live cluster"},
		{Row: "protocol and client", Value: fmt.Sprintf("%d front ends (kafka produce --audit) through the balancer; %d mirrors of one group; kafka audit watch on each cluster; kafka etl run", opts.frontEnds, opts.mirrors)},
		{Row: "persistence", Value: "log files of both clusters; gzip files of the load"},
		{Row: "flush to disk", Value: fmt.Sprintf("fsync every %v in the background, at both clusters, and when a mirror asks for it; the load's files before they are published", opts.flush)},
		{Row: "producer acknowledgement", Value: "front ends: " + acks + "; mirrors and monitoring events: flushed"},
		{Row: "producer batching", Value: batching},
		{Row: "consumer acknowledgement", Value: "mirrors commit what the replica cluster has flushed; the load keeps its offsets with its files"},
		{Row: "consumer prefetch", Value: "the defaults"},
		{Row: "queue or log", Value: fmt.Sprintf("live: %d brokers with %d partitions each; replica: %d with as many in all; each cluster with this project's embedded ZooKeeper, sessions of %v", opts.brokers, opts.partitions, opts.replicaBrokers, opts.session)},
		{Row: "memory", Value: "no cache in the process; the page cache"},
		{Row: "deviations from the defaults", Value: fmt.Sprintf("a load every %v; audit windows of %v; done on purpose: %s", opts.load, opts.window, opts.fault.words())},
	}, nil
}

func (pipeline) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	binary, err := broker.Binary(ctx, program)
	if err != nil {
		return nil, err
	}
	return start(ctx, broker, binary, dir, opts)
}

// Connect refuses: there is no queue to send to, see [driver.Pipeliner].
func (pipeline) Connect(context.Context, driver.Target, driver.Options) (driver.Client, error) {
	return nil, errors.New("pipeline: this driver is for work = \"pipeline\" alone: for a single queue take the driver kafka")
}

// partName is the name of a part of the server that can be killed.
func partName(broker int) string { return fmt.Sprintf("%s%d", livePrefix, broker) }

const livePrefix = "live-broker-"

// partNumber is the reverse of partName.
func partNumber(name string) (int, error) {
	var n int
	text, ok := strings.CutPrefix(name, livePrefix)
	if _, err := fmt.Sscanf(text, "%d", &n); !ok || err != nil || partName(n) != name {
		return 0, fmt.Errorf("pipeline: no part is called %q: one of the live brokers is wanted, such as %s", name, partName(0))
	}
	return n, nil
}
