package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// crasher is the null driver with a server process that can be killed and comes
// back. After that the last messages are gone, as many as the option "lose"
// says. The server confirms all but the last hundred if "confirms" is on.
type crasher struct{ driver.Null }

func (crasher) Name() string { return "crasher" }

// confirmLag is how far the confirmations are behind, and chunk how many
// messages are sent in a millisecond.
const (
	confirmLag = 100
	chunk      = 100
)

type crasherOptions struct {
	confirms bool
	lose     int64
	fault    string
}

func readCrasher(o driver.Options) (crasherOptions, error) {
	r := o.Read()
	c := crasherOptions{
		confirms: r.OneOf("confirms", "off", "on") == "on",
		lose:     int64(r.Int("lose", 0, 0, 1<<20)),
		// deaf does not notice that its server is gone, early ends by itself,
		// doubled and miscount are found after the crash.
		fault: r.OneOf("fault", "none", "deaf", "early", "doubled", "miscount", "no-restart", "in-hand"),
	}
	return c, r.Err()
}

func (crasher) Check(_ context.Context, _ host.Host, o driver.Options) error {
	_, err := readCrasher(o)
	return err
}

// crasherServer keeps its process's number and how often it was started in
// files, for the clients.
type crasherServer struct {
	*driver.Program
	null  driver.Server
	fault string
}

func (d crasher) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	opts, err := readCrasher(o)
	if err != nil {
		return nil, err
	}
	null, err := d.Null.Start(ctx, broker, dir, nil)
	if err != nil {
		return nil, err
	}
	script := fmt.Sprintf(`cd %q; echo up >> starts; echo $$ > pid; echo at here:1; exec sleep 3600`, dir)
	p, err := driver.StartProgram(ctx, broker, driver.ProgramConfig{
		Command:  host.Command{Name: "crasher", Args: []string{"sh", "-c", script}},
		Ready:    func(line string) (string, bool) { return strings.CutPrefix(line, "at ") },
		StoreDir: dir, LogFile: filepath.Join(dir, "crasher.log"), Grace: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &crasherServer{Program: p, null: null, fault: opts.fault}, nil
}

func (s *crasherServer) Target() driver.Target { return s.null.Target() }

func (s *crasherServer) Restart(ctx context.Context) error {
	if s.fault == "no-restart" {
		return errors.New("the journal is damaged")
	}
	return s.Program.Restart(ctx)
}

func (d crasher) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	opts, err := readCrasher(o)
	if err != nil {
		return nil, err
	}
	null, err := d.Null.Connect(ctx, target, nil)
	if err != nil {
		return nil, err
	}
	starts, err := os.ReadFile(filepath.Join(target.Extra["dir"], "starts"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(target.Extra["dir"], "pid"))
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	c := &crasherClient{Client: null, o: opts, pid: pid}
	c.again = bytes.Count(starts, []byte("up")) > 1
	return c, err
}

type crasherClient struct {
	driver.Client
	o     crasherOptions
	pid   int
	again bool // it is a server that has come back
}

func (c *crasherClient) alive() bool { return syscall.Kill(c.pid, 0) == nil }

// kept is how many messages the server still has.
func (c *crasherClient) kept(ctx context.Context, queue string) (int64, error) {
	n, err := c.Client.Arrived(ctx, queue)
	if c.again {
		n = max(n-c.o.lose, 0)
	}
	return n, err
}

func (c *crasherClient) Arrived(ctx context.Context, queue string) (int64, error) {
	n, err := c.kept(ctx, queue)
	if c.again && c.o.fault == "miscount" {
		n++
	}
	return n, err
}

func (c *crasherClient) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	p, err := c.Client.Producer(ctx, queue)
	return &crasherProducer{Producer: p, c: c}, err
}

type crasherProducer struct {
	driver.Producer
	c    *crasherClient
	sent int64
}

