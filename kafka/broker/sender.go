package broker

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sender writes to a connection. At any time one goroutine uses it: the
// connection's own, or its answerer while answers are pending.
type sender struct {
	tcp     *net.TCPConn
	raw     syscall.RawConn
	holder  *holder       // of the memory
	timeout time.Duration // without any progress; 0: none

	// The argument and the result of a step. They live here, and the steps are
	// bound once, so that sending allocates nothing.
	p      []byte // to be sent, for sendStep
	flags  int
	file   int   // to be sent from, for fileStep
	offset int64 // in file; moved by the kernel
	left   int   // bytes of file
	moved  int   // bytes that the step sent
	wait   bool  // the step may wait for room in the socket
	err    error

	sendStep, fileStep func(fd uintptr) bool
}

func (s *sender) init() {
	s.sendStep = s.stepSend
	s.fileStep = s.stepFile
}

// send writes p. more says that other bytes of the same answer follow at once,
// so that the kernel puts them into one packet.
func (s *sender) send(p []byte, more bool) error {
	s.p, s.flags = p, unix.MSG_NOSIGNAL
	if more {
		s.flags |= unix.MSG_MORE
	}
	err := s.run(s.sendStep, func() bool { return len(s.p) == 0 })
	s.p = nil
	return err
}

// sendFile writes n bytes of the file from the offset on. The position of the
// file's descriptor is neither used nor moved, so any number of connections can
// send from one descriptor.
func (s *sender) sendFile(file uintptr, offset int64, n int) error {
	s.file, s.offset, s.left = int(file), offset, n
	return s.run(s.fileStep, func() bool { return s.left == 0 })
}

// run takes steps until done. The time limit is for a step without progress:
// a peer may be slow, but not stand still. No timer is touched unless the
// socket is full.
func (s *sender) run(step func(uintptr) bool, done func() bool) error {
	s.err, s.wait = nil, false
	for {
		s.moved = 0
		if err := s.take(step); err != nil {
			return err
		}
		if s.err != nil {
			return s.err
		}
		if done() {
			break
		}
		s.wait = true
		if s.timeout > 0 {
			if err := s.tcp.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
				return err
			}
		}
	}
	if s.wait && s.timeout > 0 {
		return s.tcp.SetWriteDeadline(time.Time{})
	}
	return nil
}

// take takes one step.
func (s *sender) take(step func(uintptr) bool) error {
	if s.wait {
		s.holder.sending.Add(1)
		defer s.holder.sending.Add(-1)
	}
	err := s.raw.Write(step)
	s.holder.moved.Add(int64(s.moved))
	return err
}

// blocked is what a step returns when the socket takes no more: wait for room
// here, or report progress to run first.
func (s *sender) blocked() bool { return s.moved > 0 || !s.wait }

func (s *sender) stepSend(fd uintptr) bool {
	for len(s.p) > 0 {
		n, err := unix.SendmsgN(int(fd), s.p, nil, nil, s.flags)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return s.blocked()
		case err != nil:
			s.err = os.NewSyscallError("sendmsg", err)
			return true
		default:
			s.p, s.moved = s.p[n:], s.moved+n
		}
	}
	return true
}

func (s *sender) stepFile(fd uintptr) bool {
	for s.left > 0 {
		// Never more than will be sent: the kernel would hold back the last
		// packet, expecting more.
		n, err := unix.Sendfile(int(fd), s.file, &s.offset, s.left)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return s.blocked()
		case err != nil:
			s.err = os.NewSyscallError("sendfile", err)
			return true
		case n == 0:
			s.err = fmt.Errorf("segment file ends %d bytes early: %w", s.left, io.ErrUnexpectedEOF)
			return true
		default:
			s.left, s.moved = s.left-n, s.moved+n
		}
	}
	return true
}
