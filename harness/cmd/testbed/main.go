// Command testbed measures messaging systems between two hosts and draws what
// it measured. "testbed --help" lists its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// command is one of testbed's commands.
type command struct {
	name    string
	summary string // one line for the list
	// hidden commands are those that the testbed itself calls on a host.
	hidden bool
	// prints says that the command does nothing but print: a reader that has
	// enough ends it, and is no fault.
	prints bool
	run    func(ctx context.Context, args []string, std stdio) error
}

// stdio is where a command reads and writes: data on Out, all else on Err.
type stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// usageError is a fault in how the program was called: exit status 2.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// commands lists the commands in the order of the help.
func commands() []command {
	return []command{
		doctorCommand(), upCommand(), runCommand(), listCommand(), plotCommand(), compareCommand(), reportCommand(), drawCommand(), downCommand(),
		clientCommand(), sampleCommand(), rawServerCommand(), goodputReceiveCommand(), goodputSendCommand(), diskRateCommand(), dropCacheCommand(), holdMemoryCommand(), ceilingCommand(), clockCommand(), lockCommand(),
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Whoever reads what we print may be gone before us, as "tee" is at Ctrl-C.
	// Then writing is to fail, and not to end us before we have cleaned up. (To
	// ignore the signal would be inherited by the programs that we start.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(realMain(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// realMain returns the exit status: 0, 1 when it failed, 2 when it was called
// wrongly.
func realMain(ctx context.Context, args []string, std stdio) int {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		usage(std.Out)
		if len(args) == 0 {
			return 2
		}
		return 0
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, args[1:], std)
		var u usageError
		switch {
		case err == nil || errors.Is(err, pflag.ErrHelp) || c.prints && errors.Is(err, syscall.EPIPE):
			return 0
		case errors.As(err, &u):
			fmt.Fprintf(std.Err, "testbed %s: %v\nSee \"testbed %s --help\".\n", c.name, err, c.name)
			return 2
		default:
			fmt.Fprintf(std.Err, "testbed %s: %v\n", c.name, err)
			return 1
		}
	}
	fmt.Fprintf(std.Err, "testbed: no command %q. See \"testbed --help\".\n", args[0])
	return 2
}

// helpWidth is how many columns a help text takes at most.
const helpWidth = 120

func usage(w io.Writer) {
	fmt.Fprint(w, "testbed measures Kafka, RabbitMQ, ActiveMQ and NATS between two hosts and draws the figures.\n\nCommands:\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
		}
	}
	fmt.Fprint(w, "\nExample:\n  testbed doctor && testbed up && testbed run --scenario smoke && testbed down\n\n\"testbed COMMAND --help\" says more of each.\n")
}