func (p *crasherProducer) Send(ctx context.Context, payload []byte) error {
	if p.sent%chunk == 0 {
		time.Sleep(time.Millisecond)
		if p.c.o.fault == "early" && p.sent > 0 {
			return errors.New("the queue is full")
		}
		if !p.c.alive() {
			if p.c.o.fault == "deaf" {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			if p.c.o.fault == "in-hand" { // the message had left all the same
				_ = p.Producer.Send(ctx, payload)
			}
			return errors.New("connection reset by peer")
		}
	}
	p.sent++
	return p.Producer.Send(ctx, payload)
}

// Promised implements driver.Promiser.
func (p *crasherProducer) Promised() int64 {
	if !p.c.o.confirms {
		return 0
	}
	return max(p.sent-confirmLag, 0)
}

func (c *crasherClient) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	kept, err := c.kept(ctx, queue)
	if err != nil {
		return nil, err
	}
	inner, err := c.Client.Consumer(ctx, queue)
	return &crasherConsumer{Consumer: inner, c: c, kept: kept}, err
}

type crasherConsumer struct {
	driver.Consumer
	c              *crasherClient
	kept, received int64
}

func (c *crasherConsumer) Receive(ctx context.Context, handle func([]byte) error) error {
	if c.received >= c.kept {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return c.Consumer.Receive(ctx, func(payload []byte) error {
		c.received++
		if c.received > c.kept {
			return nil // it is gone
		}
		if c.c.again && c.c.o.fault == "doubled" && c.received == 1 {
			if err := handle(payload); err != nil {
				return err
			}
		}
		return handle(payload)
	})
}

// crashPlan kills the broker of each of the systems once.
func crashPlan(t *testing.T, options map[string]driver.Options) Plan {
	t.Helper()
	s := scenario.Scenario{Name: "crash", Title: "crash", Purpose: "crash", Work: resultfile.Crash, PayloadBytes: 200, Queue: "bench", Limit: "none"}
	for _, id := range slices.Sorted(maps.Keys(options)) {
		s.Systems = append(s.Systems, scenario.System{ID: id, Label: id, Driver: "crasher", Role: scenario.RoleSystem,
			Options: options[id], ExpectedRate: 100_000, StoredBytes: 209, WarmUp: 100})
	}
	p := newPlan(t, 20_000, s)
	p.Stall = 700 * time.Millisecond
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, p)
	return p
}

// A broker that is killed comes back; what it had not confirmed may be lost,
// and is counted.
func TestCrash(t *testing.T) {
	p := crashPlan(t, map[string]driver.Options{
		"none":     {"lose": "70"},
		"confirms": {"lose": "70", "confirms": "on"},
		"all":      {"confirms": "on"},
		"deaf":     {"fault": "deaf", "lose": "10"},
		"in-hand":  {"fault": "in-hand", "lose": "0"},
	})
	r := read(t, p)
	for _, c := range []struct {
		id       string
		lost     float64
		promised bool
	}{{"none", 70, false}, {"confirms", 70, true}, {"all", 0, true}, {"deaf", 10, false}, {"in-hand", 0, false}} {
		a := attemptOf(t, r, "crash-"+c.id+"-1")
		m := a.Measures
		if a.Outcome != resultfile.Valid || !a.Verified {
			t.Errorf("%s: %s %s", c.id, a.Outcome, a.Reason)
			continue
		}
		if m["crash_lost_unpromised"] != c.lost || m["crash_lost_promised"] != 0 || a.Lost != int64(c.lost) {
			t.Errorf("%s: %v", c.id, m)
		}
		if m["crash_sent"] <= 0 || m["crash_present"] != m["crash_sent"]-c.lost || a.Messages != int64(m["crash_sent"]) {
			t.Errorf("%s: %v", c.id, m)
		}
		if want := m["crash_sent"] - confirmLag; c.promised != (m["crash_promised"] > 0) || c.promised && m["crash_promised"] != want {
			t.Errorf("%s: %v promised, of %v sent", c.id, m["crash_promised"], m["crash_sent"])
		}
		// 20,000 messages are expected to take 0.2 s, the least there is.
		if at := m["crash_at_seconds"]; at < 0.2 || m["restart_seconds"] <= 0 {
			t.Errorf("%s: killed after %v s, restarted in %v s", c.id, at, m["restart_seconds"])
		}
		if a.BrokerCPUSeconds < 0 || a.Seconds <= 0 {
			t.Errorf("%s: %v s of the broker's processor in %v s", c.id, a.BrokerCPUSeconds, a.Seconds)
		}
		if once := slices.Compact(slices.Sorted(slices.Values(a.Notes))); len(once) != len(a.Notes) {
			t.Errorf("%s: a note is told twice: %q", c.id, a.Notes)
		}
	}
}

