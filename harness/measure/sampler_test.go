package measure

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

func newSampler(t *testing.T, cfg SamplerConfig) *Sampler {
	t.Helper()
	s, err := NewSampler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until takes samples until ok, and fails after a while.
func until(t *testing.T, s *Sampler, what string, ok func(resultfile.Sample) bool) {
	t.Helper()
	var sample resultfile.Sample
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var err error
		if sample, err = s.Sample(); err != nil {
			t.Fatal(err)
		}
		if ok(sample) {
			return
		}
	}
	t.Fatalf("%s never showed: last sample %+v", what, sample)
}

func TestSamplerCountsFromZero(t *testing.T) {
	s := newSampler(t, SamplerConfig{PIDs: []int{os.Getpid()}, Device: "lo", DiskPath: t.TempDir()})
	sample, err := s.Sample()
	if err != nil {
		t.Fatal(err)
	}
	if sample.Seconds < 0 || sample.CPUSeconds < 0 || sample.ProcessSeconds < 0 || sample.ProcessSeconds > 60 ||
		sample.NetRxBytes < 0 || sample.DiskWriteBytes < 0 || sample.MemoryFree <= 0 || sample.RunQueue < 0 {
		t.Errorf("first sample %+v", sample)
	}
}

func TestSamplerSeesProcessorTime(t *testing.T) {
	s := newSampler(t, SamplerConfig{PIDs: []int{os.Getpid()}})
	// Taking samples is work itself.
	until(t, s, "50 ms of processor time", func(p resultfile.Sample) bool {
		return p.ProcessSeconds >= 0.05 && p.CPUSeconds > 0
	})
}

func TestSamplerSeesTheNetwork(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := newSampler(t, SamplerConfig{Device: "lo"})
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// It fits the socket's buffers: nobody reads.
	if _, err := c.Write(make([]byte, 50_000)); err != nil {
		t.Fatal(err)
	}
	until(t, s, "50,000 bytes over lo", func(p resultfile.Sample) bool {
		return p.NetRxBytes >= 50_000 && p.NetTxBytes >= 50_000
	})
}

func TestSamplerSeesTheDisk(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/data")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := newSampler(t, SamplerConfig{DiskPath: f.Name()})
	if len(s.disks.names) == 0 {
		t.Logf("this machine shows no disk; counting must still work")
		if _, err := s.Sample(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	// A temporary folder in memory writes to no disk: there the counter need
	// only stand still or grow with what others do.
	if onDisk(t, f.Name()) {
		until(t, s, "1 MiB written", func(p resultfile.Sample) bool { return p.DiskWriteBytes >= 1<<20 })
	}
}

func onDisk(t *testing.T, path string) bool {
	one, err := newDiskCounter(path)
	if err != nil {
		t.Fatal(err)
	}
	all := &diskCounter{fs: one.fs}
	if err := all.useAll(); err != nil {
		t.Fatal(err)
	}
	return len(one.names) == 1 && len(all.names) > 0
}

func TestAllDisksAreUsedWhereThereIsNoneOfItsOwn(t *testing.T) {
	d, err := newDiskCounter("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range d.names {
		if strings.HasPrefix(name, "loop") {
			t.Errorf("%s counts as a disk", name)
		}
	}
	if _, _, err := d.read(); err != nil {
		t.Error(err)
	}
}

func TestSamplerSeesWhatAProcessReadsWritesAndHolds(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/data")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := newSampler(t, SamplerConfig{PIDs: []int{os.Getpid()}})
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	until(t, s, "memory and 100 calls", func(p resultfile.Sample) bool {
		return p.ProcessResidentBytes > 1<<20 && p.ProcessSyscalls >= 100 // of the sampler itself
	})
	if onDisk(t, f.Name()) {
		until(t, s, "1 MiB written by the process", func(p resultfile.Sample) bool { return p.ProcessWriteBytes >= 1<<20 })
	}
}

// A broker that dies must not take the samples with it, nor its share of them.
func TestAnEndedProcessKeepsItsTime(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read x; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := newSampler(t, SamplerConfig{PIDs: []int{cmd.Process.Pid}})
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has done its work
		t.Fatal(err)
	}
	before, err := s.Sample()
	if err != nil {
		t.Fatal(err)
	}
	if before.ProcessResidentBytes <= 0 || before.ProcessSyscalls <= 0 {
		t.Errorf("before the end: %+v", before)
	}
	in.Close()
	_ = cmd.Wait() // read fails at the end of its input
	after, err := s.Sample()
	if err != nil {
		t.Fatalf("after the end of the process: %v", err)
	}
	if before.ProcessSeconds <= 0 || after.ProcessSeconds < before.ProcessSeconds {
		t.Errorf("processor time %v before and %v after the end", before.ProcessSeconds, after.ProcessSeconds)
	}
	if after.ProcessSyscalls < before.ProcessSyscalls || after.ProcessResidentBytes != 0 {
		t.Errorf("calls %d before and %d after the end, which leaves %d bytes resident", before.ProcessSyscalls, after.ProcessSyscalls, after.ProcessResidentBytes)
	}
}

func TestSamplerRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  SamplerConfig
		want string
	}{
		"no such process": {SamplerConfig{PIDs: []int{1 << 30}}, "1073741824"},
		"no such device":  {SamplerConfig{Device: "nosuch0"}, `no network device "nosuch0": there are`},
		"no such folder":  {SamplerConfig{DiskPath: "/no/such"}, "/no/such"},
		"no such page":    {SamplerConfig{MetricsURL: "http://127.0.0.1:1/metrics"}, "http://127.0.0.1:1/metrics"},
	} {
		if _, err := NewSampler(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
}

func TestRunSamplesUntilItsContextEnds(t *testing.T) {
	s := newSampler(t, SamplerConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seconds []float64
	err := s.Run(ctx, time.Millisecond, func(p resultfile.Sample) error {
		if seconds = append(seconds, p.Seconds); len(seconds) == 3 {
			cancel()
		}
		return nil
	})
	if err != nil || len(seconds) < 3 || seconds[2] < seconds[0] {
		t.Errorf("Run = %v after samples at %v", err, seconds)
	}
	broken := errors.New("broken pipe")
	if err := s.Run(t.Context(), time.Hour, func(resultfile.Sample) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Run = %v, want the error of emit", err)
	}
	if err := s.Run(t.Context(), 0, nil); err == nil {
		t.Error("an interval of 0 was taken")
	}
}
