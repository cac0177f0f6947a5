package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/driver"
)

// check: the options are good and everything is installed.
func (c Config) check(t *testing.T) {
	h := c.open(t)
	for _, o := range append([]driver.Options{c.Options}, c.ClientOptions...) {
		if err := c.Driver.Check(timeout(t), h, o); err != nil {
			t.Fatalf("%v: %v", o, err)
		}
	}
	if c.Driver.Name() == "" {
		t.Error("the driver has no name")
	}
}

// unknownOption: every way in refuses an option that it does not know, by
// name, and starts nothing.
func (c Config) unknownOption(t *testing.T) {
	const name = "no-such-option"
	h := c.open(t)
	o := driver.Options{name: "1"}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with an unknown option: %v; an error that names it is wanted", what, err)
		}
	}
	refused("Check", c.Driver.Check(timeout(t), h, o))
	_, err := c.Driver.Settings(timeout(t), h, o)
	refused("Settings", err)
	s, err := c.Driver.Start(timeout(t), h, h.Dir()+"/server", o)
	refused("Start", err)
	if err == nil {
		stop(t, s)
	}
	cl, err := c.Driver.Connect(timeout(t), driver.Target{Addr: "127.0.0.1:1"}, o)
	refused("Connect", err)
	if err == nil {
		_ = cl.Close(timeout(t))
	}
	if len(h.started) > 0 {
		t.Errorf("%d programs were started", len(h.started))
	}
}

// settings: every row of the table is there, once, in order, and says
// something.
func (c Config) settings(t *testing.T) {
	h := c.open(t)
	for _, o := range append([]driver.Options{c.Options}, c.ClientOptions...) {
		settings, err := c.Driver.Settings(timeout(t), h, o)
		if err != nil {
			t.Fatalf("%v: %v", o, err)
		}
		var rows []string
		for _, s := range settings {
			rows = append(rows, s.Row)
			if strings.TrimSpace(s.Value) == "" {
				t.Errorf("%v: row %q is empty", o, s.Row)
			}
		}
		if !reflect.DeepEqual(rows, driver.SettingRows) {
			t.Errorf("%v: rows are %q, wanted %q", o, rows, driver.SettingRows)
		}
	}
}

// work: one server does the whole job for each set of client options, is
// looked at, and is stopped.
func (c Config) work(t *testing.T) {
	h := c.open(t)
	s := c.start(t, h)
	t.Run("Server", func(t *testing.T) { c.server(t, h, s) })
	for i, o := range append([]driver.Options{c.Options}, c.ClientOptions...) {
		t.Run(fmt.Sprint("Messages", i), func(t *testing.T) {
			t.Logf("options %v", o)
			c.messages(t, s, o, fmt.Sprint("q", i), i == 0)
		})
		few := c // what is left to see needs no many
		few.Messages = max(c.Messages/5, 1)
		if !c.NoTail {
			t.Run(fmt.Sprint("Tail", i), func(t *testing.T) { few.tail(t, s, o, fmt.Sprint("tail", i)) })
		}
		t.Run(fmt.Sprint("FanOut", i), func(t *testing.T) { few.fanOut(t, s, o, fmt.Sprint("fan", i)) })
	}
	if len(s.Processes()) > 0 { // not the null driver, which keeps nothing
		t.Run("Sizes", func(t *testing.T) { c.sizes(t, s) })
		t.Run("StoreParts", func(t *testing.T) { storeParts(t, s) })
		t.Run("Restart", func(t *testing.T) { c.restart(t, h, s) })
	}
	select {
	case <-s.Died():
		t.Error("the server is said to have died")
	default:
	}
	for range 2 {
		within(t, callTimeout, "Stop", func() { stop(t, s) })
	}
	select {
	case <-s.Died():
		t.Error("a stopped server is said to have died")
	default:
	}
	if cl, err := c.Driver.Connect(timeout(t), s.Target(), c.Options); err == nil && len(s.Processes()) > 0 {
		t.Error("Connect succeeds after Stop")
		_ = cl.Close(timeout(t))
	}
}

