package rabbitmq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
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
//
// It is given up once the server has said that it blocks, and no message more has
// been taken in many looks: then Send is what waits.
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
	ctx, cancel := context.WithCancel(t.Context())
	var sent atomic.Int64
	var watching sync.WaitGroup
	watching.Go(func() {
		defer cancel()
		last, same := int64(0), 0
		for limit := time.Now().Add(time.Minute); same < 40 && ctx.Err() == nil && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
			if now := sent.Load(); now != last || len(c.(driver.Blocked).BlockedReasons()) == 0 {
				last, same = now, 0
				continue
			}
			same++
		}
	})
	for err = nil; err == nil; sent.Add(1) {
		err = p.Send(ctx, make([]byte, 64<<10))
	}
	cancel()
	watching.Wait()
	if !errors.Is(err, context.Canceled) {
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
