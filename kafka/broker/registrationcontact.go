package broker

import (
	"context"
	"time"

	"kafkalab/kafka/coord"
)

// A broker that has been out of touch with ZooKeeper for a third of its session's
// time-out says so: the session does not survive much more than the rest of it.
const (
	contactWarning = 3  // the part of the time-out after which it says so
	contactLooks   = 12 // how often in a time-out it looks
)

// watchContact logs when ZooKeeper has gone out of reach and when it is there
// again, until ctx ends. That a session has expired is told by who makes the
// next registration.
func (g *registration) watchContact(ctx context.Context) {
	var session *coord.Session
	var since time.Time // the broker was told to be out of touch since then; zero: it was not
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if session == nil || session.Context().Err() != nil {
			s, err := g.client.Session(ctx) // waits while there is none
			if err != nil {
				return
			}
			session = s
		}
		timeout, away := session.Timeout(), session.OutOfTouch()
		switch {
		case away == 0 && !since.IsZero():
			g.log.Info("connection to ZooKeeper is there again", "zookeeper", g.srv.cfg.ZooKeeper.Servers, "after", time.Since(since).Round(time.Millisecond))
			since = time.Time{}
		case since.IsZero() && away >= timeout/contactWarning:
			since = time.Now().Add(-away)
			g.log.Warn("no connection to ZooKeeper: the broker serves on, and counts as gone once the session's time-out is over",
				"zookeeper", g.srv.cfg.ZooKeeper.Servers, "since", since.Format(time.RFC3339), "session_timeout", timeout)
		}
		look.Reset(max(timeout/contactLooks, time.Millisecond))
	}
}
