package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"kafkalab/compare/activemq"
	"kafkalab/compare/kafka"
	"kafkalab/compare/nats"
	"kafkalab/compare/pipeline"
	"kafkalab/compare/rabbitmq"
	"kafkalab/compare/rawlimit"
	"kafkalab/harness/driver"
	"kafkalab/harness/runner"
)

// drivers are the systems that can be measured.
func drivers() *driver.Table {
	return driver.NewTable(kafka.New(), pipeline.New(), rabbitmq.New(), activemq.New(), nats.New(), rawlimit.New(), driver.NewNull())
}

// clientCommand is what the testbed starts on the client host for each
// attempt.
func clientCommand() command {
	return command{name: "client", summary: "send or receive as told on standard input", hidden: true, run: runClient}
}

func runClient(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("client", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	flags.Usage = func() {
		fmt.Fprint(std.Err, `testbed client sends or receives as a specification on standard input says, a line
of JSON, and reports what happens as JSON lines. "testbed run" starts it on the
client host.

With --helper it is a process of a driver's own on the client host, which the
driver talks with over standard input and output.

Example:
  testbed client < specification.json
`)
	}
	helper := flags.String("helper", "", "name of the driver whose helper this process is; none by default")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *helper != "" {
		return runHelper(ctx, *helper, std)
	}
	return runner.RunClient(ctx, std.In, std.Out, drivers())
}

// runHelper is a process that a driver's client half has started.
func runHelper(ctx context.Context, name string, std stdio) error {
	d, err := drivers().Find(name)
	if err != nil {
		return usageError{fmt.Errorf("--helper: %w", err)}
	}
	h, ok := d.(driver.Helper)
	if !ok {
		return usageError{fmt.Errorf("--helper %s: that driver needs no processes of its own", name)}
	}
	return h.Help(ctx, std.In, std.Out)
}
