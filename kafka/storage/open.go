package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// parallelSyncs is how many logs are flushed at the same time by the timer and
// at the end: file systems merge syncs that come together.
const parallelSyncs = 16

// parallelOpens is how many logs are opened at the same time. Recovery computes
// checksums, and then waits for a sync.
func parallelOpens() int { return max(parallelSyncs, 2*runtime.GOMAXPROCS(0)) }

// Open opens the log folder dir and makes it when it is missing. It takes the
// folder's lock, recovers every log after an unclean stop, and starts the timers
// of flushes and of retention.
//
// It fails with [ErrLocked] when another manager has the folder, and when it is a
// ZooKeeper's or there is something in it that it does not understand. A log that is damaged beyond
// recovery, or whose files it may not open, does not make it fail: that partition
// is [ErrOutOfService], the others are served.
func Open(ctx context.Context, dir string, cfg Config) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.files = newOpenFiles(cfg.FS, cfg.OpenSegments)
	m := &Manager{
		dir: dir, cfg: cfg, troubled: make(chan struct{}, 1),
		making: make(map[partitionID]struct{}), makers: make(chan struct{}, parallelSyncs),
	}
	m.made = sync.NewCond(&m.mu)
	m.clockBegan.Store(cfg.Clock.Now().Add(-cfg.Clock.Elapsed()).UnixNano())
	m.life, m.endLife = context.WithCancelCause(context.Background())
	if err := checkForeign(cfg.FS, dir); err != nil {
		return nil, fmt.Errorf("log folder %s: %w", dir, err)
	}
	if err := makeFolder(cfg.FS, dir); err != nil {
		return nil, fmt.Errorf("make log folder %s: %w", dir, err)
	}
	m.lock, err = cfg.FS.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("log folder %s: %w: stop that one, or give this one a folder of its own", dir, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("lock log folder %s: %w", dir, err)
	}
	if err := m.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open log folder %s: %w", dir, err), m.lock.Close())
	}
	m.startTimers()
	m.startRestorer()
	return m, nil
}

// makeFolder makes the log folder and those above it that are missing, safe from
// a crash: without that everything flushed into it could vanish with its name.
//
// A folder that no broker has locked yet may have been made just now, by its
// user or by a start that was cut off. So what is above it is synced then too, as
// far as it may be opened.
func makeFolder(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(filepath.Join(dir, lockName)); !errors.Is(err, fs.ErrNotExist) {
		return nil // what is wrong is found when the lock is taken
	}
	if err := makeFolders(fsys, dir); err != nil {
		return err
	}
	for above := filepath.Dir(dir); ; above = filepath.Dir(above) {
		if err := fsys.SyncDir(above); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EINVAL) {
			return err
		}
		if above == filepath.Dir(above) {
			return nil
		}
	}
}

