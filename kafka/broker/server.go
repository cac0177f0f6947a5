package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/storage"
)

const (
	// drainTime is how long a stopping broker goes on reading what has arrived on
	// its connections.
	drainTime = time.Second
	// lingerTime is how long the peer of a connection that is broken off may take
	// to notice.
	lingerTime = 500 * time.Millisecond
)

// Server is a running broker. Its methods may be called concurrently.
type Server struct {
	cfg      Config
	log      *slog.Logger
	logs     *storage.Manager
	listener *net.TCPListener
	metrics  *metrics
	memory   *memory

	// What the web server shows, which runs before the logs are open.
	web    *webServer // nil without MetricsListen
	start  start
	opened atomic.Pointer[storage.Manager] // logs, once they are open
	disk   diskRoom

	ctx    context.Context // of all connections; ends when they must end now
	cancel context.CancelFunc

	// stopping is set before the readers are woken; stop is closed with it.
	// drainEnd and lingerEnd, in nanoseconds since the epoch, are set before both.
	stopping            atomic.Bool
	stop                chan struct{}
	drainEnd, lingerEnd atomic.Int64

	mu      sync.Mutex
	conns   map[*conn]struct{} // guarded by mu
	perAddr map[netip.Addr]int // how many of them each address has; guarded by mu
	serving sync.WaitGroup     // connections; Add under mu while not stopping
	tasks   sync.WaitGroup     // acceptor

	topicWatchers watchers
	// registration is what keeps the broker in ZooKeeper; nil if nothing does.
	registration atomic.Pointer[registration]

	acceptLog, refusedLog, stalledLog, oversizedLog, failureLog limitedLog

	closeOnce sync.Once
	closeErr  error
	done      chan struct{}
	failOnce  sync.Once
	failure   error // set before done is closed
}

// Start opens the log folder, recovering it after an unclean stop, and
// serves when it returns. If there is a ZooKeeper it is registered there too, or
// Start fails: with a [*registry.TakenError] when another broker has the id. ctx
// bounds the start alone; [Server.Close] ends the broker.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Storage.Logger == nil {
		cfg.Storage.Logger = cfg.Logger
	}
	cfg.Storage.Topics = keepSchemas(cfg.Storage.Topics)
	s := &Server{
		cfg:     cfg,
		log:     cfg.Logger,
		stop:    make(chan struct{}),
		conns:   make(map[*conn]struct{}),
		perAddr: make(map[netip.Addr]int),
		done:    make(chan struct{}),
		start:   start{began: time.Now()},
		disk:    diskRoom{dir: cfg.LogDir, statfs: statfs},
	}
	s.metrics = newMetrics(s)
	if err := s.startWeb(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.memory, err = newMemory(cfg.MaxRequestMemoryBytes, cfg.ReadTimeout, s.stop, s.drainBy, s.log); err != nil {
		return nil, errors.Join(err, s.closeWeb())
	}
	s.metrics.registry.MustRegister(&memoryCollector{s.memory})
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.memory.close(), s.closeWeb())
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.checkFileLimit()
	if err := s.serve(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*maxGrace)
		defer cancel()
		return nil, errors.Join(err, s.Close(stop))
	}
	s.log.Info("broker started", "broker_id", cfg.ID, "listen", s.Addr().String(), "log_dir", cfg.LogDir,
		"visible", cfg.Storage.Visible.String(), "flush_messages", cfg.Storage.FlushMessages, "flush_interval", cfg.Storage.FlushInterval,
		"roll_interval", cfg.Storage.RollInterval, "retention", cfg.Storage.RetentionAge, "retention_bytes", cfg.Storage.RetentionBytes,
		"sendfile", cfg.Sendfile)
	return s, nil
}

// open opens what the server stands on, or nothing.
func (s *Server) open(ctx context.Context) (err error) {
	s.cfg.Storage.Hooks = s.hooks()
	if s.logs, err = storage.Open(ctx, s.cfg.LogDir, s.cfg.Storage); err != nil {
		return err
	}
	s.cfg.Storage = s.logs.Config()
	s.opened.Store(s.logs)
	s.tellOpened()
	// That the address cannot be had is told now, and not after ZooKeeper has been
	// waited for.
	l, err := s.listen(ctx)
	if err == nil && s.cfg.ZooKeeper.Servers != "" {
		err = l.Close()
		l = nil
	}
	if err != nil {
		return errors.Join(err, s.logs.Close(ctx))
	}
	s.listener = l
	return nil
}

// serve serves clients, in the order of Kafka 0.7: first there is a session with
// ZooKeeper, then clients are served, then the id is registered. So a broker that
// does not find its ZooKeeper has taken nothing from anybody, and one that is
// registered serves.
func (s *Server) serve(ctx context.Context) (err error) {
	if err := s.connectZooKeeper(ctx); err != nil {
		return err
	}
	if s.listener == nil {
		if s.listener, err = s.listen(ctx); err != nil {
			return err
		}
	}
	s.tasks.Add(1)
	go s.accept()
	s.start.took.Store(int64(max(time.Since(s.start.began), 1)))
	return s.register(ctx)
}

func (s *Server) listen(ctx context.Context) (*net.TCPListener, error) {
	listen := net.ListenConfig{Control: s.setBuffers}
	l, err := listen.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return nil, listenError("clients", "--listen", err)
	}
	return l.(*net.TCPListener), nil
}

