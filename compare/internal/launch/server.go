package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// StopGrace is how long a program has to end by itself after SIGTERM. The
// servers need up to 4 seconds, longer on a busy machine.
const StopGrace = 20 * time.Second

// ServerConfig is what makes up a [Server].
type ServerConfig struct {
	Target   driver.Target
	StoreDir string
	Logs     []string
	Parts    []driver.StorePart
	// Start starts the programs, and returns them in the order in which they
	// were started once the server takes requests. On an error it leaves nothing
	// running. It is called again to restart the server over the same data.
	Start func(ctx context.Context) ([]host.Process, error)
}

// Server is a running server made of one or several programs. It is a
// driver.Server, a driver.Restarter and a driver.StoreSplitter.
type Server struct {
	cfg  ServerConfig
	died chan struct{}
	once sync.Once // closes died

	mu      sync.Mutex
	current *generation
}

// generation is the programs between a start and an end of the server.
type generation struct {
	programs []host.Process // in the order in which they were started
	wanted   bool           // its end is; under the server's lock
	watchers sync.WaitGroup
}

// StartServer starts the server and watches its programs: when one ends
// without Stop, Shut or Kill the others are killed, since what is left of a
// server is of no use and might start again what is missing. The programs are
// stopped in the reverse of their order.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	s := &Server{cfg: cfg, died: make(chan struct{})}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	programs, err := s.cfg.Start(ctx)
	if err != nil {
		return err
	}
	g := &generation{programs: programs}
	s.mu.Lock()
	s.current = g
	s.mu.Unlock()
	for _, p := range programs {
		g.watchers.Go(func() {
			<-p.Done()
			s.mu.Lock()
			wanted := g.wanted
			s.mu.Unlock()
			if wanted {
				return
			}
			s.once.Do(func() { close(s.died) })
			// Stop reports a program that cannot be killed.
			_ = g.stop(context.Background(), 0)
		})
	}
	return nil
}

// Target is where clients find the server.
func (s *Server) Target() driver.Target { return s.cfg.Target }

// Processes returns the server's own program first. They are new ones after a
// restart.
func (s *Server) Processes() []host.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.reversed()
}

// Died is closed when a program has ended without Stop, Shut or Kill.
func (s *Server) Died() <-chan struct{} { return s.died }

// StoreDir is the folder with the stored messages.
func (s *Server) StoreDir() string { return s.cfg.StoreDir }

// StoreParts are the kinds of files in the store.
func (s *Server) StoreParts() []driver.StorePart { return s.cfg.Parts }

// Logs are the server's log files.
func (s *Server) Logs() []string { return s.cfg.Logs }

// Stop ends the programs, the last started first. It returns when all are
// gone; after ctx they are killed.
func (s *Server) Stop(ctx context.Context) error { return s.want().end(ctx, StopGrace) }

// Shut is Stop: by SIGTERM, which all these servers take for an order to end
// cleanly.
func (s *Server) Shut(ctx context.Context) error { return s.Stop(ctx) }

// Kill ends all programs with SIGKILL, the server's own first.
func (s *Server) Kill(ctx context.Context) error {
	g := s.want()
	for _, p := range g.reversed() {
		if err := p.Signal(ctx, syscall.SIGKILL); err != nil {
			select {
			case <-p.Done(): // it had ended
			default:
				return fmt.Errorf("killing process %d: %w", p.PID(), err)
			}
		}
	}
	// What the programs have started goes with their process groups.
	return g.end(ctx, 0)
}

// Restart starts the server again over the same data, at the same address.
func (s *Server) Restart(ctx context.Context) error {
	for _, p := range s.Processes() {
		select {
		case <-p.Done():
		default:
			return errors.New("the server is running: it cannot be restarted before Shut or Kill")
		}
	}
	return s.start(ctx)
}

// want makes the end of the programs that run a wanted one.
func (s *Server) want() *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.wanted = true
	return s.current
}

// end stops the programs and waits for those who watch them.
func (g *generation) end(ctx context.Context, grace time.Duration) error {
	err := g.stop(ctx, grace)
	if err == nil {
		g.watchers.Wait()
	}
	return err
}

func (g *generation) reversed() []host.Process {
	out := slices.Clone(g.programs)
	slices.Reverse(out)
	return out
}

func (g *generation) stop(ctx context.Context, grace time.Duration) error {
	var errs []error
	for _, p := range g.reversed() {
		errs = append(errs, p.Stop(ctx, grace))
	}
	return errors.Join(errs...)
}
