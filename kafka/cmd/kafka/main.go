// Command kafka is the broker and its tools in one binary.
// "kafka --help" lists its commands.
//
// # server.properties
//
// "kafka broker --config FILE" takes the keys of a Kafka 0.7 broker;
// "kafka broker --help" has the table of them. It differs from 0.7 so:
//
//   - The file is UTF-8. 0.7 takes it for ISO 8859-1, but for that the syntax is
//     Java's.
//   - An unknown key is an error that names the nearest one, and so is a key that
//     stands there twice. 0.7 ignores the first and takes the last of the others.
//   - A number or an entry of a map that makes no sense is an error with its
//     line; 0.7 skips such entries. Blanks in a map do not count; for 0.7 they
//     are part of the topic's name.
//   - log.default.flush.interval.ms is how often everything is flushed. In 0.7 it
//     is rounded up to a multiple of log.default.flush.scheduler.interval.ms.
//   - log.retention.size and topic.log.retention.size take -1 for "off", and not
//     0, with which 0.7 keeps nothing.
//   - What is not in the file has the default of its flag, which is that of 0.7's
//     sample file where it differs from the program's: port 9092, a flush after
//     10,000 messages or a second. Only log.dir is required.
//   - enable.zookeeper need not be there: the broker registers in ZooKeeper if
//     there is a zk.connect, unless it says false. 0.7 takes true for granted and
//     wants a zk.connect then.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// command is one of kafka's commands.
type command struct {
	name    string
	summary string // one line for the list
	run     func(ctx context.Context, args []string, std stdio) error
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
		brokerCommand(), zookeeperCommand(), produceCommand(), consumeCommand(), offsetsCommand(), topicsCommand(), groupsCommand(), mirrorCommand(), logCommand(), perfCommand(),
		schemaRegistryCommand(),
		etlCommand(), auditCommand(),
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first interrupt the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(realMain(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// realMain returns the exit status: 0, 1 when it failed, 2 when it was called
// wrongly.
func realMain(ctx context.Context, args []string, std stdio) int {
	if len(args) == 0 {
		usage(std.Err)
		return 2
	}
	switch args[0] {
	case "--help", "-h", "help":
		if len(args) == 1 || strings.HasPrefix(args[1], "-") {
			usage(std.Out)
			return 0
		}
		args = []string{args[1], "--help"}
	case "--version", "version":
		fmt.Fprintln(std.Out, versionText())
		return 0
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, args[1:], std)
		var u usageError
		switch {
		case err == nil || errors.Is(err, pflag.ErrHelp):
			return 0
		case errors.As(err, &u):
			fmt.Fprintf(std.Err, "kafka %s: %v\nSee \"kafka %s --help\".\n", c.name, err, c.name)
			return 2
		default:
			fmt.Fprintf(std.Err, "kafka %s: %v\n", c.name, err)
			return 1
		}
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	meant := likely(args[0], names)
	if meant != "" {
		meant = fmt.Sprintf(" Is %q meant?", meant)
	}
	fmt.Fprintf(std.Err, "kafka: no command %q.%s See \"kafka --help\".\n", args[0], meant)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "kafka is a distributed messaging system for log processing, after the NetDB'11 paper.\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-15s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, `
Example, one broker:
  kafka broker --log-dir data &
  echo hello | kafka produce --broker-list 127.0.0.1:9092 --topic t
  kafka consume --broker-list 127.0.0.1:9092 --topic t --exit-at-end

Example, two brokers and a consumer group:
  kafka zookeeper --data-dir zk &
  kafka broker --broker-id 0 --log-dir data0 --zk-connect 127.0.0.1:2181 &
  kafka broker --broker-id 1 --listen 127.0.0.1:9093 --log-dir data1 --zk-connect 127.0.0.1:2181 &
  kafka topics create clicks --partitions 2 --zk-connect 127.0.0.1:2181
  echo hello | kafka produce --zk-connect 127.0.0.1:2181 --topic clicks
  kafka consume --zk-connect 127.0.0.1:2181 --group g --topic clicks --exit-at-end
  kafka groups describe g --zk-connect 127.0.0.1:2181

"kafka help COMMAND" shows the flags of one, "kafka version" what this program was built from.
`)
}
