package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/link"
)

// goodputReceiveCommand and goodputSendCommand are the two ends of a
// measurement of the link: link.Goodput starts them on the hosts.
func goodputReceiveCommand() command {
	return command{name: "goodput-receive", summary: "count what arrives over one TCP connection", hidden: true, run: runGoodputReceive}
}

func goodputSendCommand() command {
	return command{name: "goodput-send", summary: "send as fast as TCP takes it", hidden: true, run: runGoodputSend}
}

func runGoodputReceive(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("goodput-receive", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	listen := flags.String("listen", "127.0.0.1:0", "`address` to take the connection at; port 0: any")
	d := flags.Duration("duration", 3*time.Second, "how long to count")
	flags.Usage = func() {
		fmt.Fprintf(std.Err, "testbed goodput-receive prints the port it listens on, and then the bytes and seconds it counted, as JSON lines.\n\n%s\n"+
			"Example:\n  testbed goodput-receive --listen 192.168.7.2:0 --duration 3s\n", flags.FlagUsagesWrapped(helpWidth))
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *d <= 0 {
		return usagef("--duration %v: more than 0 is wanted", *d)
	}
	out := json.NewEncoder(std.Out)
	t, err := link.Receive(ctx, *listen, *d, func(a net.Addr) error {
		return out.Encode(link.Listening{Port: a.(*net.TCPAddr).Port})
	})
	if err != nil {
		return err
	}
	return out.Encode(t)
}

func runGoodputSend(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("goodput-send", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	to := flags.String("to", "", "`address` of the receiver, with the port that it printed")
	limit := flags.Duration("limit", 20*time.Second, "longest time to send; the receiver ends it before")
	flags.Usage = func() {
		fmt.Fprintf(std.Err, "testbed goodput-send sends to a \"testbed goodput-receive\" until that has enough.\n\n%s\n"+
			"Example:\n  testbed goodput-send --to 192.168.7.2:34567\n", flags.FlagUsagesWrapped(helpWidth))
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *to == "" {
		return usagef("--to ADDRESS is missing: where the receiver listens")
	}
	if *limit <= 0 {
		return usagef("--limit %v: more than 0 is wanted", *limit)
	}
	return link.Send(ctx, *to, *limit)
}
