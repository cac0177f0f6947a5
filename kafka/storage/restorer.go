package storage

import (
	"context"
	"log/slog"
	"time"

	"kafkalab/kafka/internal/clock"
)

// How long the restorer waits before it tries to bring a log back into service:
// first, and at most after attempts that failed, each of which doubles it.
const (
	firstRestoreWait = 100 * time.Millisecond
	maxRestoreWait   = 10 * time.Second
)

// parallelRestores is how many logs are worked on at the same time.
const parallelRestores = 4

// A retry is what the restorer knows of a log that is out of service.
type retry struct {
	attempts int
	wait     time.Duration // before the next attempt
	due      time.Duration // of the next attempt, by clock.Clock.Elapsed
	logged   string        // the error that was logged last
}

// startRestorer starts the goroutine that brings logs back into service, until
// the manager is closed.
func (m *Manager) startRestorer() {
	if !m.cfg.noRestorer {
		m.timers.Go(func() { m.runRestorer(m.life) })
	}
}

func (m *Manager) runRestorer(ctx context.Context) {
	retries := map[*Log]*retry{}
	for ctx.Err() == nil {
		wait := m.restoreDue(ctx, retries)
		var timer clock.Timer
		var due <-chan time.Time
		if len(retries) > 0 {
			timer = m.cfg.Clock.NewTimer(wait)
			due = timer.C()
		}
		select {
		case <-ctx.Done():
		case <-m.troubled:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// restoreDue tries those logs whose time has come, and returns how long it is to
// the next one, if there is any in retries.
func (m *Manager) restoreDue(ctx context.Context, retries map[*Log]*retry) time.Duration {
	now := m.cfg.Clock.Elapsed()
	var due []*Log
	for _, l := range m.outOfService() {
		r := retries[l]
		switch {
		case r == nil:
			retries[l] = newRetry(now)
		case r.due <= now:
			due = append(due, l)
		}
	}
	errs := make([]error, len(due))
	forEach(len(due), parallelRestores, func(i int) { errs[i] = due[i].restore(ctx, retries[due[i]].attempts+1) })
	now = m.cfg.Clock.Elapsed()
	for i, l := range due {
		switch {
		case errs[i] == nil:
			// If it is out of service again by now, that is another trouble, which
			// gets all its attempts.
			retries[l] = newRetry(now)
		case ctx.Err() == nil:
			retries[l].failed(m.cfg.Logger, now, errs[i])
		}
	}
	next := maxRestoreWait
	for l, r := range retries {
		if l.failed.Load() == nil || l.ended.Load() != nil {
			delete(retries, l)
			continue
		}
		next = min(next, r.due-now)
	}
	return max(next, 0)
}

// newRetry returns what is known of a log that has just gone out of service.
func newRetry(now time.Duration) *retry {
	return &retry{wait: firstRestoreWait, due: now + firstRestoreWait}
}

// failed notes that an attempt failed. A reason is logged once.
func (r *retry) failed(logger *slog.Logger, now time.Duration, err error) {
	r.attempts++
	r.wait = min(2*r.wait, maxRestoreWait)
	r.due = now + r.wait
	if text := err.Error(); text != r.logged {
		r.logged = text
		logger.Warn("partition stays out of service for now", slog.Int("attempts", r.attempts), slog.Duration("next_in", r.wait), slog.Any("error", err))
	}
}

// outOfService returns the logs that are out of service and not about to go.
func (m *Manager) outOfService() []*Log {
	var logs []*Log
	for _, t := range *m.table.Load() {
		for _, l := range t.logs {
			if l != nil && l.failed.Load() != nil && l.ended.Load() == nil {
				logs = append(logs, l)
			}
		}
	}
	return logs
}
