package main

import (
	"context"
	"maps"
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
// whose log folder is $LOGDIR, $BROKER2 another one, and $NOBROKER an address
// where nobody listens. See scriptCommands and processCommands for what there is
// beside testscript's own commands.
func TestScripts(t *testing.T) {
	commands := maps.Clone(scriptCommands)
	maps.Copy(commands, processCommands)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			tb := env.T().(testing.TB)
			b := kafkatest.Start(tb)
			env.Values[scriptBroker{}] = b
			env.Values[scriptProcesses{}] = map[string]*scriptProcess{}
			env.Setenv("BROKER", b.HostPort())
			env.Setenv("LOGDIR", b.Config.LogDir)
			env.Setenv("BROKER2", kafkatest.Start(tb).HostPort())
			env.Setenv("NOBROKER", "127.0.0.1:1")
			return nil
		},
		Cmds:                commands,
		RequireExplicitExec: true,
	})
}
