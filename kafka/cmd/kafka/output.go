package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// closedInterval is how often an output is looked at that nobody may read any more.
const closedInterval = 250 * time.Millisecond

// whileRead returns a context that ends when nobody reads out any more, as after
// "| head -2": a consumer that waits for messages would learn of it with the next one
// only. It tells so of pipes and sockets. Until stop, which waits for what it has
// started, a write to such an output is an error (see [unread]) and does not end the
// process, so that it can still commit.
func whileRead(ctx context.Context, out io.Writer) (_ context.Context, stop func()) {
	file, ok := out.(*os.File)
	if !ok {
		return ctx, func() {}
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return ctx, func() {}
	}
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(closedInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-broken:
			case <-tick.C:
			}
			if closed(file) {
				cancel()
			}
		}
	})
	return ctx, func() {
		cancel()
		looking.Wait()
		signal.Stop(broken)
	}
}

// closed says whether the other end of a pipe or socket is closed.
func closed(file *os.File) bool {
	poll := []unix.PollFd{{Fd: int32(file.Fd())}} // no events: an end is told all the same
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
}

// unread says whether a write has failed as nobody reads the output any more, which is
// how consuming may end.
func unread(err error) bool { return errors.Is(err, syscall.EPIPE) }
