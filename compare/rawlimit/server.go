package rawlimit

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"kafkalab/harness/workload"
)

// Path is what the bytes of a message pass through, and so what is measured.
type Path string

// The paths.
const (
	PathTCP  Path = "tcp"  // the link: received and thrown away; sent as made
	PathPing Path = "ping" // the link, message by message: what is received is sent on at once
	PathFile Path = "file" // link and disk: received into a file; sent with sendfile
	PathDisk Path = "disk" // the disk: made by the server, written to a file; sent with sendfile
)

// Stores says whether the messages go into a file.
func (p Path) Stores() bool { return p == PathFile || p == PathDisk }

// ServerConfig is how [Serve] serves.
type ServerConfig struct {
	Listen string // host:port; port 0 takes a free one
	Dir    string // folder for the files, which is made; those of a server before are gone on with
	Path   Path
	// FlushInterval is the time between two flushes of the files to the disk
	// (fsync); 0 leaves it to the kernel.
	FlushInterval time.Duration
	// FlushMessages is how many messages of a queue ask for a flush, which goes
	// on beside what is coming; 0: none do.
	FlushMessages int
	Logger        *slog.Logger // nil: discard
}

// maxQueues bounds what clients can make the server hold.
const maxQueues = 1000

type server struct {
	cfg ServerConfig
	ctx context.Context // ends when the server stops

	due chan *queue // whose messages ask for a flush

	mu     sync.Mutex
	queues map[string]*queue
	conns  sync.WaitGroup
}

// Serve calls ready with its address when it takes requests, and serves until
// ctx ends, which is its normal end. The files stay.
func Serve(ctx context.Context, cfg ServerConfig, ready func(net.Addr)) error {
	if cfg.Path != PathTCP && cfg.Path != PathPing && !cfg.Path.Stores() {
		return fmt.Errorf("path %q: one of %s, %s, %s, %s is wanted", cfg.Path, PathTCP, PathPing, PathFile, PathDisk)
	}
	if cfg.FlushInterval < 0 || cfg.FlushInterval > 0 && !cfg.Path.Stores() {
		return fmt.Errorf("flush interval %v: none is possible below 0, and with path %s there is nothing to flush", cfg.FlushInterval, cfg.Path)
	}
	if cfg.FlushMessages < 0 || cfg.FlushMessages > 0 && !cfg.Path.Stores() {
		return fmt.Errorf("flush messages %d: none is possible below 0, and with path %s there is nothing to flush", cfg.FlushMessages, cfg.Path)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Path.Stores() {
		if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", cfg.Listen, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{cfg: cfg, ctx: ctx, queues: map[string]*queue{}, due: make(chan *queue, maxQueues)}
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	if cfg.FlushInterval > 0 {
		s.conns.Go(s.flush)
	}
	if cfg.FlushMessages > 0 {
		s.conns.Go(s.flushMessages)
	}
	ready(ln.Addr())
	err = s.accept(ln)
	cancel()
	s.conns.Wait()
	for _, q := range s.queues {
		err = errors.Join(err, q.close())
	}
	return err
}

// accept serves connections until the server stops.
func (s *server) accept(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if s.ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			ln.Close()
			return fmt.Errorf("accepting connections: %w", err)
		}
		s.conns.Go(func() {
			stop := context.AfterFunc(s.ctx, func() { c.Close() })
			defer stop()
			defer c.Close()
			if err := s.serve(c.(*net.TCPConn)); err != nil && s.ctx.Err() == nil {
				s.cfg.Logger.Warn("connection failed", "peer", c.RemoteAddr(), "err", err)
				// The peer may be gone; the log has it.
				_ = writeLine(c, answer{Error: err.Error()})
			}
		})
	}
}

// queue returns the queue of that name, made if need be.
func (s *server) queue(name string) (*queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		return q, nil
	}
	if len(s.queues) >= maxQueues {
		return nil, fmt.Errorf("queue %q: there are %d queues, no more are possible", name, maxQueues)
	}
	q, err := openQueue(s.cfg.Dir, name, s.cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", name, err)
	}
	s.queues[name] = q
	return q, nil
}

// serve handles one connection. Its end by the peer, between requests or
// between entries, is no error.
func (s *server) serve(c *net.TCPConn) error {
	in := bufio.NewReaderSize(c, maxLineBytes)
	for {
		var r request
		if err := readLine(in, &r); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
		q, err := s.queue(r.Queue)
		if err != nil {
			return err
		}
		switch r.Op {
		case opProduce:
			return s.produce(c, in, q, r)
		case opConsume:
			return s.consume(c, q)
		case opFetch:
			return s.fetch(c, in, q)
		}
		n, err := q.arrived()
		if err != nil {
			return err
		}
		if err := writeLine(c, answer{Messages: n}); err != nil {
			return err
		}
	}
}

