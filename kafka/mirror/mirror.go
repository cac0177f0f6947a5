package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/kafka/message"
)

// Mirror copies topics until it is closed. Its methods may be called concurrently.
type Mirror struct {
	cfg     Config
	target  *target
	sources []*source
	memory  memory
	counts  counts

	closing  atomic.Bool
	closed   chan struct{}
	closeErr error // set before closed is closed
}

// Open connects to the ZooKeepers of all clusters, joins the group in each source, and
// begins to copy. Brokers need not be there: what cannot be reached is tried again. ctx
// bounds only the opening.
func Open(ctx context.Context, cfg Config) (*Mirror, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Mirror{cfg: cfg, closed: make(chan struct{}), counts: newCounts()}
	m.memory.init(cfg.MaxBufferBytes)
	if m.target, err = openTarget(ctx, &m.cfg); err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	for _, zk := range cfg.Sources {
		s, err := openSource(ctx, m, zk)
		if err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
			defer cancel()
			return nil, errors.Join(fmt.Errorf("mirror: %w", err), m.Close(undo))
		}
		m.sources = append(m.sources, s)
	}
	return m, nil
}

// undoTimeout bounds what an Open that fails takes to undo what it has done.
const undoTimeout = 10 * time.Second

// copies reports whether a topic that the list lets through is copied.
func (m *Mirror) copies(topic string) bool { return m.cfg.WithSchemas || topic != message.SchemasTopic }

// Close leaves the groups: nothing more is read or sent, what is on its way is waited
// for, what is flushed is committed, and the partitions go to other mirrors, or wait
// for the next one. It is bounded by ctx, and by ReleaseTimeout and what leaving a group
// takes ([consumer.Group.Close]). The error names the partitions of which something was
// sent and is not known to be safe and committed; that comes again. Of what was only
// read nothing is lost, nor doubled. A further Close waits for the first and returns the
// same error.
func (m *Mirror) Close(ctx context.Context) error {
	if !m.closing.CompareAndSwap(false, true) {
		select {
		case <-m.closed:
			return m.closeErr
		case <-ctx.Done():
			return fmt.Errorf("close mirror: %w", ctx.Err())
		}
	}
	errs := make([]error, len(m.sources))
	var wg sync.WaitGroup
	for i, s := range m.sources {
		wg.Go(func() { errs[i] = s.close(ctx) })
	}
	wg.Wait()
	if err := errors.Join(append(errs, m.target.close())...); err != nil {
		m.closeErr = fmt.Errorf("close mirror: %w", err)
	}
	close(m.closed)
	return m.closeErr
}

// Settled waits until the mirror owns all that it should in each source.
func (m *Mirror) Settled(ctx context.Context) error {
	for _, s := range m.sources {
		if err := s.group.Settled(ctx); err != nil {
			return fmt.Errorf("mirror: source cluster %s: %w", s.name, err)
		}
	}
	return nil
}

// memory counts what is kept, and makes readers wait while it is too much.
type memory struct {
	mu   sync.Mutex
	most int64
	used int64
	room chan struct{} // closed, and made anew, when there is room again
}

func (m *memory) init(most int64) { m.most, m.room = most, make(chan struct{}) }

func (m *memory) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := m.used >= m.most
	m.used += n
	if full && m.used < m.most {
		close(m.room)
		m.room = make(chan struct{})
	}
}

// await waits until less is kept than may be. It reports false when ctx ends.
func (m *memory) await(ctx context.Context) bool {
	for {
		m.mu.Lock()
		room, full := m.room, m.used >= m.most
		m.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if !full {
			return true
		}
		select {
		case <-room:
		case <-ctx.Done():
		}
	}
}

func (m *memory) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
