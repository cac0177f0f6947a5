package rawlimit

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// A connection of the request fetch carries further requests, and an answer to
// each: what a consumer that pulls can reach at best.
//
//	request  u64 place in the queue, u32 bytes
//	answer   u32 bytes that follow, at most those asked for
//
// A request at the end of the queue is answered when something comes, if it is
// the first one or goes on where the last answer ended. Any other one was asked
// ahead, in the hope of a full answer to the one before it, and there would be
// nobody to tell the consumer what has come meanwhile: it is answered with 0
// bytes at once.
const (
	fetchRequestBytes = 12
	fetchAnswerBytes  = 4
	minFetchBytes     = 1 << 10
	maxFetchBytes     = 32 << 20
	// fetchesAhead bounds the requests that a connection may have unanswered.
	fetchesAhead = 4
)

type fetchRequest struct {
	place int64
	bytes int
}

// fetch answers requests of one connection, in order, until the peer closes.
func (s *server) fetch(c *net.TCPConn, in *bufio.Reader, q *queue) error {
	if q.file == nil {
		return fmt.Errorf("fetches of queue %q: with path %s nothing is stored", q.name, s.cfg.Path)
	}
	f, err := os.Open(q.file.Name()) // a place in the file of its own
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeLine(c, answer{}); err != nil {
		return err
	}
	// The peer's end is seen while a request waits for something to come.
	ctx, gone := context.WithCancel(s.ctx)
	asked := make(chan fetchRequest, fetchesAhead)
	var readErr error
	var reading sync.WaitGroup
	reading.Go(func() {
		defer gone()
		defer close(asked)
		readErr = readFetches(in, asked)
	})
	joins := int64(-1) // the place that goes on where the last answer ended; -1: none has been given
	for r := range asked {
		if joins, err = s.answerFetch(ctx, c, q, f, r, joins); err != nil {
			break
		}
	}
	ended := ctx.Err() != nil
	_ = c.CloseRead() // ends the reading; the reason why can still be written
	for range asked {
	}
	reading.Wait()
	if ended {
		return readErr
	}
	return err
}

// readFetches hands requests on until the peer closes, which is no error.
func readFetches(in *bufio.Reader, asked chan<- fetchRequest) error {
	var b [fetchRequestBytes]byte
	for {
		if _, err := io.ReadFull(in, b[:]); errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
		place, bytes := binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint32(b[8:])
		if place > 1<<62 || bytes < minFetchBytes || bytes > maxFetchBytes {
			return fmt.Errorf("fetch of %d bytes at %d: %d to %d bytes are possible", bytes, place, minFetchBytes, maxFetchBytes)
		}
		select {
		case asked <- fetchRequest{int64(place), int(bytes)}:
		default:
			return fmt.Errorf("more than %d fetches are unanswered", fetchesAhead)
		}
	}
}

// answerFetch answers a request, and returns the place from which the next one
// may wait; joins is that of this one.
func (s *server) answerFetch(ctx context.Context, c *net.TCPConn, q *queue, f *os.File, r fetchRequest, joins int64) (int64, error) {
	var head [fetchAnswerBytes]byte
	if joins >= 0 && r.place != joins && r.place >= q.wholeEnd() {
		_, err := c.Write(head[:])
		return joins, err
	}
	end, err := q.wait(ctx, r.place)
	if err != nil {
		return joins, err
	}
	n := min(int64(r.bytes), end-r.place)
	binary.BigEndian.PutUint32(head[:], uint32(n))
	if err := sendMore(c, head[:]); err != nil {
		return joins, err
	}
	if _, err := f.Seek(r.place, io.SeekStart); err != nil {
		return joins, err
	}
	_, err = io.CopyN(c, f, n) // sendfile, as in consume
	return r.place + n, err
}

// sendMore writes what goes into one segment with what is written next.
func sendMore(c *net.TCPConn, b []byte) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	for len(b) > 0 && err == nil {
		var n int
		var sendErr error
		err = raw.Write(func(fd uintptr) bool {
			n, sendErr = syscall.SendmsgN(int(fd), b, nil, nil, syscall.MSG_MORE|syscall.MSG_NOSIGNAL)
			return !errors.Is(sendErr, syscall.EAGAIN)
		})
		if err == nil {
			err = sendErr
		}
		b = b[max(n, 0):]
	}
	return err
}

// fetching is a consumer's place in a queue that it fetches from.
type fetching struct {
	bytes int // of one fetch
	ahead int // how many fetches are unanswered at a time, at most fetchesAhead

	place int64               // of the next byte that is wanted
	next  int64               // of the next fetch
	asked [fetchesAhead]int64 // places of the unanswered fetches, oldest first
	n     int                 // how many those are
	short bool                // the last answer was not full: what was asked ahead of it does not join
	size  int                 // of the answer that is coming; 0 between two
	left  int                 // of that
	drop  bool                // it does not join, and is passed over
}

// askAhead asks for what comes next, until as many fetches are unanswered as
// may be: before what came last is looked at. After a short answer those that
// were asked ahead are waited for, and then one is asked from the true place.
func (c *consumer) askAhead() error {
	f := &c.fetch
	wanted := f.ahead
	if f.short {
		wanted = 1
		if f.n > 0 {
			return nil
		}
		f.next = f.place
	}
	for f.n < wanted {
		if err := c.ask(); err != nil {
			return err
		}
	}
	return nil
}

// ask asks for the next range. It does not wait: the requests that are
// unanswered fit every socket.
func (c *consumer) ask() error {
	f := &c.fetch
	var b [fetchRequestBytes]byte
	binary.BigEndian.PutUint64(b[:], uint64(f.next))
	binary.BigEndian.PutUint32(b[8:], uint32(f.bytes))
	if _, err := c.conn.Write(b[:]); err != nil {
		return fmt.Errorf("physical limit: fetching queue %q: %w", c.queue, err)
	}
	f.asked[f.n] = f.next
	f.n++
	f.next += int64(f.bytes)
	return nil
}

// readAnswer is one read of an answer into room: of its head, then of what
// follows it. It may return nothing, without an error, where an answer did not
// join.
func (c *consumer) readAnswer(room []byte) (int, error) {
	f := &c.fetch
	if f.left == 0 {
		if err := c.readHead(); err != nil {
			return 0, err
		}
		if f.left == 0 {
			return 0, c.askAhead()
		}
	}
	got, err := c.conn.in.Read(room[:min(len(room), f.left)])
	f.left -= got
	if f.left == 0 && got > 0 {
		if !f.drop {
			f.place += int64(f.size)
			f.short = f.size < f.bytes
		}
		if err := c.askAhead(); err != nil && !f.drop {
			return got, err // which shows again with the next read
		}
	}
	if f.drop {
		got = 0
	}
	return got, err
}

// readHead reads the head of the answer to the oldest fetch.
func (c *consumer) readHead() error {
	f := &c.fetch
	head, err := c.conn.in.Peek(fetchAnswerBytes)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head)
	if int64(n) > int64(f.bytes) || n == 0 && f.ahead == 1 || f.n == 0 {
		// A line of JSON, which begins with a brace, is the server's reason.
		line, _ := c.conn.in.ReadString('\n')
		return fmt.Errorf("the server answered %.200q to a fetch of %d bytes", line, f.bytes)
	}
	if _, err := c.conn.in.Discard(fetchAnswerBytes); err != nil {
		return err
	}
	f.drop = f.asked[0] != f.place || n == 0
	f.n--
	copy(f.asked[:], f.asked[1:])
	f.size, f.left = int(n), int(n)
	return nil
}
