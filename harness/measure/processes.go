package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"kafkalab/results/resultfile"
)

// processCounters are what a process has used since it started.
type processCounters struct {
	seconds     float64
	read, write int64 // at the block layer
	syscalls    int64
}

// largest takes the larger of each counter: a process's number that was given
// to a new process would begin again.
func (c processCounters) largest(o processCounters) processCounters {
	return processCounters{
		seconds: max(c.seconds, o.seconds), read: max(c.read, o.read),
		write: max(c.write, o.write), syscalls: max(c.syscalls, o.syscalls),
	}
}

// readProcesses adds up the processes. One that has ended keeps its counters,
// and holds no memory any more.
func (s *Sampler) readProcesses(sum *resultfile.Sample) error {
	for _, pid := range s.cfg.PIDs {
		now, resident, err := s.readProcess(pid)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("host sampler: process %d: %w", pid, err)
		}
		// What could be read of one that ended meanwhile counts.
		now = now.largest(s.processes[pid])
		s.processes[pid] = now
		sum.ProcessSeconds += now.seconds
		sum.ProcessReadBytes += now.read
		sum.ProcessWriteBytes += now.write
		sum.ProcessSyscalls += now.syscalls
		sum.ProcessResidentBytes += resident
	}
	return nil
}

// readProcess reads a process's counters, all threads together, and the memory
// that it holds.
func (s *Sampler) readProcess(pid int) (c processCounters, resident int64, err error) {
	p, err := s.proc.Proc(pid)
	if err != nil {
		return c, 0, err
	}
	stat, err := p.Stat()
	if err != nil {
		return c, 0, err
	}
	c.seconds, resident = stat.CPUTime(), int64(stat.ResidentMemory())
	io, err := p.IO()
	if err != nil {
		return c, resident, err
	}
	c.read, c.write = int64(io.ReadBytes), int64(io.WriteBytes)
	// A sendfile is one of each; recv and send are neither.
	c.syscalls = int64(io.SyscR + io.SyscW)
	return c, resident, nil
}
