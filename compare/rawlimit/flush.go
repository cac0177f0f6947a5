package rawlimit

import (
	"fmt"
	"time"
)

// flush brings all files to the disk in every interval.
func (s *server) flush() {
	t := time.NewTicker(s.cfg.FlushInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		all := make([]*queue, 0, len(s.queues))
		for _, q := range s.queues {
			all = append(all, q)
		}
		s.mu.Unlock()
		for _, q := range all {
			q.sync()
		}
	}
}

// flushMessages brings a queue to the disk whenever so many messages have come
// since the last time, beside what is coming: one flush serves all of them.
func (s *server) flushMessages() {
	for {
		select {
		case q := <-s.due:
			q.sync()
			q.mu.Lock()
			q.due = false
			q.mu.Unlock()
			s.note(q)
		case <-s.ctx.Done():
			return
		}
	}
}

// note asks for a flush of a queue that has so many messages that were not
// flushed.
func (s *server) note(q *queue) {
	if s.cfg.FlushMessages == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.due || q.err != nil || q.payloadBytes == 0 || (q.bytes-q.synced)/q.entryBytes() < int64(s.cfg.FlushMessages) {
		return
	}
	q.due = true
	s.due <- q // has room for every queue
}

// flushWords describes when a file is flushed, for the settings.
func flushWords(interval time.Duration, messages int) string {
	switch {
	case interval > 0 && messages > 0:
		return fmt.Sprintf("fsync every %v, and whenever %d messages have come, in the background", interval, messages)
	case interval > 0:
		return fmt.Sprintf("fsync every %v in the background", interval)
	case messages > 0:
		return fmt.Sprintf("fsync whenever %d messages have come, in the background", messages)
	}
	return "by the kernel alone"
}
