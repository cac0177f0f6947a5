package kafkatest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// A worker is a test's own program once more, in a process that can be killed. An
// environment variable makes it one, whose value says as JSON what it is to do.

// RunAsWorker turns this process into a worker, if its environment says so, and ends it:
// run is given what [WorkerCommand] was, and a context that ends with SIGTERM. A test
// program calls it before anything else. The name stands before an error.
func RunAsWorker[C any](variable, name string, run func(C, context.Context) error) {
	text, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	var c C
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err = run(c, ctx)
		stop()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// WorkerCommand returns the command that starts this program as a worker. It ends with
// this process at the latest.
func WorkerCommand[C any](variable string, c C) (*exec.Cmd, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), variable+"="+string(b))
	// The signal comes when the thread ends that has started it, but Go keeps its threads.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}
