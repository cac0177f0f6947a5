package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
)

// leaveTimeout bounds how long a member waits at its end for its last commit and
// for ZooKeeper to take its nodes away.
const leaveTimeout = 10 * time.Second

// leaveNoteAfter is how long it takes until the user is told why nothing happens.
const leaveNoteAfter = time.Second

// leaving is the end of a member.
type leaving struct {
	group   *consumer.Group
	client  *coord.Client
	session time.Duration
	notes   io.Writer
}

// leave commits and leaves the group. The error is what was not done.
func (l *leaving) leave(ctx context.Context) error {
	interrupted := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	uncommitted := l.uncommitted()
	left := make(chan error, 1)
	go func() { left <- l.group.Close(ctx) }()
	wait := leaveNoteAfter
	if l.away() {
		wait = 0
	}
	select {
	case err := <-left:
		return l.notDone(err, uncommitted)
	case <-time.After(wait):
	}
	why, end := "leaving the group takes long", ""
	if l.away() {
		why = "ZooKeeper is out of reach"
	}
	if interrupted {
		end = ", Ctrl-C again ends at once"
	}
	fmt.Fprintf(l.notes, "%s: trying to commit for up to %v%s\n", why, leaveTimeout, end)
	return l.notDone(<-left, uncommitted)
}

// away says whether there is no connection to ZooKeeper now.
func (l *leaving) away() bool {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := l.client.Session(now)
	return err != nil || s.OutOfTouch() > 0
}

// uncommitted names the partitions with lines that were printed and not committed.
func (l *leaving) uncommitted() (names []string) {
	for _, p := range l.group.Owned() {
		if p.Consumed > p.Committed {
			names = append(names, p.String())
		}
	}
	return names
}

// notDone words the error of a Close that ZooKeeper has not answered.
func (l *leaving) notDone(err error, uncommitted []string) error {
	if !errors.Is(err, coord.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	again := ""
	if len(uncommitted) > 0 {
		again = fmt.Sprintf("the last lines are not committed and come again (%s); ", strings.Join(uncommitted, ", "))
	}
	return &notLeftError{text: fmt.Sprintf("ZooKeeper did not answer: %sthe others get the partitions when the session has ended, within %v", again, l.session), cause: err}
}

// notLeftError says what a member could not do at its end.
type notLeftError struct {
	text  string
	cause error
}

func (e *notLeftError) Error() string { return e.text }
func (e *notLeftError) Unwrap() error { return e.cause }
