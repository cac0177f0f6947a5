package registry

import (
	"context"
	"maps"
	"slices"
	"sync"

	"kafkalab/kafka/coord"
)

// Watch is a standing watch on a part of the registries. Its function is called
// with the present state first and then after each change, from one goroutine, so
// never concurrently with itself; changes that come fast are told together, as the
// state after the last of them.
type Watch struct {
	node  *coord.Watch
	nodes *nodesWatch // of those below the node; nil if their values are of no interest
}

// Close ends the watch. When it returns the function is not running and is not
// called any more. It must not be called from the function.
func (w *Watch) Close() {
	w.node.Close()
	if w.nodes != nil {
		w.nodes.close()
	}
}

// Ready waits until the function has been called with the first state.
func (w *Watch) Ready(ctx context.Context) error {
	if err := w.node.Ready(ctx); err != nil || w.nodes == nil {
		return err
	}
	select {
	case <-w.nodes.ready:
		return nil
	case <-w.nodes.stop:
		return coord.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WatchBrokers calls f with the brokers that live, by id. Nodes that make no sense
// are left out; [Registry.Brokers] names them.
func (r *Registry) WatchBrokers(f func([]Broker)) *Watch {
	return r.watchNodes(brokerIDs, func(values map[string][]byte) {
		brokers, _ := parseBrokers(values)
		f(brokers)
	})
}

// WatchBroker calls f with the node of one broker, with ok false while it is not
// there or makes no sense.
func (r *Registry) WatchBroker(id int32, f func(b Broker, ok bool)) *Watch {
	return &Watch{node: r.client.WatchData(brokerPath(id), func(data []byte, exists bool) {
		b, err := ParseBroker(id, string(data))
		f(b, exists && err == nil)
	})}
}

// WatchTopics calls f with the names of the topics, sorted.
func (r *Registry) WatchTopics(f func([]string)) *Watch { return r.watchNames(topics, f) }

// WatchTopic calls f with the brokers that have a topic, and how many partitions of
// it each has; with none while the topic is not registered. Nodes that make no
// sense are left out; [Registry.TopicBrokers] names them.
func (r *Registry) WatchTopic(topic string, f func(partitions map[int32]int32)) *Watch {
	return r.watchNodes(topicPath(topic), func(values map[string][]byte) {
		counts, _ := parseTopicBrokers(topic, values)
		f(counts)
	})
}

// WatchTopicBroker calls f with how many partitions of a topic one broker has, with
// ok false while its node is not there or makes no sense.
func (r *Registry) WatchTopicBroker(topic string, id int32, f func(partitions int32, ok bool)) *Watch {
	return &Watch{node: r.client.WatchData(topicBrokerPath(topic, id), func(data []byte, exists bool) {
		partitions, err := parseNumber(string(data), MaxPartitions)
		f(partitions, exists && err == nil)
	})}
}

// WatchConsumers calls f with the ids of a group's consumers, sorted.
func (r *Registry) WatchConsumers(group string, f func(ids []string)) *Watch {
	return r.watchNames(consumersPath(group), f)
}

// watchNames watches the names of the nodes below a path.
func (r *Registry) watchNames(path string, f func([]string)) *Watch {
	return &Watch{node: r.client.WatchChildren(path, func(names []string, _ bool) { f(names) })}
}

// watchNodes watches the nodes below a path and their values. f gets its own map.
//
// Each node has a watch on its value too: a broker that registers anew, after its
// session has expired, may be gone and back before anybody has looked, and then
// the names alone are what they were.
func (r *Registry) watchNodes(path string, f func(values map[string][]byte)) *Watch {
	w := &nodesWatch{
		client: r.client, path: path, tell: f,
		watches: map[string]*coord.Watch{}, values: map[string]*[]byte{},
		changed: make(chan struct{}, 1), ready: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go w.run()
	return &Watch{nodes: w, node: r.client.WatchChildren(path, func(names []string, _ bool) { w.setNames(names) })}
}

// nodesWatch gathers the values of nodes as their watches tell them, and passes
// them on from one goroutine.
type nodesWatch struct {
	client *coord.Client
	path   string
	tell   func(map[string][]byte)

	// watches are those on single nodes; only run touches them.
	watches map[string]*coord.Watch

	mu     sync.Mutex
	named  bool               // names are known; guarded by mu
	names  []string           // sorted; guarded by mu
	values map[string]*[]byte // by name; nil points out a node that is not there. Not in the map: not known yet. Guarded by mu

	changed     chan struct{} // something of the above is new
	ready       chan struct{} // closed after the first call of tell
	stop, ended chan struct{}
	stopOnce    sync.Once
}

func (w *nodesWatch) setNames(names []string) {
	w.mu.Lock()
	w.named, w.names = true, names
	w.mu.Unlock()
	w.wake()
}

func (w *nodesWatch) setValue(name string, data []byte, exists bool) {
	value := &data
	if !exists {
		value = nil
	}
	w.mu.Lock()
	w.values[name] = value
	w.mu.Unlock()
	w.wake()
}

func (w *nodesWatch) wake() {
	select {
	case w.changed <- struct{}{}:
	default: // it will look anyway
	}
}

func (w *nodesWatch) close() {
	w.stopOnce.Do(func() { close(w.stop) })
	<-w.ended
}

func (w *nodesWatch) run() {
	defer close(w.ended)
	defer func() {
		for _, nodeWatch := range w.watches {
			nodeWatch.Close()
		}
	}()
	var last map[string][]byte
	for {
		select {
		case <-w.stop:
			return
		case <-w.changed:
		}
		w.follow()
		values, complete := w.state()
		if !complete || last != nil && maps.EqualFunc(last, values, slices.Equal[[]byte]) {
			continue
		}
		first := last == nil
		last = values
		w.tell(maps.Clone(values))
		if first {
			close(w.ready)
		}
	}
}

// follow makes the watches on single nodes those of the names.
func (w *nodesWatch) follow() {
	w.mu.Lock()
	names := w.names
	w.mu.Unlock()
	for name, nodeWatch := range w.watches {
		if _, named := slices.BinarySearch(names, name); !named {
			nodeWatch.Close() // without the lock: its function may be waiting for it
			delete(w.watches, name)
			w.mu.Lock()
			delete(w.values, name)
			w.mu.Unlock()
		}
	}
	for _, name := range names {
		if w.watches[name] == nil {
			w.watches[name] = w.client.WatchData(w.path+"/"+name, func(data []byte, exists bool) { w.setValue(name, data, exists) })
		}
	}
}

// state returns the values of the nodes that are there, if all are known.
func (w *nodesWatch) state() (values map[string][]byte, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.named {
		return nil, false
	}
	values = make(map[string][]byte, len(w.names))
	for _, name := range w.names {
		value, known := w.values[name]
		if !known {
			return nil, false
		}
		if value != nil {
			values[name] = *value
		}
	}
	return values, true
}
