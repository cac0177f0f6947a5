package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Loaded is a file of messages that a load has published, whole and for good.
type Loaded struct {
	Name  string // of the file, by which it is known as counted
	Topic string
	// Until is a time before which all in it was made. Files of which nothing can be
	// counted any more, by [Limits.Keep], are passed over, and forgotten.
	Until time.Time
	// Read gives each payload of the file, in order; it is valid until f returns. An
	// error of f ends it.
	Read func(f func(payload []byte) error) error
}

// CountLoaded counts the messages of files as one tier, and keeps the counts with the
// names of the files that are done with: those are passed over when it is called again
// with the same state. A file counts whole or not at all. Files of topics that are not
// counted are passed over too, but for monitoring events, which are those of
// eventTopic, if that is not empty.
//
// through is the time up to which the load has got everything that was visible, at the
// latest the time at which the files were listed: windows that end after it stay open.
func CountLoaded(ctx context.Context, cfg CheckerConfig, files []Loaded, eventTopic string, through time.Time) (err error) {
	c, err := openChecker(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	header := c.cfg.Header
	if header == nil {
		header = plainReader()
	}
	c.mu.Lock()
	c.tally.fold(c.cfg.Clock.Now().UnixMilli())
	horizon := time.UnixMilli(c.tally.horizon)
	c.mu.Unlock()
	gone := func(until time.Time) bool { return !until.After(horizon) }
	done := map[string]bool{}
	c.state.Files = slices.DeleteFunc(c.state.Files, func(f FileDone) bool { return gone(f.Until) })
	for _, f := range c.state.Files {
		done[f.Name] = true
	}
	for _, f := range files {
		isEvent := eventTopic != "" && f.Topic == eventTopic
		if done[f.Name] || gone(f.Until) || !isEvent && !slices.Contains(c.cfg.Topics, f.Topic) {
			continue
		}
		if err := c.countFile(ctx, f, isEvent, header); err != nil {
			// What was counted of this file, and of those before it, is not written.
			return fmt.Errorf("audit: count %s: %w", f.Name, err)
		}
		c.state.Files = append(c.state.Files, FileDone{f.Name, f.Until})
		done[f.Name] = true
	}
	slices.SortFunc(c.state.Files, func(a, b FileDone) int { return cmp.Compare(a.Name, b.Name) })
	c.caughtUp(through)
	return c.save()
}

// countFile counts the messages of a file.
func (c *checker) countFile(ctx context.Context, f Loaded, isEvent bool, header HeaderReader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now().UnixMilli()
	err := f.Read(func(payload []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if isEvent {
			e, err := ParseEvent(payload)
			noteIn(f.Name, c.tally.event(e, err, now))
			return nil
		}
		h, err := header(ctx, payload)
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			noteIn(f.Name, c.tally.message(f.Topic, h, now))
		case ctx.Err() != nil, errors.As(err, &temporary) && temporary.Temporary():
			return err
		default:
			noteIn(f.Name, c.tally.problem(f.Topic, err))
		}
		return nil
	})
	c.tell(partitionKey{topic: f.Topic})
	return err
}

// noteIn says of a problem in which file it is.
func noteIn(name string, problem *string) {
	if problem != nil {
		*problem = name + ": " + *problem
	}
}
