package rabbitmq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"kafkalab/compare/rabbitmq"
	"kafkalab/harness/driver"
	"kafkalab/harness/host/hosttest"
)

// rabbitmqctl runs the server's own tool against a running server, with the
// server's environment and cookie.
func rabbitmqctl(t *testing.T, s driver.Server, args ...string) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.Processes()[0].PID())
	environ, err := os.ReadFile(proc + "environ")
	if err != nil {
		t.Fatal(err)
	}
	cmdline, err := os.ReadFile(proc + "cmdline")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(cmdline, []byte("-setcookie\x00"))
	cookie, _, _ := bytes.Cut(rest, []byte{0})
	cmd := exec.CommandContext(t.Context(), "/usr/lib/rabbitmq/bin/rabbitmqctl", append([]string{"--erlang-cookie", string(cookie)}, args...)...)
	for _, e := range bytes.Split(bytes.TrimSuffix(environ, []byte{0}), []byte{0}) {
		cmd.Env = append(cmd.Env, string(e))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// TestB24Blocked: a server whose memory is full blocks publishers: it says so and
// no longer reads their connections, so it confirms nothing and answers to no
// close. Nothing may hang, and the reason must be known (fault B24).
func TestB24Blocked(t *testing.T) {
	t.Parallel()
	d, h := rabbitmq.New(), hosttest.Local(t, "")
	start, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := d.Start(start, h, h.Dir()+"/server", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	rabbitmqctl(t, s, "set_vm_memory_high_watermark", "0.00001")

	// All at once, since most of it is waiting.
	var wg sync.WaitGroup
	for _, o := range []driver.Options{{}, {"socket": "plain"}, {"confirms": "bulk", "window": "10"}} {
		wg.Go(func() { sendBlocked(t, d, s.Target(), o) })
	}
	wg.Wait()
}

// sendBlocked sends until the server takes no more, and looks at what is said
// of that.
func sendBlocked(t *testing.T, d driver.Driver, target driver.Target, o driver.Options) {
	c, err := d.Connect(t.Context(), target, o)
	if err != nil {
		t.Error(err)
		return
	}
	p, err := c.Producer(t.Context(), "q")
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	for err = nil; err == nil; {
		err = p.Send(ctx, make([]byte, 64<<10))
	}
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: Send: %v, wanted the context's error", o, err)
	}
	if reasons := c.(driver.Blocked).BlockedReasons(); len(reasons) == 0 || reasons[0] != "low on memory" {
		t.Errorf("%v: blocked for %q", o, reasons)
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close(t.Context()) }()
	select {
	case err = <-closed:
	case <-time.After(30 * time.Second):
		t.Errorf("%v: Close hangs", o)
		return
	}
	// Without confirms, Send has given the connection up already.
	if o["confirms"] == "bulk" && err == nil {
		t.Errorf("%v: Close does not say that the connection was given up", o)
	}
}
