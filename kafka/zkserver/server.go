package zkserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Server is a running server. Its methods may be called concurrently.
type Server struct {
	cfg      Config
	log      *slog.Logger
	listener *net.TCPListener
	began    time.Time

	queue    chan item
	stop     chan struct{} // closed: the core finishes what is queued, and ends
	coreDone chan struct{} // closed when it has
	tasks    sync.WaitGroup
	serving  sync.WaitGroup // connections; Add under mu while not stopping

	mu       sync.Mutex
	stopping bool
	conns    map[*conn]struct{}

	received, sent, refused atomic.Int64 // packets, packets, connections
	watchDelay              atomic.Int64 // of DelayWatches

	core // of the goroutine that runs it alone

	closeOnce sync.Once
	closeErr  error
	done      chan struct{}
	failOnce  sync.Once
	failure   error // set before done is closed
}

// Start opens the data folder, recovering it after an unclean stop, and serves
// when it returns. ctx bounds the start alone; [Server.Close] ends the server.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, began: time.Now(),
		queue: make(chan item, queuedItems), stop: make(chan struct{}), coreDone: make(chan struct{}),
		conns: make(map[*conn]struct{}), done: make(chan struct{}),
		core: newCore(),
	}
	if cfg.DataDir != "" {
		if s.store, s.state, err = openStore(cfg.fs, cfg.DataDir, cfg.Logger); err != nil {
			return nil, err
		}
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w: give another address, or stop the process that has it", err)
		}
		return nil, errors.Join(fmt.Errorf("listen on %q: %w", cfg.Listen, err), s.closeStore())
	}
	s.listener = l.(*net.TCPListener)
	// Whoever was connected before the stop has its whole time-out to come back.
	for _, x := range s.state.sessions {
		x.heard.Store(int64(s.elapsed()))
	}
	// After this line the state belongs to run.
	s.log.Info("ZooKeeper server started", "listen", s.Addr().String(), "data_dir", cfg.DataDir, "zxid", fmt.Sprintf("%#x", s.state.tree.zxid),
		"nodes", s.state.tree.count(), "sessions", len(s.state.sessions), "tick_time", cfg.TickTime,
		"min_session_timeout", cfg.MinSessionTimeout, "max_session_timeout", cfg.MaxSessionTimeout)
	s.tasks.Add(2)
	go s.run()
	go s.accept()
	return s, nil
}

// elapsed is the server's clock: it counts from the start and never jumps.
func (s *Server) elapsed() time.Duration { return time.Since(s.began) }

// Addr returns the address that clients connect to.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Done is closed when the server has failed or [Server.Close] has ended it.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns, once Done is closed, what failed, or nil after a Close. A server
// fails when it cannot write its log or accept connections; it then answers
// nothing more and still wants its Close.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.failure
	default:
		return nil
	}
}

// fail closes Done.
func (s *Server) fail(err error) {
	s.failOnce.Do(func() {
		s.failure = err
		close(s.done)
		if err != nil {
			s.log.Error("ZooKeeper server failed", "error", err)
		}
	})
}

// flushGrace is how long clients may take to read the last answers.
const flushGrace = time.Second

// Close ends the server: it takes no more connections, carries out what has
// arrived, sends the answers, for at most a second and half of the time that
// ctx leaves, and closes the data folder. Sessions and their ephemeral nodes are
// kept there, as ZooKeeper does: they end when nobody comes back for them. When
// the disk does not answer within ctx, the error says so, and the folder is closed
// when it does. Further calls wait for the first one and return its result.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() {
		s.closeErr = s.shutDown(ctx)
		s.fail(nil)
	})
	return s.closeErr
}

func (s *Server) shutDown(ctx context.Context) error {
	grace := flushGrace
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, max(time.Until(deadline)/2, 0))
	}
	s.mu.Lock()
	s.stopping = true // no connection is admitted after this
	s.mu.Unlock()
	errs := []error{s.listener.Close()}
	close(s.stop)
	select {
	case <-s.coreDone: // it waits for nothing but the disk
	case <-ctx.Done():
		s.abortAll()
		go func() { // for as long as the disk takes
			<-s.coreDone
			s.tasks.Wait()
			if err := s.closeStore(); err != nil {
				s.log.Error("data folder closed late", "data_dir", s.cfg.DataDir, "error", err)
			}
		}()
		return fmt.Errorf("the disk has not taken the transaction log in %s, which stays open until it has: %w", s.cfg.DataDir, ctx.Err())
	}
	s.mu.Lock()
	for c := range s.conns {
		c.out.push(outgoing{last: true})
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.serving.Wait(); close(ended) }()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	s.abortAll()
	<-ended // nothing holds a connection that is closed
	s.tasks.Wait()
	errs = append(errs, s.closeStore())
	err := errors.Join(errs...)
	if err != nil {
		s.log.Error("ZooKeeper server did not stop cleanly", "error", err)
	} else {
		s.log.Info("ZooKeeper server stopped")
	}
	return err
}

func (s *Server) abortAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.abort()
	}
}

func (s *Server) closeStore() error {
	if s.store == nil {
		return nil
	}
	return s.store.close()
}
