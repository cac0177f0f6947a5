package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

const (
	// smokeLimit ends a smoke run that hangs. It takes about 80 s on 2 cores, and
	// several times as long where they are busy.
	smokeLimit = 15 * time.Minute
	// patience is how long a test waits for what must come, also on a machine that
	// is busy with others.
	patience = 3 * time.Minute
	// interruptLimit is the promise: Ctrl-C ends everything within it.
	interruptLimit = 10 * time.Second
)

// running is the real program at work.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err *watched
	ended    chan struct{} // closed when it has ended
}

// glance has a run, or up, look at its hosts for a moment only, unless it says for
// how long: what they can do is not what is tested here.
func glance(args []string) []string {
	if args[0] != "run" && args[0] != "up" || slices.Contains(args, "--look-time") {
		return args
	}
	return append(slices.Clone(args), "--look-time", "100ms")
}

// startTestbed starts the real program. What it leaves in the folder for
// temporary files is seen by the site.
func startTestbed(t *testing.T, s *site, args ...string) *running {
	t.Helper()
	r := &running{t: t, out: newWatched(), err: newWatched(), ended: make(chan struct{})}
	r.cmd = exec.Command(filepath.Join(s.bin, "testbed"), glance(args)...)
	r.cmd.Env = append(os.Environ(), "TMPDIR="+s.temp)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.err
	// A process that is left and keeps the output open is found by the site.
	r.cmd.WaitDelay = 5 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // the exit status is what counts
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // nothing if it has ended
		<-r.ended
	})
	return r
}

// end waits for the program's end.
func (r *running) end(limit time.Duration) called {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(limit):
		r.t.Fatalf("%v has not ended within %v:\n%s%s", r.cmd.Args, limit, r.out, r.err)
	}
	return called{r.cmd.ProcessState.ExitCode(), r.out.String(), r.err.String()}
}

// waitFor waits until the program tells of that on its standard error.
func (r *running) waitFor(told string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for !strings.Contains(r.err.String(), told) {
		select {
		case <-r.err.more:
		case <-r.ended:
			if !strings.Contains(r.err.String(), told) {
				r.t.Fatalf("%v ended before %q:\n%s", r.cmd.Args, told, r.err)
			}
		case <-ctx.Done():
			r.t.Fatalf("%v does not come to %q:\n%s", r.cmd.Args, told, r.err)
		}
	}
}

// interrupt is Ctrl-C, and wants the program's end in time.
func (r *running) interrupt() called {
	r.t.Helper()
	start := time.Now()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		r.t.Fatal(err)
	}
	got := r.end(interruptLimit)
	r.t.Logf("%v after the interrupt all had ended", time.Since(start).Round(time.Millisecond))
	return got
}

func (r *running) wantStatus(limit time.Duration, status int) called {
	r.t.Helper()
	got := r.end(limit)
	if got.status != status {
		r.t.Fatalf("%v: exit status %d, want %d\n%s%s", r.cmd.Args, got.status, status, got.out, got.err)
	}
	return got
}

// upTries is how many times "up" is called on a machine that is busy.
const upTries = 5

// up makes the emulated hosts. It is called again when the link does not give
// its rate, which a busy machine is to blame for, and not what is tested here.
func (s *site) up() {
	s.t.Helper()
	for try := 1; ; try++ {
		got := startTestbed(s.t, s, "up", "--testbed", s.file, "--look-time", "3s").end(patience)
		if got.status == 0 {
			return
		}
		if try == upTries || !strings.Contains(got.err, "a wire of ") {
			s.t.Fatalf("up: exit status %d\n%s%s", got.status, got.out, got.err)
		}
		s.t.Logf("up, try %d: %s", try, got.err)
	}
}

