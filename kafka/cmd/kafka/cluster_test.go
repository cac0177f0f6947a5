package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/zkserver"
)

// testZooKeeper is a ZooKeeper in the process of a test, with short ticks.
type testZooKeeper struct {
	tb   testing.TB
	cfg  zkserver.Config
	s    *zkserver.Server
	Addr string
}

// startZooKeeper starts a ZooKeeper, which is stopped at the end of the test.
func startZooKeeper(tb testing.TB) *testZooKeeper {
	tb.Helper()
	z := &testZooKeeper{tb: tb, cfg: zkserver.Config{
		Listen: "127.0.0.1:0", TickTime: 100 * time.Millisecond, DataDir: tb.TempDir(),
		Logger: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}}
	z.Start()
	tb.Cleanup(z.Stop)
	return z
}

// Start starts it again, with what it has kept, at the same address.
func (z *testZooKeeper) Start() {
	z.tb.Helper()
	var err error
	if z.s, err = zkserver.Start(z.tb.Context(), z.cfg); err != nil {
		z.tb.Fatal(err)
	}
	z.Addr = z.s.Addr().String()
	z.cfg.Listen = z.Addr
}

// Stop stops it.
func (z *testZooKeeper) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := z.s.Close(ctx); err != nil {
		z.tb.Errorf("stop ZooKeeper: %v", err)
	}
}

// registered makes a broker register in ZooKeeper.
func registered(zk string, id int32) kafkatest.Option {
	return func(c *broker.Config) {
		c.ID, c.ZooKeeper.Servers, c.AdvertisedHost = id, zk, "127.0.0.1"
	}
}

// TestClusterScripts replays what a user types and sees of a cluster. $ZK is a
// running ZooKeeper with two brokers: $BROKER, whose id is 0, and $BROKER2, whose
// id is 1. See scriptCommands and processCommands for what there is beside
// testscript's own commands.
func TestClusterScripts(t *testing.T) {
	commands := maps.Clone(scriptCommands)
	maps.Copy(commands, processCommands)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cluster",
		Setup: func(env *testscript.Env) error {
			tb := env.T().(testing.TB)
			zk := startZooKeeper(tb).Addr
			b := kafkatest.Start(tb, registered(zk, 0))
			env.Values[scriptBroker{}] = b
			env.Values[scriptProcesses{}] = map[string]*scriptProcess{}
			env.Setenv("ZK", zk)
			env.Setenv("BROKER", b.HostPort())
			env.Setenv("BROKER2", kafkatest.Start(tb, registered(zk, 1)).HostPort())
			env.Setenv("NOZK", "127.0.0.1:1")
			return nil
		},
		Cmds:                commands,
		RequireExplicitExec: true,
	})
}

// TestQuickStart follows the quick start of README.md with processes of its own,
// but for the ports: a ZooKeeper, two brokers, and two consumers of a group, of
// which one is killed. Nothing is lost.
func TestQuickStart(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/quickstart",
		Setup: func(env *testscript.Env) error {
			env.Values[scriptProcesses{}] = map[string]*scriptProcess{}
			return nil
		},
		Cmds:                processCommands,
		RequireExplicitExec: true,
	})
}

// TestProcessScripts replays what a user sees of members that are killed, and of a
// ZooKeeper that is away. Everything is a process of the script.
func TestProcessScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/processes",
		Setup: func(env *testscript.Env) error {
			env.Values[scriptProcesses{}] = map[string]*scriptProcess{}
			return nil
		},
		Cmds:                processCommands,
		RequireExplicitExec: true,
	})
}

// TestQuickStartIsTheREADMEs: every command that README.md shows in its quick
// start stands in the script, in that order.
func TestQuickStartIsTheREADMEs(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/quickstart/group.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "## Quick start\n")
	if !found {
		t.Fatal("README.md has no section \"Quick start\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rest, commands := string(script), 0
	for line := range strings.Lines(section) {
		command, shown := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !shown {
			continue
		}
		command, _, _ = strings.Cut(command, "  #") // what it prints
		commands++
		if _, rest, found = strings.Cut(rest, "# $ "+strings.TrimSpace(command)+"\n"); !found {
			t.Fatalf("the script does not have %q, or not there", command)
		}
	}
	if commands < 8 {
		t.Errorf("the quick start has %d commands only", commands)
	}
}