func makeFolders(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeFolders(fsys, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := fsys.Mkdir(dir); err != nil && !isExist(err) {
		return err
	}
	return nil
}

// load reads everything in the log folder.
func (m *Manager) load(ctx context.Context) error {
	stops, err := m.takeCleanMarker()
	if err != nil {
		return err
	}
	counts, err := readTopics(m.cfg.FS, m.dir)
	if err != nil {
		return err
	}
	folders, err := m.partitionFolders()
	if err != nil {
		return err
	}
	logs, err := m.openLogs(ctx, folders, stops)
	if err != nil {
		return err
	}
	if stops == nil {
		// Folders that a crash left may have names that are not safe yet.
		if err := m.cfg.FS.SyncDir(m.dir); err != nil {
			m.closeAll(logs)
			return err
		}
	}
	table := topicTable{}
	for name, partitions := range counts {
		table[name] = &topic{created: true, partitions: partitions}
	}
	for _, l := range logs {
		l.troubled = m.troubled
		t := table[l.topic]
		if t == nil {
			t = &topic{partitions: m.cfg.partitions([]byte(l.topic))}
		}
		table[l.topic] = t.withLog(l)
		if l.partition >= t.partitions {
			m.cfg.Logger.Warn("partition is on disk, but the topic has fewer: it is not served", l.where(),
				slog.Int("partitions", int(t.partitions)))
		}
	}
	m.publish(table)
	return nil
}

// partitionFolder is a folder of the log folder that holds a partition.
type partitionFolder struct {
	topic     string
	partition int32
	path      string
}

// partitionFolders lists the partitions in the log folder and removes what
// deletions have left, as far as that is possible.
func (m *Manager) partitionFolders() ([]partitionFolder, error) {
	entries, err := m.cfg.FS.ReadDir(m.dir)
	if err != nil {
		return nil, err
	}
	var folders []partitionFolder
	for _, e := range entries {
		path := filepath.Join(m.dir, e.Name())
		switch name := e.Name(); {
		case !e.IsDir() || name == lostAndFoundName:
			continue
		case isDeleted(name):
			// What stays takes up room, and is no reason to serve nothing.
			if err := m.cfg.FS.RemoveAll(path); err != nil {
				m.cfg.Logger.Warn("what is left of a deleted topic cannot be removed: the next start tries again",
					slog.String("folder", path), slog.Any("error", err))
			}
		default:
			topic, partition, err := parsePartitionName(name)
			if err != nil {
				return nil, err
			}
			folders = append(folders, partitionFolder{topic, partition, path})
		}
	}
	return folders, nil
}

// openLogs opens the logs of all folders, several at a time. Those for which
// there were too few descriptors then are opened one after another: to recover a
// log takes some that it gives back (fault B05).
func (m *Manager) openLogs(ctx context.Context, folders []partitionFolder, stops cleanStop) ([]*Log, error) {
	logs := make([]*Log, len(folders))
	errs := make([]error, len(folders))
	m.cfg.Hooks.found(len(folders), stops != nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := func(i int, again bool) {
		if ctx.Err() != nil {
			errs[i] = context.Cause(ctx)
			return
		}
		f := folders[i]
		clean := m.leftAlone(stops, f)
		logs[i], errs[i] = openLog(ctx, &m.cfg, f.topic, f.partition, f.path, clean)
		switch {
		case errs[i] == nil:
			m.cfg.Hooks.opened(logs[i], !clean)
		case again || !atFileLimit(errs[i]):
			cancel() // the others need not go on
		}
	}
	forEach(len(folders), parallelOpens(), func(i int) { open(i, false) })
	for i := range folders {
		if atFileLimit(errs[i]) {
			open(i, true)
		}
	}
	if err := firstCause(errs); err != nil {
		m.closeAll(logs)
		return nil, atFileLimitHint(err, len(folders))
	}
	return logs, nil
}

// firstCause returns the first error that is not merely another one's
// consequence.
func firstCause(errs []error) error {
	var canceled error
	for _, err := range errs {
		switch {
		case errors.Is(err, context.Canceled):
			canceled = err
		case err != nil:
			return err
		}
	}
	return canceled
}

// closeAll closes logs that nobody has used yet, without a flush.
func (m *Manager) closeAll(logs []*Log) {
	for _, l := range logs {
		if l != nil {
			l.end(ErrClosed)
			l.close()
		}
	}
}

// forEach calls do for 0 to n-1, at most parallel calls at a time, and returns
// when all are done.
func forEach(n, parallel int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

// startTimers starts what is done by time.
func (m *Manager) startTimers() {
	for _, d := range m.cfg.flushIntervals() {
		m.every(d, func(ctx context.Context) { m.flushDirty(ctx, d) })
	}
	if m.cfg.retains() {
		m.every(m.cfg.CleanupInterval, m.clean)
	}
}

// every does something at an interval, for the first time one interval from now,
// until Close.
func (m *Manager) every(interval time.Duration, do func(context.Context)) {
	timer := m.cfg.Clock.NewTimer(interval)
	m.timers.Go(func() {
		defer timer.Stop()
		for {
			select {
			case <-m.life.Done():
				return
			case <-timer.C():
			}
			// Set before the work, so that its length does not add to the interval.
			timer.Reset(interval)
			do(m.life)
		}
	})
}

// flushDirty flushes every log with this flush interval that has something to
// flush. Errors are the logs' own: each has reported its failure when it went
// out of service.
func (m *Manager) flushDirty(ctx context.Context, interval time.Duration) {
	var dirty []*Log
	for _, t := range *m.table.Load() {
		for _, l := range t.logs {
			if l != nil && l.cfg.FlushInterval == interval && l.flushed.Load() < l.logEnd.Load() && l.Err() == nil {
				dirty = append(dirty, l)
			}
		}
	}
	forEach(len(dirty), parallelSyncs, func(i int) { _ = dirty[i].Flush(ctx) })
}

// Close refuses further appends, flushes and closes all logs, marks the folder
// as cleanly stopped and gives its lock up. Slices that readers still hold stay
// valid.
//
// If not everything could be flushed, because ctx ended or a log is out of
// service, the error says which logs, and there is no mark: the next start
// recovers. Further calls return the first one's result.
func (m *Manager) Close(ctx context.Context) error {
	m.closeOnce.Do(func() { m.closeErr = m.close(ctx) })
	return m.closeErr
}

func (m *Manager) close(ctx context.Context) error {
	m.closed.Store(true)
	m.endLife(ErrClosed)
	changes := errors.Join(
		await(ctx, "a topic is still being made or deleted", func() {
			m.mu.Lock() // none will be any more, with closed set
			defer m.mu.Unlock()
			m.awaitMade("")
			m.removals.Wait()
		}),
		await(ctx, "files are still being flushed, removed or restored", m.timers.Wait))
	m.mendTimes(ctx)
	logs := m.Logs()
	errs := make([]error, len(logs))
	forEach(len(logs), parallelSyncs, func(i int) { errs[i] = logs[i].finish(ctx) })
	err := errors.Join(append(errs, changes)...)
	if err == nil {
		m.putCleanMarker(logs)
	}
	if err = errors.Join(err, m.lock.Close()); err != nil {
		return fmt.Errorf("close log folder %s: %w", m.dir, err)
	}
	return nil
}

// await waits for something. When ctx ends first, the disk hangs, and the
// goroutine that waits is left behind with the one that it waits for.
func await(ctx context.Context, late string, wait func()) error {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", late, context.Cause(ctx))
	}
}
