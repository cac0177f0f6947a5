package schema

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ContentType is the type of what a registry is sent and answers.
const ContentType = "application/vnd.schemaregistry.v1+json"

// Limits of a server. Each bounds what a peer that behaves badly can hold.
const (
	// MaxBodyBytes is the longest body of a request (inclusive): the longest schema
	// with its quotes escaped, and what is around it.
	MaxBodyBytes = 1 << 20

	maxConnections = 1000
	maxHeaderBytes = 16 << 10
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 15 * time.Second // of reading a request whole
	answerTimeout  = 60 * time.Second // from there to the end of its answer
	idleTimeout    = 2 * time.Minute
	// maxBodies is how many bodies above smallBody are read and worked on at once.
	// Smaller ones, which is all but a few, never wait for those who send slowly.
	maxBodies = 64
	smallBody = 64 << 10
)

// ServerConfig describes a server of a registry.
type ServerConfig struct {
	Store  *Store // the caller's; must outlive the server
	Listen string // host and port; port 0 takes a free one
	Logger *slog.Logger
}

// Server answers registry clients over HTTP, from a [Store].
type Server struct {
	store *Store
	log   *slog.Logger
	http  http.Server
	addr  net.Addr

	bodies    chan struct{} // a token for each large one that is worked on
	closeOnce sync.Once
	closeErr  error
	done      chan struct{} // closed when it serves no more
	err       error         // why, once done is closed; nil after Close
}

// Serve listens, and serves until Close. ctx bounds only the listening.
func Serve(ctx context.Context, cfg ServerConfig) (*Server, error) {
	if cfg.Store == nil {
		return nil, errors.New("schema registry: no store is given")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("schema registry: %w: give another address, or stop the process that has it", err)
	case err != nil:
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	s := &Server{store: cfg.Store, log: cfg.Logger, addr: l.Addr(), bodies: make(chan struct{}, maxBodies), done: make(chan struct{})}
	s.http = http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      bodyTimeout + answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(newLimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("schema registry: %w", err)
		}
	}()
	return s, nil
}

// Addr returns the address that it listens at.
func (s *Server) Addr() net.Addr { return s.addr }

// Done is closed when the server serves no more; Err then says why.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the server has ended by itself, or nil.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the server: requests that are answered may end in the time that ctx
// gives, then they are cut off. A second Close returns what the first did.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() {
		err := s.http.Shutdown(ctx)
		if err != nil {
			err = fmt.Errorf("schema registry: requests were cut off: %w", errors.Join(err, s.http.Close()))
		}
		<-s.done
		s.closeErr = err
	})
	return s.closeErr
}

// limitListener accepts no more connections than are free.
type limitListener struct {
	net.Listener
	used      chan struct{} // a token for each connection
	closed    chan struct{}
	closeOnce sync.Once
}

func newLimitListener(l net.Listener, limit int) *limitListener {
	return &limitListener{Listener: l, used: make(chan struct{}, limit), closed: make(chan struct{})}
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.used <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.used
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.used })}, nil
}

func (l *limitListener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
