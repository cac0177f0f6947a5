package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/pflag"

	"kafkalab/compare/rawlimit"
)

// rawServerCommand is the server of the physical limit, which the testbed
// starts on the broker host.
func rawServerCommand() command {
	return command{name: "rawserver", summary: "serve the physical limit", hidden: true, run: runRawServer}
}

func runRawServer(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("rawserver", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	cfg := rawlimit.ServerConfig{Logger: slog.New(slog.NewTextHandler(std.Err, nil))}
	flags.StringVar(&cfg.Listen, "listen", "127.0.0.1:0", "`address` to serve on; port 0 takes a free one")
	flags.StringVar(&cfg.Dir, "dir", "", "`folder` for the files; with paths tcp and ping none are made")
	path := flags.String("path", string(rawlimit.PathTCP), "what the bytes pass through: tcp, ping, file or disk")
	flags.DurationVar(&cfg.FlushInterval, "flush-interval", 0, "time between two flushes to the disk; 0 leaves them to the kernel")
	flags.IntVar(&cfg.FlushMessages, "flush-messages", 0, "how many messages of a queue ask for a flush to the disk; 0: none do")
	flags.Usage = func() {
		fmt.Fprintf(std.Out, "testbed rawserver serves the physical limit of link and disk until it is stopped.\n\n%s\n"+
			"Example:\n  testbed rawserver --listen 10.0.0.2:9000 --path file --dir /var/tmp/limit\n", flags.FlagUsagesWrapped(helpWidth))
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	cfg.Path = rawlimit.Path(*path)
	if cfg.Dir == "" && cfg.Path.Stores() {
		return usagef("--path %s writes files: --dir is missing", cfg.Path)
	}
	return rawlimit.Serve(ctx, cfg, func(addr net.Addr) {
		fmt.Fprintln(std.Out, rawlimit.ReadyPrefix+addr.String())
	})
}