func (s *server) produce(c net.Conn, in *bufio.Reader, q *queue, r request) error {
	if in.Buffered() > 0 {
		return fmt.Errorf("%d bytes came before the answer to the request to produce", in.Buffered())
	}
	if err := q.begin(r); err != nil {
		return err
	}
	err := writeLine(c, answer{})
	if err == nil {
		if s.cfg.Path == PathDisk {
			err = s.write(c, q, r)
		} else {
			err = s.receive(c, q)
		}
	}
	var broken *storeError
	if errors.As(err, &broken) {
		q.end(broken)
	} else {
		q.end(nil)
	}
	return err
}

// storeError is a failure of the disk, which ends the queue; that of a
// connection does not.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// receive takes the stream as fast as it comes. Whatever one read returns is
// one write: reads are large when the disk is the slower part, and when the
// link is, the size of writes does not matter.
func (s *server) receive(c net.Conn, q *queue) error {
	buf := make([]byte, writeBytes)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if err := s.forward(q, buf[:n]); err != nil {
				return &storeError{err}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write makes the messages of each grant and writes them. One grant is made
// while the one before it is written, so that making them is not measured on a
// machine with a processor to spare.
func (s *server) write(c net.Conn, q *queue, r request) error {
	g, err := workload.NewGenerator(r.RunID, r.PayloadBytes)
	if err != nil {
		return err
	}
	g.Seek(r.First)
	free, full := make(chan []byte, 2), make(chan []byte, 2)
	free <- nil
	free <- nil
	ctx, cancel := context.WithCancel(s.ctx)
	var readErr error
	var making sync.WaitGroup
	making.Go(func() {
		defer close(full)
		readErr = makeGrants(ctx, c, g, r.PayloadBytes, free, full)
	})
	err = s.writeGrants(c, q, r.PayloadBytes, free, full)
	cancel()
	if err != nil {
		c.Close() // ends the reading of grants
	}
	making.Wait()
	if err != nil {
		return err
	}
	return readErr
}

func makeGrants(ctx context.Context, c net.Conn, g *workload.Generator, payloadBytes int, free <-chan []byte, full chan<- []byte) error {
	var grant [grantBytes]byte
	for {
		if _, err := io.ReadFull(c, grant[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(grant[:])
		if n < 1 || n > uint32(grantMessages(payloadBytes)) {
			return fmt.Errorf("grant of %d messages: 1 to %d are possible", n, grantMessages(payloadBytes))
		}
		var buf []byte
		select {
		case buf = <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		buf = buf[:0]
		for range n {
			buf = appendEntry(buf, g.Next())
		}
		full <- buf
	}
}

func (s *server) writeGrants(c net.Conn, q *queue, payloadBytes int, free chan<- []byte, full <-chan []byte) error {
	var grant [grantBytes]byte
	for buf := range full {
		if _, err := q.append(buf); err != nil {
			return &storeError{err}
		}
		s.note(q)
		binary.BigEndian.PutUint32(grant[:], uint32(len(buf)/(entryHeaderBytes+payloadBytes)))
		if _, err := c.Write(grant[:]); err != nil {
			return err
		}
		free <- buf
	}
	return nil
}

// consume sends the queue from its beginning, and what comes later as it
// comes, until the peer closes.
func (s *server) consume(c *net.TCPConn, q *queue) error {
	if err := writeLine(c, answer{}); err != nil {
		return err
	}
	// The peer says nothing more. Reading tells when it has gone.
	ctx, gone := context.WithCancel(s.ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer gone()
		_, _ = c.Read(make([]byte, 1))
	})
	defer watching.Wait()
	defer c.Close()
	send := s.sendRemade(c, q)
	if q.file != nil {
		f, err := os.Open(q.file.Name()) // a place in the file of its own
		if err != nil {
			return err
		}
		defer f.Close()
		send = func(from, end int64) error {
			// From file to socket within the kernel: the net package uses
			// sendfile for a file behind a limit, from the file's place.
			_, err := io.CopyN(c, f, end-from)
			return err
		}
	}
	err := s.sendAll(ctx, q, c, send)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sendBytes is how much is made and sent at a time with path tcp.
const sendBytes = 256 << 10

// sendRemade returns a function that sends messages that were thrown away, by
// making them again.
func (s *server) sendRemade(c net.Conn, q *queue) func(from, end int64) error {
	r := &remake{queue: q}
	var buf []byte
	return func(from, end int64) (err error) {
		for from < end {
			if buf, from, err = r.fill(buf[:0], from, end, sendBytes); err != nil {
				return err
			}
			if _, err := c.Write(buf); err != nil {
				return err
			}
		}
		return nil
	}
}
