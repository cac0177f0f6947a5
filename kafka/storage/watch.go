package storage

import "slices"

type watcher struct{ ch chan<- struct{} }

// Watch sends on ch whenever more becomes visible, and when the log goes out of
// service, is deleted or closed. It never waits: a channel of capacity 1 gets
// all there is to know. Look at the log's state after the call of Watch and not
// before it, so that nothing is missed in between. stop ends it and may be called more
// than once.
func (l *Log) Watch(ch chan<- struct{}) (stop func()) {
	w := &watcher{ch}
	l.watchMu.Lock()
	l.watchers = append(l.watchers, w)
	l.watching.Store(int32(len(l.watchers)))
	l.watchMu.Unlock()
	return func() {
		l.watchMu.Lock()
		defer l.watchMu.Unlock()
		if i := slices.Index(l.watchers, w); i >= 0 {
			l.watchers = slices.Delete(l.watchers, i, i+1)
			l.watching.Store(int32(len(l.watchers)))
		}
	}
}

// notify wakes the watchers. The caller has published what they are to see.
func (l *Log) notify() {
	if l.watching.Load() == 0 {
		return
	}
	l.watchMu.Lock()
	defer l.watchMu.Unlock()
	for _, w := range l.watchers {
		select {
		case w.ch <- struct{}{}:
		default: // it has not taken the last one yet
		}
	}
}