// The whole path over two emulated hosts: what "make smoke" does, and then
// what a user does with the result.
func TestSmokeOverNamespaces(t *testing.T) {
	file := hosttest.NamespaceTestbed(t)
	s := newSite(t, file, hosttest.Programs(t, "testbed", "kafka"))
	s.up()
	before := s.traces()
	r := smoke(t, s)
	s.wantOnly(before)
	if !r.Run.Testbed.Emulated || r.Run.Testbed.Kind != string(host.Namespace) {
		t.Errorf("testbed %+v", r.Run.Testbed)
	}

	drawn := mustDraw(t, s, r.Dir)
	for path, was := range drawn {
		if ext := filepath.Ext(path); ext == ".png" || ext == ".svg" {
			if now := mustRead(t, path); !bytes.Equal(now, was) {
				t.Errorf("%s differs from the one that the run drew", path)
			}
		}
	}
	again := mustDraw(t, s, r.Dir)
	for path, was := range drawn {
		if !bytes.Equal(again[path], was) {
			t.Errorf("%s differs when it is drawn again", path)
		}
	}
	got := startTestbed(t, s, "compare", r.Dir).wantStatus(time.Minute, 0)
	for _, want := range []string{"Kafka", "RabbitMQ", "ActiveMQ"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("compare does not speak of %s:\n%s", want, got.out)
		}
	}

	startTestbed(t, s, "down", "--testbed", file).wantStatus(time.Minute, 0)
	if left := left(t, s.testbed.Link); len(left) != 0 {
		t.Errorf("down left %v", left)
	}
}

// The same run over two machines that are reached by ssh.
func TestSmokeOverSSH(t *testing.T) {
	bin := hosttest.Programs(t, "testbed", "kafka")
	tb := hosttest.SSH(t, bin)
	s := newSite(t, tb.File, bin)
	s.testbed.Link = tb.Link // not in the file: the testbed does not know of it
	before := s.traces()
	// One of each kind: what differs between the others is the same on any host.
	r := smoke(t, s, "limit", "kafka", "rabbitmq", "activemq", "nats")
	s.wantOnly(before)
	// The two sshd are of this machine.
	if !r.Run.Testbed.Emulated || r.Run.Testbed.Kind != string(host.SSH) {
		t.Errorf("testbed %+v", r.Run.Testbed)
	}
}

// smoke runs the scenario with those systems, or with all, and checks all that
// it leaves.
func smoke(t *testing.T, s *site, systems ...string) *resultfile.Result {
	t.Helper()
	out := t.TempDir()
	args := []string{"run", "--testbed", s.file, "--scenario", "smoke", "--figures", "--out", out}
	for _, name := range systems {
		args = append(args, "--system", name)
	}
	got := startTestbed(t, s, args...).wantStatus(smokeLimit, 0)
	r := theRun(t, out)
	checkAttempts(t, s, r)
	checkExplained(t, r.Run)
	checkFigures(t, r.Dir, got.err)
	return r
}

// checkAttempts wants one valid attempt of every system of both scenarios,
// with every message arrived once, whole and in order.
func checkAttempts(t *testing.T, s *site, r *resultfile.Result) {
	t.Helper()
	systems := map[string]bool{}
	for _, sc := range r.Run.Scenarios {
		for _, sys := range sc.Systems {
			systems[sc.Name+"/"+sys.ID] = true
			systems[sys.Driver] = true
		}
	}
	for _, d := range []string{"kafka", "rabbitmq", "activemq", "nats", "rawlimit"} {
		if !systems[d] {
			t.Errorf("no system of the driver %s was run", d)
		}
		delete(systems, d)
	}
	if len(r.Run.Attempts) != len(systems) {
		t.Errorf("%d attempts of %d systems", len(r.Run.Attempts), len(systems))
	}
	for _, a := range r.Run.Attempts {
		delete(systems, a.Scenario+"/"+a.System)
		t.Logf("%s took %.1f s", a.ID, a.Ended.Sub(a.Started).Seconds())
		if a.Outcome != resultfile.Valid || !a.Verified || a.Lost+a.Doubled+a.Damaged+a.Reordered != 0 {
			t.Errorf("%s: %s, verified %v, lost %d, doubled %d, damaged %d, reordered %d: %s",
				a.ID, a.Outcome, a.Verified, a.Lost, a.Doubled, a.Damaged, a.Reordered, a.Reason)
		}
		if a.Messages != r.Run.Messages || a.PayloadBytes != a.Messages*200 || a.ClientMessages != a.Messages {
			t.Errorf("%s: %d messages, %d bytes, %d by the client's count, of %d", a.ID, a.Messages, a.PayloadBytes, a.ClientMessages, r.Run.Messages)
		}
		// The kernel counts a server's time in hundredths of a second, of which
		// the fast ones may need none.
		slow := strings.HasPrefix(a.System, "rabbitmq") || strings.HasPrefix(a.System, "activemq")
		if slow && a.BrokerCPUSeconds <= 0 || a.ClientCPUSeconds <= 0 || a.BrokerResidentBytes <= 0 {
			t.Errorf("%s: processor time of the broker %v s, of the client %v s, resident %d bytes", a.ID, a.BrokerCPUSeconds, a.ClientCPUSeconds, a.BrokerResidentBytes)
		}
		points := r.Points(a.ID)
		if last := points[len(points)-1]; last.Arrived != a.Messages {
			t.Errorf("%s: the last point is %+v", a.ID, last)
		}
		hosts := map[string]bool{}
		for _, sample := range r.Samples(a.ID) {
			hosts[sample.Host] = true
		}
		if !hosts[s.testbed.ClientHost.Name] || !hosts[s.testbed.BrokerHost.Name] {
			t.Errorf("%s: samples of %v only", a.ID, hosts)
		}
	}
	for sys := range systems {
		t.Errorf("no attempt of %s", sys)
	}
}

