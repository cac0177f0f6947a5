package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"kafkalab/kafka/coord"
)

const (
	// outOfTouchInterval is how often a member looks whether ZooKeeper is there.
	outOfTouchInterval = 500 * time.Millisecond
	// outOfTouchAfter is how long it may be away before the user is told.
	outOfTouchAfter = 2 * time.Second
)

// tellZooKeeper tells the user when ZooKeeper is out of reach and when it is back,
// until ctx ends.
func tellZooKeeper(ctx context.Context, client *coord.Client, notes io.Writer) {
	tick := time.NewTicker(outOfTouchInterval)
	defer tick.Stop()
	var session *coord.Session
	told := false
	for {
		if session == nil || session.Context().Err() != nil {
			// While ZooKeeper is away there is none, and this waits.
			s, err := client.Session(ctx)
			if err != nil {
				return
			}
			session = s
		}
		switch away := session.OutOfTouch(); {
		case told && away == 0:
			told = false
			fmt.Fprintln(notes, "ZooKeeper is there again")
		case !told && away >= outOfTouchAfter:
			told = true
			fmt.Fprintf(notes, "ZooKeeper is out of reach: nothing is committed, and after %v nothing read, until it is there again\n", session.Timeout())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
