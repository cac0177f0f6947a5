package zktest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// startLimit is how long servers may take until they serve.
const startLimit = 60 * time.Second

// errPortTaken says that a port that was free was taken when the server came.
var errPortTaken = errors.New("its port is taken")

// node is one server. Only servers uses it.
type node interface {
	addr() string
	start() error
	ready() (bool, error) // an error says that it never will be
	running() bool
	stop() error // as its user would
	kill() error // at once
	log() []byte
}

// servers are the nodes of a cluster, which several Clusters may share, and all
// lines to them.
type servers struct {
	kind Kind

	mu    sync.Mutex // held while nodes stop and start
	nodes []node
	up    []bool // wanted
	lines []*Line
}

// startServers starts the nodes of a kind with data below a folder, and waits
// until they serve.
func startServers(kind Kind, folder string, s settings) (*servers, error) {
	var err error
	for try := range portTries {
		var nodes []node
		if nodes, err = layOut(kind, filepath.Join(folder, "try"+strconv.Itoa(try)), s); err != nil {
			return nil, err
		}
		v := &servers{kind: kind, nodes: nodes, up: make([]bool, len(nodes))}
		if err = v.startAll(); err == nil {
			return v, nil
		}
		for _, n := range nodes {
			err = errors.Join(err, n.kill())
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

func layOut(kind Kind, folder string, s settings) ([]node, error) {
	switch kind {
	case Embedded:
		e, err := newEmbeddedNode(folder, s)
		return []node{e}, err
	case Ensemble:
		return newRealNodes(folder, 3, s)
	default:
		return newRealNodes(folder, 1, s)
	}
}

// startAll starts those nodes that do not run and waits until all serve.
func (v *servers) startAll() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, n := range v.nodes {
		if !v.up[i] {
			if err := n.start(); err != nil {
				return fmt.Errorf("start server %d: %w", i, err)
			}
			v.up[i] = true
		}
	}
	return v.awaitReady()
}

// startOne starts a node and waits until it serves, which the member of an
// ensemble does only while there is a majority.
func (v *servers) startOne(i int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.nodes[i].start(); err != nil {
		return fmt.Errorf("start server %d: %w", i, err)
	}
	v.up[i] = true
	running := 0
	for _, up := range v.up {
		if up {
			running++
		}
	}
	if 2*running <= len(v.nodes) {
		return nil
	}
	return v.awaitReady()
}

// awaitReady waits until all nodes serve that are wanted, and lets clients
// connect to them.
func (v *servers) awaitReady() error {
	for end := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		missing := -1
		for i, n := range v.nodes {
			if !v.up[i] {
				continue
			}
			ok, err := n.ready()
			if err != nil {
				return fmt.Errorf("server %d: %w; its log:\n%s", i, err, n.log())
			}
			if !ok {
				missing = i
			}
		}
		if missing < 0 {
			return v.tellLines()
		}
		if time.Now().After(end) {
			return fmt.Errorf("server %d does not serve within %v; its log:\n%s", missing, startLimit, v.nodes[missing].log())
		}
	}
}

// tellLines lets clients connect to the nodes that are wanted, and to no others.
func (v *servers) tellLines() error {
	var errs []error
	for _, l := range v.lines {
		for i, p := range l.proxies {
			errs = append(errs, p.serverDown(!v.up[i]))
		}
	}
	return errors.Join(errs...)
}

// end stops or kills a node that runs. New connections are refused from then on.
func (v *servers) end(i int, how func(node) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.up[i] {
		return nil
	}
	v.up[i] = false
	var errs []error
	if !v.nodes[i].running() {
		errs = append(errs, fmt.Errorf("server %d has ended by itself; its log:\n%s", i, v.nodes[i].log()))
	} else if err := how(v.nodes[i]); err != nil {
		errs = append(errs, fmt.Errorf("stop server %d: %w", i, err))
	}
	return errors.Join(append(errs, v.tellLines())...)
}

// close kills what runs. The lines have ended before.
func (v *servers) close() error {
	var errs []error
	for i := range v.nodes {
		errs = append(errs, v.end(i, node.kill))
	}
	return errors.Join(errs...)
}

// addLine makes a way to all nodes, with proxies of its own.
func (v *servers) addLine() (*Line, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := &Line{seen: newLedger()}
	for i, n := range v.nodes {
		p, err := newProxy(n.addr(), l.seen)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.proxies = append(l.proxies, p)
		if err := p.serverDown(!v.up[i]); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	v.lines = append(v.lines, l)
	return l, nil
}

// removeLine ends a line.
func (v *servers) removeLine(gone *Line) error {
	v.mu.Lock()
	for i, l := range v.lines {
		if l == gone {
			v.lines = append(v.lines[:i:i], v.lines[i+1:]...)
			break
		}
	}
	v.mu.Unlock()
	return gone.close()
}

// session returns what a handshake on any line has said of a session.
func (v *servers) session(id int64) (Session, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, l := range v.lines {
		if s, ok := l.seen.session(id); ok {
			return s, true
		}
	}
	return Session{}, false
}

// addrs returns the addresses of the nodes, those that are wanted alone or all.
func (v *servers) addrs(upOnly bool) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var list []string
	for i, n := range v.nodes {
		if v.up[i] || !upOnly {
			list = append(list, n.addr())
		}
	}
	return list
}

// logs returns the end of each node's log.
func (v *servers) logs() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := ""
	for i, n := range v.nodes {
		text += fmt.Sprintf("log of server %d:\n%s\n", i, n.log())
	}
	return text
}