// checkExplained wants a run that a stranger can judge: when, from which
// source, on which hosts, over which link, with which settings.
func checkExplained(t *testing.T, run resultfile.Run) {
	t.Helper()
	if !regexp.MustCompile(`^[0-9a-f]{12}(\+changes)?$`).MatchString(run.Commit) {
		t.Errorf("commit %q", run.Commit)
	}
	if !strings.HasPrefix(run.Command, "testbed run ") || run.Started.IsZero() || !run.Ended.After(run.Started) || run.Interrupted {
		t.Errorf("command %q, started %v, ended %v, interrupted %v", run.Command, run.Started, run.Ended, run.Interrupted)
	}
	for _, h := range []resultfile.Host{run.Testbed.ClientHost, run.Testbed.BrokerHost} {
		for _, fact := range []string{"processor", "cores", "memory", "kernel", "disk", "TCP congestion control"} {
			if h.Fact(fact) == "" {
				t.Errorf("host %s: nothing is said of %q", h.Name, fact)
			}
		}
	}
	for _, fact := range []string{"RabbitMQ", "ActiveMQ", "NATS", "Java", "Erlang"} {
		if run.Testbed.BrokerHost.Fact(fact) == "" {
			t.Errorf("the version of %s is not told", fact)
		}
	}
	if b := run.Testbed; b.LinkGoodputMbps <= 0 || b.LinkReverseGoodputMbps <= 0 || b.LinkNote == "" {
		t.Errorf("link %+v", b)
	}
	for _, sc := range run.Scenarios {
		for _, sys := range sc.Systems {
			var rows []string
			for _, row := range sys.Settings {
				if row.Value != "" {
					rows = append(rows, row.Row)
				}
			}
			if strings.Join(rows, "|") != strings.Join(driver.SettingRows, "|") {
				t.Errorf("%s/%s: the settings are %v", sc.Name, sys.ID, rows)
			}
			checkContract(t, run, sys)
		}
	}
}

// checkFigures wants both figures, in all formats, and told of.
func checkFigures(t *testing.T, dir, told string) {
	t.Helper()
	for ext, begin := range map[string]string{".png": "\x89PNG\r\n\x1a\n", ".svg": "<?xml", ".pdf": "%PDF-"} {
		for _, name := range []string{"fig4-producer", "fig5-consumer"} {
			path := filepath.Join(dir, name+ext)
			if text := mustRead(t, path); !bytes.HasPrefix(text, []byte(begin)) || len(text) < 1000 {
				t.Errorf("%s begins with %.20q and has %d bytes", path, text, len(text))
			}
		}
	}
	if want := " attempts valid. Results, figures and tables: " + dir + "\n"; !strings.Contains(told, want) {
		t.Errorf("%q is not told:\n%s", want, told)
	}
}

// mustDraw draws the figures of a run and returns the files.
func mustDraw(t *testing.T, s *site, dir string) map[string][]byte {
	t.Helper()
	got := startTestbed(t, s, "plot", dir).wantStatus(time.Minute, 0)
	drawn := map[string][]byte{}
	for _, path := range strings.Fields(got.out) {
		drawn[path] = mustRead(t, path)
	}
	if len(drawn) < 7 {
		t.Fatalf("plot wrote %s", got.out)
	}
	return drawn
}
