package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kafkalab/harness/host"
	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

// ticks is a reading of /proc/stat on two cores.
func ticks(user, nice, system, idle, ioWait, steal, guest int) string {
	return fmt.Sprintf("cpu  %d %d %d %d %d 0 0 %d %d 0\ncpu0 1 1 1 1 1 0 0 0 0 0\ncpu1 1 1 1 1 1 0 0 0 0 0\nintr 1 2\n", user, nice, system, idle, ioWait, steal, guest)
}

func TestOtherWork(t *testing.T) {
	zero := ticks(1000, 0, 500, 9000, 7, 0, 0)
	for _, c := range []struct {
		what, after string
		load        float64
		ok          bool
	}{
		{"idle", ticks(1000, 0, 500, 9100, 7, 0, 0), 0, true},
		{"one of two cores", ticks(1030, 10, 510, 9050, 7, 0, 0), 1, true},
		{"waiting for the disk is idle", ticks(1000, 0, 500, 9000, 107, 0, 0), 0, true},
		{"stolen by a neighbour", ticks(1000, 0, 500, 9075, 7, 25, 0), 0.5, true},
		{"a guest's time is in user already", ticks(1100, 0, 500, 9000, 7, 0, 100), 2, true},
		{"no time has passed", zero, 0, false},
		{"not read", "", 0, false},
		{"no numbers", strings.ReplaceAll(zero, "1000", "many"), 0, false},
	} {
		load, cores, ok := otherWork(zero, c.after)
		if ok != c.ok || ok && (load != c.load || cores != 2) {
			t.Errorf("%s: load %v on %d cores, %v", c.what, load, cores, ok)
		}
	}
	if _, _, ok := otherWork("", zero); ok {
		t.Error("a load without a first reading")
	}
}

// busyHost uses three quarters of its two cores for something else.
type busyHost struct {
	host.Host
	reads *int
}

func (h busyHost) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path != "/proc/stat" {
		return h.Host.ReadFile(ctx, path)
	}
	*h.reads++
	return []byte(ticks(75**h.reads, 0, 0, 25**h.reads, 0, 0, 0)), nil
}

// A run on a busy machine goes on, and says in both attempts of a server what
// it was beside.
func TestBusyMachineIsNoted(t *testing.T) {
	p := newPlan(t, 5_000,
		scenarioOf("send", resultfile.Produce, system("sound", "none")),
		scenarioOf("receive", resultfile.Consume, system("sound", "none")))
	p.Broker = busyHost{p.Broker, new(int)}
	told := 0
	p.Progress = func(u Update) {
		if strings.HasPrefix(u.Note, "the machine was busy") {
			told++
		}
	}
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	for _, id := range []string{"send-sound-1", "receive-sound-1"} {
		a := attemptOf(t, r, id)
		if a.Outcome != resultfile.Valid || a.OtherLoad != 1.5 || len(a.Notes) != 1 || a.Notes[0] != "the machine was busy with other work: load 1.5 on 2 cores" {
			t.Errorf("%s: %s, load %v, notes %q", id, a.Outcome, a.OtherLoad, a.Notes)
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// A host is ready before it is looked at; what keeps it from that is noted at the
// attempt, which goes on.
func TestHostIsMadeReady(t *testing.T) {
	p := newPlan(t, 2_000, scenarioOf("send", resultfile.Produce, system("one", "none"), system("two", "none")))
	reads, ready := 0, 0
	p.Broker = busyHost{p.Broker, &reads}
	p.Ready = func(context.Context) error {
		if reads != 2*ready {
			t.Errorf("looked %d times before it was ready for the attempt %d", reads, ready+1)
		}
		if ready++; ready == 1 {
			return errors.New("not ready")
		}
		return nil
	}
	p.TouchMemory = func(context.Context) (measure.Held, error) {
		if ready == 1 {
			return measure.Held{}, errors.New("not touched")
		}
		return measure.Held{}, nil
	}
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	noted := 0
	for _, a := range read(t, p).Run.Attempts {
		if _, ok := a.Measures["memory_touched_bytes"]; a.Outcome != resultfile.Valid || ok {
			t.Errorf("%s: %s, %v", a.ID, a.Outcome, a.Measures)
		}
		if slices.Contains(a.Notes, "not ready") && slices.Contains(a.Notes, "not touched") {
			noted++
		}
	}
	if ready != 2 || noted != 1 {
		t.Errorf("ready %d times, and noted %d times that it was not", ready, noted)
	}
}
