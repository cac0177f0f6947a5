package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kafkalab/kafka/kafkatest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kafka": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(realMain(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
		},
	})
}

// TestScripts replays what a user types and sees. $BROKER is a running broker,
// whose log folder is $LOGDIR, and $NOBROKER an address where nobody listens.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			b := kafkatest.Start(env.T().(testing.TB))
			env.Setenv("BROKER", b.HostPort())
			env.Setenv("LOGDIR", b.Config.LogDir)
			env.Setenv("NOBROKER", "127.0.0.1:1")
			return nil
		},
		RequireExplicitExec: true,
	})
}