// listenError says what to do when an address cannot be had.
func listenError(what, flag string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen for %s: %w: give another %s, or stop the process that has it", what, err, flag)
	}
	return fmt.Errorf("listen for %s: %w", what, err)
}

// setBuffers sets the socket buffers before the listener is bound, as the
// window that a connection announces is chosen when it is accepted (KAFKA-200).
func (s *Server) setBuffers(_, _ string, raw syscall.RawConn) error {
	var errs [2]error
	err := raw.Control(func(fd uintptr) {
		if n := s.cfg.SendBufferBytes; n > 0 {
			errs[0] = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, n)
		}
		if n := s.cfg.ReceiveBufferBytes; n > 0 {
			errs[1] = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, n)
		}
	})
	return errors.Join(err, errs[0], errs[1])
}

// checkFileLimit warns when the limit of open files cannot hold the segments
// that are kept open and the connections that are allowed (fault B05).
func (s *Server) checkFileLimit() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		s.log.Warn("limit of open files unknown", "error", err)
		return
	}
	files, closed := 0, 0
	for _, l := range s.logs.Logs() {
		files++ // the active segment, open all the time
		closed += max(l.State().Segments-1, 0)
	}
	files += min(closed, s.cfg.Storage.OpenSegments)
	const reserve = 64 // listener, folders, new segments, the runtime's own
	if need := uint64(files + s.cfg.MaxConnections + reserve); need > limit.Cur {
		s.log.Warn("limit of open files is low: connections beyond it wait until others close; raise it with ulimit -n, or lower the number of connections",
			"limit", limit.Cur, "segments", files, "max_connections", s.cfg.MaxConnections, "wanted", need)
	}
}

// Addr returns the address that clients connect to.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Done is closed when the broker has failed or [Server.Close] has ended it.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns, once Done is closed, what failed, or nil after a Close. A broker
// that has failed accepts no more connections and still wants its Close.
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
			s.log.Error("broker failed", "error", err)
		}
	})
}

// Close ends the broker: it ends its session with ZooKeeper, and with that its
// registration, takes no more connections, handles the requests
// that have arrived, sends their answers, and closes the log folder with
// everything flushed. Half of the time that ctx leaves, and at most 5 s, is for
// the connections; those that are not through then are cut off, and the error
// says how many. That the session could not be ended, as ZooKeeper is away, is
// logged and no error: ZooKeeper ends it after its time-out.
// Further calls wait for the first one and return its result.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() {
		s.closeErr = s.shutDown(ctx)
		s.fail(nil)
	})
	return s.closeErr
}

// Time that Close gives the connections at most, and after it has cut them off.
const (
	maxGrace    = 5 * time.Second
	cutOffGrace = 2 * time.Second
)

func (s *Server) shutDown(ctx context.Context) error {
	unregistered := s.unregister(ctx)
	grace := maxGrace
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, max(time.Until(deadline)/2, 0))
	}
	drain := min(drainTime, grace/2)
	s.drainEnd.Store(time.Now().Add(drain).UnixNano())
	s.lingerEnd.Store(time.Now().Add(drain + min(lingerTime, grace/4)).UnixNano())
	s.mu.Lock()
	s.stopping.Store(true) // no connection is admitted after this
	close(s.stop)
	for c := range s.conns {
		c.in.interrupt()
	}
	s.mu.Unlock()

	var errs []error
	if s.listener != nil {
		errs = append(errs, s.listener.Close())
	}
	errs = append(errs, s.closeConns(ctx, grace))
	s.tasks.Wait()
	if err := s.logs.Close(ctx); err != nil {
		errs = append(errs, err)
	}
	if err := unregistered(); err != nil {
		s.log.Warn("the session with ZooKeeper could not be ended: the broker stays registered there until its time-out",
			"broker_id", s.cfg.ID, "zookeeper", s.cfg.ZooKeeper.Servers, "error", err)
	}
	errs = append(errs, s.closeWeb())
	err := errors.Join(errs...)
	if err != nil {
		s.log.Error("broker did not stop cleanly", "error", err)
	} else {
		s.log.Info("broker stopped")
	}
	return err
}

// closeConns waits for the connections to end, and ends those that do not. Once
// they have, it gives back what they read into.
func (s *Server) closeConns(ctx context.Context, grace time.Duration) error {
	ended := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(ended)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
		s.cancel()
		return s.memory.close()
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	cut := len(left)
	// Each in a goroutine of its own and without the lock: the close of a socket
	// waits for a system call on it, such as a sendfile whose disk hangs.
	var closes sync.WaitGroup
	for _, c := range left {
		closes.Go(c.close)
	}
	s.cancel()
	timer.Reset(cutOffGrace)
	select {
	case <-ended:
		closes.Wait()
		err := s.memory.close()
		if cut > 0 {
			err = errors.Join(fmt.Errorf("%d connections were cut off after %v", cut, grace), err)
		}
		return err
	case <-timer.C:
		return fmt.Errorf("%d connections were cut off after %v, and some still wait for the disk", cut, grace)
	}
}

// drainBy is until when a stopping broker reads.
func (s *Server) drainBy() time.Time { return time.Unix(0, s.drainEnd.Load()) }

// lingerBy is until when a connection that is broken off now waits for its peer.
func (s *Server) lingerBy() time.Time {
	by := time.Now().Add(lingerTime)
	if s.stopping.Load() {
		if end := time.Unix(0, s.lingerEnd.Load()); end.Before(by) {
			return end
		}
	}
	return by
}
