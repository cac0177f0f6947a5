package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/env"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/link"
	"kafkalab/harness/scenario"
)

// called is what a call of the program came to.
type called struct {
	status   int
	out, err string
}

// callTestbed runs the real program.
func callTestbed(t *testing.T, bin string, args ...string) called {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "testbed"), glance(args)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return called{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// namespaceTestbed writes a testbed file of two emulated hosts with that rate.
func namespaceTestbed(t *testing.T, rate string) (file string, l link.Config) {
	t.Helper()
	file = hosttest.NamespaceTestbed(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "\n[link]\nrate = \""+rate+"\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	tb, err := scenario.LoadTestbed(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, tb.Link
}

func left(t *testing.T, l link.Config) []link.Left {
	t.Helper()
	out, err := link.Leftovers(context.WithoutCancel(t.Context()), l)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUpDoctorDown(t *testing.T) {
	bin := hosttest.Programs(t, "testbed", "kafka")
	file, l := namespaceTestbed(t, "none")
	up := callTestbed(t, bin, "up", "--testbed", file)
	if up.status != 0 || !strings.Contains(up.err, "ip netns add "+l.Client.Namespace) || strings.Count(up.out, "Mbit/s") != 2 {
		t.Errorf("up: %+v", up)
	}
	if again := callTestbed(t, bin, "up", "--testbed", file); again.status != 0 || !strings.Contains(again.err, "already") || strings.Contains(again.err, "ip ") {
		t.Errorf("up again: %+v", again)
	}
	doctor := callTestbed(t, bin, "doctor", "--json", "--testbed", file, "--messages", "1000")
	var findings []env.Finding
	if err := json.Unmarshal([]byte(doctor.out), &findings); err != nil || doctor.status != 0 || len(findings) < 5 {
		t.Errorf("doctor: %+v, %v", doctor, err)
	}
	table := callTestbed(t, bin, "doctor", "--testbed", file, "--messages", "1000000000000")
	if table.status != 1 || !strings.Contains(table.out, "missing") || !strings.Contains(table.out, "WHAT MENDS IT") {
		t.Errorf("doctor without space: %+v", table)
	}
	for range 2 {
		if down := callTestbed(t, bin, "down", "--testbed", file); down.status != 0 || down.out != "" {
			t.Errorf("down: %+v", down)
		}
	}
	if left := left(t, l); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A link that is not what it claims to be is refused, and what was made of it
// is removed.
func TestUpRefusesALinkThatIsTooSlow(t *testing.T) {
	bin := hosttest.Programs(t, "testbed")
	file, l := namespaceTestbed(t, "900gbit")
	up := callTestbed(t, bin, "up", "--testbed", file)
	if up.status != 1 || !strings.Contains(up.err, "a wire of 900000 Mbit/s gives") || !strings.Contains(up.err, "Mbit/s, and") {
		t.Errorf("up: %+v", up)
	}
	if left := left(t, l); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestUpOverSSH(t *testing.T) {
	bin := hosttest.Programs(t, "testbed")
	tb := hosttest.SSH(t, bin)
	text, err := os.ReadFile(tb.File)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "any-rate.toml")
	if err := os.WriteFile(file, bytes.Replace(text, []byte(`"1gbit"`), []byte(`"none"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	up := callTestbed(t, bin, "up", "--testbed", file)
	if up.status != 0 || strings.Contains(up.err, "ip ") || strings.Count(up.out, "Mbit/s") != 2 {
		t.Errorf("up: %+v", up)
	}
	if down := callTestbed(t, bin, "down", "--testbed", file); down.status != 0 || len(left(t, tb.Link)) != 2 {
		t.Errorf("down touches hosts that are not its own: %+v", down)
	}
}

// Ctrl-C in the middle of it leaves nothing.
func TestUpInterrupted(t *testing.T) {
	bin := hosttest.Programs(t, "testbed")
	file, l := namespaceTestbed(t, "1gbit")
	cmd := exec.Command(filepath.Join(bin, "testbed"), "up", "--testbed", file)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// As soon as it measures: then a program runs in each namespace.
	deadline := time.Now().Add(patience)
	for !measuring(t, l) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("up does not measure: %s", &errs)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(errs.String(), "canceled") {
			t.Errorf("up ended with %v: %s", err, &errs)
		}
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatalf("up did not end within 10 s: %v", <-ended)
	}
	if left := left(t, l); len(left) != 0 {
		t.Errorf("left: %v\n%s", left, &errs)
	}
}

func measuring(t *testing.T, l link.Config) bool {
	n := 0
	for _, l := range left(t, l) {
		if len(l.PIDs) > 0 {
			n++
		}
	}
	return n == 2
}

func TestTestbedCommandsRefuseBadCalls(t *testing.T) {
	for _, args := range [][]string{
		{"up", "--nosuch"}, {"up", "extra"}, {"up", "--look-time", "99ms"}, {"down", "extra"}, {"doctor", "--messages", "0"},
		{"goodput-send"}, {"goodput-send", "--to", "x:1", "--limit", "-1s"}, {"goodput-receive", "--duration", "0s"},
	} {
		var u usageError
		if err := runHere(args); !errors.As(err, &u) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, command := range []string{"up", "down", "doctor"} {
		if err := runHere([]string{command, "--testbed", "/no/such.toml"}); err == nil || !strings.Contains(err.Error(), "/no/such.toml") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// runHere runs one of the commands in this process.
func runHere(args []string) error {
	for _, c := range []command{upCommand(), downCommand(), doctorCommand(), goodputReceiveCommand(), goodputSendCommand()} {
		if c.name == args[0] {
			return c.run(context.Background(), args[1:], stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		}
	}
	return errors.New("no such command")
}