// A broker that breaks its promise is found out, and so is what else is wrong.
func TestCrashFaults(t *testing.T) {
	p := crashPlan(t, map[string]driver.Options{
		"broken":     {"confirms": "on", "lose": "250"},
		"doubled":    {"fault": "doubled"},
		"early":      {"fault": "early"},
		"miscount":   {"fault": "miscount"},
		"no-restart": {"fault": "no-restart"},
	})
	r := read(t, p)
	for id, want := range map[string]struct {
		outcome resultfile.Outcome
		reason  string
	}{
		"broken":     {resultfile.Invalid, "a promise was broken"},
		"doubled":    {resultfile.Invalid, "1 doubled"},
		"early":      {resultfile.Failed, "the queue is full"},
		"miscount":   {resultfile.Invalid, "no more came for"},
		"no-restart": {resultfile.Failed, "the journal is damaged"},
	} {
		a := attemptOf(t, r, "crash-"+id+"-1")
		if a.Outcome != want.outcome || !strings.Contains(a.Reason, want.reason) {
			t.Errorf("%s: %s %q, want %s with %q", id, a.Outcome, a.Reason, want.outcome, want.reason)
		}
	}
	broken := attemptOf(t, r, "crash-broken-1").Measures
	if broken["crash_lost_promised"] != 250-confirmLag || broken["crash_lost_unpromised"] != confirmLag {
		t.Errorf("broken: %v", broken)
	}
}

// The time of the kill is a function of the seed, within its bounds, and not
// the same for all.
func TestCrashTimeIsDrawnFromTheSeed(t *testing.T) {
	e := entry{scenario: scenario.Scenario{Name: "crash"}, system: scenario.System{ID: "a", ExpectedRate: 1000}}
	p := Plan{Selection: scenario.Selection{Messages: 10_000, Cap: time.Minute}, Seed: 7}
	seen := map[time.Duration]bool{}
	for repetition := 1; repetition <= 50; repetition++ {
		at := p.crashAfter(e, repetition)
		if at < 2*time.Second || at > 8*time.Second {
			t.Errorf("repetition %d: after %v, 20 to 80 %% of 10 s are wanted", repetition, at)
		}
		if again := p.crashAfter(e, repetition); again != at {
			t.Errorf("repetition %d: %v, then %v", repetition, at, again)
		}
		seen[at] = true
	}
	other := p
	other.Seed = 8
	if len(seen) < 45 || other.crashAfter(e, 1) == p.crashAfter(e, 1) {
		t.Errorf("%d different times of 50; another seed draws %v, this one %v", len(seen), other.crashAfter(e, 1), p.crashAfter(e, 1))
	}
	p.Selection.Cap = time.Second // the cap shortens what is expected
	if at := p.crashAfter(e, 1); at > time.Second {
		t.Errorf("with a cap of a second it is killed after %v", at)
	}
	p.Selection.Messages = 10
	if at := p.crashAfter(e, 1); at != crashLeast {
		t.Errorf("of ten messages it is killed after %v", at)
	}
}

// A system that cannot come back is none to be killed.
func TestCrashNeedsARestarter(t *testing.T) {
	s := scenarioOf("crash", resultfile.Crash, system("bare", "none", "kind", "bare"))
	p := newPlan(t, 1000, s)
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if a := attemptOf(t, read(t, p), "crash-bare-1"); a.Outcome != resultfile.Failed || !strings.Contains(a.Reason, "killed and started again") {
		t.Errorf("%s %s", a.Outcome, a.Reason)
	}
}
