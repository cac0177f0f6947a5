package launch

import (
	"context"
	"errors"
	"sync"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// StopGrace is how long a program has to end by itself after SIGTERM. Both
// servers need 2 to 4 seconds, longer on a busy machine.
const StopGrace = 20 * time.Second

// Server is a running server made of one or several programs. It is a
// driver.Server.
type Server struct {
	target   driver.Target
	storeDir string
	logs     []string
	programs []host.Process // in the order in which they were started
	died     chan struct{}

	mu       sync.Mutex
	stopping bool

	watchers sync.WaitGroup
}

// NewServer returns the server that the programs make up, and watches them:
// when one ends without Stop the others are killed, since what is left of a
// server is of no use and might start again what is missing. The programs are
// stopped in the reverse of their order.
func NewServer(target driver.Target, storeDir string, logs []string, programs ...host.Process) *Server {
	s := &Server{target: target, storeDir: storeDir, logs: logs, programs: programs, died: make(chan struct{})}
	var once sync.Once
	for _, p := range programs {
		s.watchers.Go(func() {
			<-p.Done()
			s.mu.Lock()
			stopping := s.stopping
			s.mu.Unlock()
			if stopping {
				return
			}
			once.Do(func() { close(s.died) })
			// Stop reports a program that cannot be killed.
			_ = s.stop(context.Background(), 0)
		})
	}
	return s
}

// Target is where clients find the server.
func (s *Server) Target() driver.Target { return s.target }

// Processes returns the server's own program first.
func (s *Server) Processes() []host.Process {
	out := make([]host.Process, 0, len(s.programs))
	for i := len(s.programs) - 1; i >= 0; i-- {
		out = append(out, s.programs[i])
	}
	return out
}

// Died is closed when a program has ended without Stop.
func (s *Server) Died() <-chan struct{} { return s.died }

// StoreDir is the folder with the stored messages.
func (s *Server) StoreDir() string { return s.storeDir }

// Logs are the server's log files.
func (s *Server) Logs() []string { return s.logs }

// Stop ends the programs, the last started first. It returns when all are
// gone; after ctx they are killed.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	err := s.stop(ctx, StopGrace)
	if err == nil {
		s.watchers.Wait()
	}
	return err
}

func (s *Server) stop(ctx context.Context, grace time.Duration) error {
	var errs []error
	for _, p := range s.Processes() {
		errs = append(errs, p.Stop(ctx, grace))
	}
	return errors.Join(errs...)
}
