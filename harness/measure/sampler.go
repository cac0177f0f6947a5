package measure

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"kafkalab/results/resultfile"
)

// SamplerConfig says what a [Sampler] looks at.
type SamplerConfig struct {
	PIDs   []int  // processes whose use of the machine is added up; may be empty
	Device string // network device; empty: the network is not counted
	// DiskPath is a folder on the disk to count; empty: the disk is not
	// counted. Where its file system has no disk of its own (overlay, btrfs,
	// tmpfs), all disks of the machine are added up.
	DiskPath string
	// MetricsURL is a page of metrics for Prometheus of a program written in Go,
	// which is asked, once a second at most, for the processor time of its
	// garbage collection; empty: that is not known.
	MetricsURL string
}

// Sampler reads the resources of the machine, and of the network namespace,
// that it runs on. It must not be used by several goroutines at once.
type Sampler struct {
	proc  procfs.FS
	disks *diskCounter // nil: not counted
	cfg   SamplerConfig
	start time.Time
	base  resultfile.Sample // the counters when the sampler was made
	// processes keeps the last counters of each process, which stay when the
	// process has ended.
	processes map[int]processCounters
	metrics   *metricsPage // nil: none
}

// NewSampler returns a sampler whose counters begin at zero now. It refuses
// processes, devices, folders and pages of metrics that do not exist.
func NewSampler(cfg SamplerConfig) (*Sampler, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("host sampler: %w", err)
	}
	s := &Sampler{proc: proc, cfg: cfg, start: time.Now(), processes: map[int]processCounters{}}
	for _, pid := range cfg.PIDs {
		if _, err := proc.Proc(pid); err != nil {
			return nil, fmt.Errorf("host sampler: no process %d", pid)
		}
	}
	if cfg.DiskPath != "" {
		if s.disks, err = newDiskCounter(cfg.DiskPath); err != nil {
			return nil, fmt.Errorf("host sampler: %w", err)
		}
	}
	if cfg.MetricsURL != "" {
		if s.metrics, err = newMetricsPage(cfg.MetricsURL); err != nil {
			return nil, fmt.Errorf("host sampler: %w", err)
		}
	}
	if s.base, err = s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Sample returns the state of this moment. Its counters and its Seconds began
// at zero when the sampler was made. Host is left empty.
func (s *Sampler) Sample() (resultfile.Sample, error) {
	now, err := s.read()
	if err != nil {
		return resultfile.Sample{}, err
	}
	now.Seconds = time.Since(s.start).Seconds()
	now.CPUSeconds -= s.base.CPUSeconds
	now.ProcessSeconds -= s.base.ProcessSeconds
	now.NetRxBytes -= s.base.NetRxBytes
	now.NetTxBytes -= s.base.NetTxBytes
	now.DiskReadBytes -= s.base.DiskReadBytes
	now.DiskWriteBytes -= s.base.DiskWriteBytes
	now.ProcessReadBytes -= s.base.ProcessReadBytes
	now.ProcessWriteBytes -= s.base.ProcessWriteBytes
	now.ProcessSyscalls -= s.base.ProcessSyscalls
	now.GCSeconds -= s.base.GCSeconds
	return now, nil
}

// Stamped is a sample with the moment at which its Seconds were 0, by the clock
// of its host.
type Stamped struct {
	resultfile.Sample
	StartedUnixNano int64
}

// Stamp says when the sampler began to count.
func (s *Sampler) Stamp(sample resultfile.Sample) Stamped {
	return Stamped{Sample: sample, StartedUnixNano: s.start.UnixNano()}
}

// Run calls emit with a sample at once, then every interval, and once more
// when ctx ends, which is its normal end: nil is returned. An error of emit
// ends it and is returned.
func (s *Sampler) Run(ctx context.Context, interval time.Duration, emit func(resultfile.Sample) error) error {
	if interval <= 0 {
		return fmt.Errorf("a sample every %v: more than 0 is wanted", interval)
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		sample, err := s.Sample()
		if err == nil {
			err = emit(sample)
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// read returns the raw counters, since the start of the machine or process.
func (s *Sampler) read() (resultfile.Sample, error) {
	var sample resultfile.Sample
	// First, since it may take a moment that the others must not be old by.
	if s.metrics != nil {
		sample.GCSeconds = s.metrics.read(time.Now())
	}
	stat, err := s.proc.Stat()
	if err != nil {
		return sample, fmt.Errorf("host sampler: %w", err)
	}
	// Guest time is part of user time; stolen time was not ours to use.
	c := stat.CPUTotal
	sample.CPUSeconds = c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ
	sample.RunQueue = max(0, int(stat.ProcessesRunning)-1) // without the sampler itself
	memory, err := s.proc.Meminfo()
	if err != nil {
		return sample, fmt.Errorf("host sampler: %w", err)
	}
	if memory.MemAvailableBytes == nil {
		return sample, errors.New("host sampler: /proc/meminfo has no MemAvailable: Linux 3.14 or later is wanted")
	}
	sample.MemoryFree = int64(*memory.MemAvailableBytes)
	if err := s.readProcesses(&sample); err != nil {
		return sample, err
	}
	if sample.NetRxBytes, sample.NetTxBytes, err = s.readDevice(); err != nil {
		return sample, err
	}
	if s.disks != nil {
		if sample.DiskReadBytes, sample.DiskWriteBytes, err = s.disks.read(); err != nil {
			return sample, fmt.Errorf("host sampler: %w", err)
		}
	}
	return sample, nil
}

func (s *Sampler) readDevice() (rx, tx int64, err error) {
	if s.cfg.Device == "" {
		return 0, 0, nil
	}
	devices, err := s.proc.NetDev()
	if err != nil {
		return 0, 0, fmt.Errorf("host sampler: %w", err)
	}
	line, ok := devices[s.cfg.Device]
	if !ok {
		names := make([]string, 0, len(devices))
		for name := range devices {
			names = append(names, name)
		}
		sort.Strings(names)
		return 0, 0, fmt.Errorf("host sampler: no network device %q: there are %s", s.cfg.Device, strings.Join(names, ", "))
	}
	return int64(line.RxBytes), int64(line.TxBytes), nil
}
