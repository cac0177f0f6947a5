package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"kafkalab/harness/host"
)

// spy is a host that remembers what was started on it, and whose free ports a
// test can choose.
type spy struct {
	host.Host
	port int // what FreePort returns first; 0: a free one

	mu      sync.Mutex
	asked   bool // for a port
	started []host.Process
}

// Start starts a program and remembers it.
func (s *spy) Start(ctx context.Context, c host.Command) (host.Process, error) {
	p, err := s.Host.Start(ctx, c)
	if err == nil {
		s.mu.Lock()
		s.started = append(s.started, p)
		s.mu.Unlock()
	}
	return p, err
}

// FreePort returns the chosen port, then free ones.
func (s *spy) FreePort(ctx context.Context) (int, error) {
	s.mu.Lock()
	first := !s.asked
	s.asked = true
	s.mu.Unlock()
	if first && s.port != 0 {
		return s.port, nil
	}
	return s.Host.FreePort(ctx)
}

// expectNothingRunning fails the test if a program that was started still
// runs, or any other whose command line or environment names the host's
// folder: what a server starts on its own may have left its process group.
func (s *spy) expectNothingRunning(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.started {
		select {
		case <-p.Done():
		default:
			t.Errorf("process %d is still running", p.PID())
		}
	}
	// A killed process is in the table for a moment more.
	var left []string
	for deadline := time.Now().Add(callTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if left = mentions(s.Dir()); len(left) == 0 {
			return
		}
	}
	t.Errorf("left running: %q", left)
}

// mentions returns the processes whose command line or environment holds text.
func mentions(text string) (found []string) {
	self := fmt.Sprintf("/proc/%d", os.Getpid())
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if d == self {
			continue
		}
		// A process that ends meanwhile, or is another user's, has nothing to say.
		cmdline, _ := os.ReadFile(d + "/cmdline")
		environ, _ := os.ReadFile(d + "/environ")
		if bytes.Contains(cmdline, []byte(text)) || bytes.Contains(environ, []byte(text)) {
			found = append(found, fmt.Sprintf("%s: %s", d, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return found
}