// server: what a server says of itself is so.
func (c Config) server(t *testing.T, h *spy, s driver.Server) {
	ctx := timeout(t)
	for _, p := range s.Processes() {
		u, err := p.Usage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if u.ResidentBytes <= 0 {
			t.Errorf("process %d uses no memory", p.PID())
		}
	}
	if len(s.Processes()) == 0 {
		return // the null driver
	}
	if _, err := h.AllocatedBytes(ctx, s.StoreDir()); err != nil {
		t.Error(err)
	}
	for _, l := range s.Logs() {
		if text, err := h.ReadFile(ctx, l); err != nil || len(text) == 0 {
			t.Errorf("log %s: %d bytes, %v", l, len(text), err)
		}
	}
	// The client process gets the target as JSON.
	var target driver.Target
	if text, err := json.Marshal(s.Target()); err != nil || json.Unmarshal(text, &target) != nil || !reflect.DeepEqual(target, s.Target()) {
		t.Errorf("target %v does not survive JSON: %v", s.Target(), err)
	}
}

// messages: what is sent arrives, is counted, and is received as it was. What
// no option changes is looked at the first time.
func (c Config) messages(t *testing.T, s driver.Server, o driver.Options, queue string, first bool) {
	cl := c.connect(t, s, o)
	p, err := cl.Producer(timeout(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	// Arrived may be asked while messages are being sent.
	asked := make(chan error, 1)
	go func() {
		last := int64(0)
		for range 5 {
			n, err := cl.Arrived(timeout(t), queue)
			if err == nil && (n < last || n > int64(c.Messages)) {
				err = fmt.Errorf("%d messages have arrived, after %d and of %d", n, last, c.Messages)
			}
			if err != nil {
				asked <- err
				return
			}
			last = n
		}
		asked <- nil
	}()
	c.produce(t, p, c.Messages)
	if promiser, ok := p.(driver.Promiser); ok {
		if n := promiser.Promised(); n != 0 && n != int64(c.Messages) {
			t.Errorf("%d messages of %d are promised after Flush; all, or none without acknowledgement, is wanted", n, c.Messages)
		}
	}
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	waitArrived(t, cl, queue, int64(c.Messages))
	if first {
		askBrokenOff(t, cl, queue, int64(c.Messages))
	}

	// Another client finds them, counts them, and receives them.
	other := c.connect(t, s, o)
	waitArrived(t, other, queue, int64(c.Messages))
	r, err := other.Consumer(timeout(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	if err := receive(timeout(t), r, c.Messages, c.PayloadBytes); err != nil {
		t.Fatal(err)
	}
	// There are no more.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	within(t, callTimeout, "Receive", func() {
		err = r.Receive(ctx, func(p []byte) error { return fmt.Errorf("one more message: %.16x…", p) })
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Receive with nothing to receive: %v, wanted the context's error", err)
	}
	for range 2 {
		if err := closeClient(t, other); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Send(cancelled, make([]byte, c.PayloadBytes)); !errors.Is(err, context.Canceled) {
		t.Errorf("Send with a cancelled context: %v", err)
	}
	if err := closeClient(t, cl); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// produce sends and flushes messages out of one buffer that it uses again.
func (c Config) produce(t *testing.T, p driver.Producer, messages int) {
	t.Helper()
	ctx := timeout(t)
	buf := make([]byte, c.PayloadBytes)
	for i := range messages {
		if err := p.Send(ctx, payload(buf, i)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	clear(buf) // Send must not have kept it
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// askBrokenOff breaks questions for the count off, at the beginning, in the
// middle and about at the end: the next one is answered all the same.
func askBrokenOff(t *testing.T, cl driver.Client, queue string, want int64) {
	t.Helper()
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		_, _ = cl.Arrived(ctx, queue) // answered or not
		cancel()
		if n, err := cl.Arrived(timeout(t), queue); err != nil || n != want {
			t.Fatalf("Arrived after one that was broken off after %v: %d, %v; want %d", time.Duration(i)*50*time.Microsecond, n, err, want)
		}
	}
}

func waitArrived(t *testing.T, cl driver.Client, queue string, want int64) {
	t.Helper()
	ctx := timeout(t)
	for {
		n, err := cl.Arrived(ctx, queue)
		if err != nil {
			t.Fatalf("waiting for %d messages in %s, of which %d have arrived: %v", want, queue, n, err)
		}
		if n == want {
			return
		}
		if n > want {
			t.Fatalf("%d messages have arrived in %s, wanted %d", n, queue, want)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d messages have arrived in %s, wanted %d", n, queue, want)
		}
	}
}

// portInUse: a port that is taken is reported, with its number, and nothing is
// left running.
func (c Config) portInUse(t *testing.T) {
	h := c.open(t)
	l, err := net.Listen("tcp", net.JoinHostPort(h.Addr(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h.port = l.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithTimeout(t.Context(), c.StartTimeout)
	defer cancel()
	s, err := c.Driver.Start(ctx, h, h.Dir()+"/server", c.Options)
	if err == nil {
		stop(t, s)
		if len(s.Processes()) > 0 {
			t.Fatal("the server starts on a port that is in use")
		}
		return
	}
	if !strings.Contains(err.Error(), strconv.Itoa(h.port)) {
		t.Errorf("the error does not name port %d: %v", h.port, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the start went on until its deadline: %v", err)
	}
}

// startDeadline: a start that takes too long ends with its context.
func (c Config) startDeadline(t *testing.T) {
	h := c.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var s driver.Server
	var err error
	within(t, callTimeout, "Start", func() { s, err = c.Driver.Start(ctx, h, h.Dir()+"/server", c.Options) })
	if err == nil {
		stop(t, s) // it is that fast
		return
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start with a short deadline: %v, wanted the context's error", err)
	}
}

// brokerFails: the server first stands still, then is killed, in the middle of
// producing and consuming. Every call returns in bounded time.
func (c Config) brokerFails(t *testing.T) {
	h := c.open(t)
	s := c.start(t, h)
	if len(s.Processes()) == 0 {
		return
	}
	producing, consuming, closing := c.connect(t, s, c.Options), c.connect(t, s, c.Options), c.connect(t, s, c.Options)
	p, err := producing.Producer(timeout(t), "q")
	if err != nil {
		t.Fatal(err)
	}
	c.produce(t, p, c.Messages)
	waitArrived(t, producing, "q", int64(c.Messages))
	r, err := consuming.Consumer(timeout(t), "q")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Receive(timeout(t), func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	p2, err := closing.Producer(timeout(t), "q2")
	if err != nil {
		t.Fatal(err)
	}
	c.produce(t, p2, 1)

	for _, process := range s.Processes() {
		if err := process.Signal(timeout(t), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	err = c.sendUntilError(t, closing, p2, 2*time.Second)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sending to a server that stands still: %v, wanted the context's error", err)
	}
	// Whether Close has something to say is the driver's affair.
	err = closeClient(t, closing)
	t.Logf("Close, with a server that stands still: %v", err)

	for _, process := range s.Processes() {
		if err := process.Signal(timeout(t), syscall.SIGKILL); err != nil {
			t.Log(err) // the driver may have ended it, with the first
		}
	}
	select {
	case <-s.Died():
	case <-time.After(callTimeout):
		t.Fatal("Died is not closed")
	}
	err = c.sendUntilError(t, producing, p, callTimeout)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sending to a server that was killed: %v", err)
	}
	t.Logf("Send: %v", err)
	within(t, callTimeout, "Receive", func() {
		for ctx := timeout(t); ; {
			if err = r.Receive(ctx, func([]byte) error { return nil }); err != nil {
				return
			}
		}
	})
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("receiving from a server that was killed: %v", err)
	}
	t.Logf("Receive: %v", err)
	within(t, callTimeout, "Arrived", func() { _, err = producing.Arrived(timeout(t), "q") })
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asking a server that was killed: %v", err)
	}
	_ = closeClient(t, producing)
	_ = closeClient(t, consuming)
}

// sendUntilError sends and flushes until an error comes, which it must soon
// after d.
func (c Config) sendUntilError(t *testing.T, cl driver.Client, p driver.Producer, d time.Duration) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	buf := make([]byte, c.PayloadBytes)
	within(t, d+closeTimeout, "Send", func() {
		for i := 0; err == nil; i++ {
			if err = p.Send(ctx, payload(buf, i)); err == nil && i%1000 == 999 {
				err = p.Flush(ctx)
			}
		}
	})
	return err
}
