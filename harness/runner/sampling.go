package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

const (
	sampleInterval = 500 * time.Millisecond
	// firstSampleLimit is how long the first sample may take, which shows that
	// the sampler works, and sampleGrace how long the last one may.
	firstSampleLimit = 10 * time.Second
	sampleGrace      = time.Second
	// sampleTailBytes bounds what errors show of a sampler's complaints.
	sampleTailBytes = 2 << 10
)

// sampling is a sampler process on one host ("testbed sample").
type sampling struct {
	host    host.Host
	process host.Process
	input   *os.File // its standard input: it ends when we close ours
	ours    *os.File
	stderr  *host.Tail

	mu      sync.Mutex
	samples []resultfile.Sample
	started int64         // by the host's clock, Unix nanoseconds
	first   chan struct{} // closed with the first sample
}

// startSampling starts a sampler on both hosts and waits until each has given
// its first sample.
func (a *attempt) startSampling(ctx context.Context) error {
	clientPIDs := []int{a.talk.process.PID()}
	var serverPIDs []int
	for _, p := range a.server.Processes() {
		serverPIDs = append(serverPIDs, p.PID())
	}
	for _, on := range []struct {
		host host.Host
		pids []int
		args []string
	}{{a.Client, clientPIDs, nil}, {a.Broker, serverPIDs, a.brokerSampler()}} {
		s, err := startSampler(ctx, on.host, a.spec.streamSampleInterval(sampleInterval), on.pids, on.args)
		if err != nil {
			return fmt.Errorf("sampling %s: %w", on.host.Name(), err)
		}
		a.sampling = append(a.sampling, s)
	}
	limit, cancel := context.WithTimeout(ctx, firstSampleLimit)
	defer cancel()
	for _, s := range a.sampling {
		select {
		case <-s.first:
		case <-s.process.Done():
			return fmt.Errorf("sampling %s: %w", s.host.Name(), s.ended(ctx))
		case <-limit.Done():
			return fmt.Errorf("sampling %s: no sample yet: %w", s.host.Name(), limit.Err())
		}
	}
	return nil
}

// brokerSampler are the arguments for what is sampled on the broker host alone.
func (a *attempt) brokerSampler() []string {
	args := []string{"--disk-path", a.Broker.Dir()}
	if url := a.metricsURL(); url != "" {
		args = append(args, "--metrics-url", url)
	}
	return args
}

func startSampler(ctx context.Context, h host.Host, interval time.Duration, pids []int, more []string) (*sampling, error) {
	binary, err := h.Binary(ctx, "testbed")
	if err != nil {
		return nil, err
	}
	device, err := deviceOf(ctx, h)
	if err != nil {
		return nil, err
	}
	args := []string{binary, "sample", "--interval", interval.String(), "--device", device}
	if len(pids) > 0 {
		var words []string
		for _, pid := range pids {
			words = append(words, strconv.Itoa(pid))
		}
		args = append(args, "--pids", strings.Join(words, ","))
	}
	args = append(args, more...)
	s := &sampling{host: h, stderr: host.NewTail(sampleTailBytes), first: make(chan struct{})}
	if s.input, s.ours, err = os.Pipe(); err != nil {
		return nil, err
	}
	s.process, err = h.Start(ctx, host.Command{
		Name: "testbed sample", Args: args, In: s.input, Out: &lines{handle: s.take}, Err: s.stderr,
	})
	if err != nil {
		return nil, errors.Join(err, s.input.Close(), s.ours.Close())
	}
	return s, nil
}

// deviceOf finds the network device that has the host's address on the test
// network.
func deviceOf(ctx context.Context, h host.Host) (string, error) {
	out, err := h.Run(ctx, "ip", "-o", "addr", "show", "to", h.Addr())
	if err != nil {
		return "", fmt.Errorf("device of %s: %w", h.Addr(), err)
	}
	fields := strings.Fields(string(out)) // "2: eth0 inet 10.0.0.1/24 …"
	if len(fields) < 2 {
		return "", fmt.Errorf("%s has no network device with the address %s", h.Name(), h.Addr())
	}
	device, _, _ := strings.Cut(fields[1], "@") // a veth end is shown with its peer
	return device, nil
}

func (s *sampling) take(line []byte) error {
	var stamped measure.Stamped
	if err := json.Unmarshal(line, &stamped); err != nil {
		return fmt.Errorf("sampler on %s: %w", s.host.Name(), err)
	}
	sample := stamped.Sample
	sample.Host = s.host.Name()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = stamped.StartedUnixNano
	if s.samples = append(s.samples, sample); len(s.samples) == 1 {
		close(s.first)
	}
	return nil
}

// stopSampling ends the samplers and takes over their samples. It is
// idempotent.
func (a *attempt) stopSampling(ctx context.Context) {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*sampleGrace)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(a.sampling))
	for i, s := range a.sampling {
		wg.Go(func() { errs[i] = s.stop(stopping) })
	}
	wg.Wait()
	if clock := a.Results.Run().Testbed.Clock; clock != nil {
		onOneClock(a.sampling, clock.OffsetSeconds)
	}
	if len(a.sampling) > 0 && len(a.sampling[0].samples) > 0 {
		a.sampledFrom = a.sampling[0].started
	}
	for i, s := range a.sampling {
		if errs[i] != nil {
			a.note(a.trial, "sampling %s: %v", s.host.Name(), errs[i])
		}
		a.trial.samples = append(a.trial.samples, s.samples...)
	}
	slices.SortStableFunc(a.trial.samples, func(x, y resultfile.Sample) int { return cmp.Compare(x.Seconds, y.Seconds) })
	a.sampling = nil
}

// onOneClock shifts the seconds of the broker host's samples, which come second,
// to those of the client host's: both then begin when the client host's sampler
// did. offset is by how many seconds the broker host's clock is ahead.
func onOneClock(all []*sampling, offset float64) {
	if len(all) < 2 || len(all[0].samples) == 0 {
		return
	}
	for _, s := range all[1:] {
		shift := float64(s.started-all[0].started)/1e9 - offset
		for i := range s.samples {
			// The client host's began first, whatever the clocks' error says.
			s.samples[i].Seconds += max(shift, 0)
		}
	}
}

// movedFrom is at which second of the samples the messages began to move: both
// moments by the clock of the client host, as Unix nanoseconds, 0 for one that
// is not known.
func movedFrom(began, sampledFrom int64) (seconds float64, ok bool) {
	if began == 0 || sampledFrom == 0 || began < sampledFrom { // a clock that was set back
		return 0, false
	}
	return float64(began-sampledFrom) / 1e9, true
}

// stop ends the sampler by the end of its input, and waits: the last sample is
// that of this moment.
func (s *sampling) stop(ctx context.Context) error {
	early := false
	select {
	case <-s.process.Done():
		early = true
	default:
	}
	err := s.ours.Close()
	select {
	case <-s.process.Done():
	case <-ctx.Done():
	}
	err = errors.Join(err, s.process.Stop(ctx, 0), s.input.Close())
	if early {
		err = errors.Join(s.ended(ctx), err)
	}
	return err
}

// ended says how a sampler that was not told to end has ended.
func (s *sampling) ended(ctx context.Context) error {
	how := ""
	if err := s.process.Wait(ctx); err != nil {
		how = err.Error()
	}
	return fmt.Errorf("the sampler ended early: %s", orElse(join(how, s.stderr.String()), "without an error"))
}
