package runner

import (
	"os"
	"testing"

	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// named is a host of which only the name is asked.
type named struct {
	host.Host
	name string
}

func (n named) Name() string { return n.name }

// The broker host's sampler began 2 s after the client host's, on a clock that
// is an hour ahead.
func TestSamplesAreOnOneClock(t *testing.T) {
	const hour = 3600
	client := &sampling{host: named{name: "client"}, first: make(chan struct{})}
	broker := &sampling{host: named{name: "broker"}, first: make(chan struct{})}
	for _, line := range []struct {
		s    *sampling
		text string
	}{
		{client, `{"Seconds":0.5,"CPUSeconds":1,"StartedUnixNano":1000000000}`},
		{client, `{"Seconds":1,"CPUSeconds":2,"StartedUnixNano":1000000000}`},
		{broker, `{"Seconds":0.5,"GCSeconds":0.25,"ProcessSyscalls":7,"StartedUnixNano":3603000000000}`},
	} {
		if err := line.s.take([]byte(line.text)); err != nil {
			t.Fatal(err)
		}
	}
	onOneClock([]*sampling{client, broker}, hour)
	if got := client.samples; len(got) != 2 || got[0].Seconds != 0.5 || got[1].Seconds != 1 {
		t.Errorf("the client's samples: %+v", got)
	}
	want := resultfile.Sample{Seconds: 2.5, Host: "broker", GCSeconds: 0.25, ProcessSyscalls: 7}
	if got := broker.samples; len(got) != 1 || got[0] != want {
		t.Errorf("the broker's samples: %+v, want %+v", got, want)
	}
	// An offset that is wrong by more than lies between the two puts nothing
	// before the beginning.
	onOneClock([]*sampling{client, broker}, 2*hour)
	if got := broker.samples[0].Seconds; got < 0 {
		t.Errorf("a sample at %v s", got)
	}
	if err := client.take([]byte("no JSON")); err == nil {
		t.Error("a line that is no sample was taken")
	}
}

func TestMovedFrom(t *testing.T) {
	const s = int64(1e9)
	for _, c := range []struct {
		began, sampledFrom int64
		want               float64
		ok                 bool
	}{{5 * s / 2, s, 1.5, true}, {s, s, 0, true}, {0, s, 0, false}, {s, 0, 0, false}, {s, 2 * s, 0, false}} {
		if got, ok := movedFrom(c.began, c.sampledFrom); got != c.want || ok != c.ok {
			t.Errorf("began %d, sampled from %d: %v %v, want %v %v", c.began, c.sampledFrom, got, ok, c.want, c.ok)
		}
	}
}

// The note on a sampler that something else has ended says what it was.
func TestKilledSampler(t *testing.T) {
	h := newPlan(t, 1, scenarioOf("send", resultfile.Produce, system("x", "none"))).Broker
	s := &sampling{host: h, stderr: host.NewTail(sampleTailBytes), first: make(chan struct{})}
	var err error
	if s.input, s.ours, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	s.process, err = h.Start(t.Context(), host.Command{
		Name: "testbed sample", Args: []string{"sh", "-c", "kill -KILL $$"}, In: s.input, Out: &lines{handle: s.take}, Err: s.stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	<-s.process.Done()
	const want = "the sampler ended early: testbed sample on broker: signal: killed"
	if err := s.stop(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}
