package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

const (
	// registerLimit is how long a start waits for the registration, once it is
	// connected to ZooKeeper.
	registerLimit = 30 * time.Second
	// Waits after a step of the registration that failed, doubled from one to the
	// next, with jitter.
	firstBackoff, lastBackoff = 200 * time.Millisecond, 5 * time.Second
)

// registration keeps the broker and its topics in ZooKeeper while the broker
// lives (NetDB'11 §3.2; Kafka 0.7's KafkaZooKeeper): the id once the broker
// serves, topics as they come into being, all of it again in each new session.
// Nothing that serves clients waits for it: while ZooKeeper is away the broker
// goes on, and what has happened meanwhile is registered when it is back.
//
// A topic that is deleted is removed from ZooKeeper with its owners and offsets.
// If the broker ends before it could do so, they stay.
type registration struct {
	srv      *Server
	log      *slog.Logger
	client   *coord.Client  // nil until it is connected; set under mu
	session  *coord.Session // the last one; guarded by mu
	registry *registry.Registry
	broker   registry.Broker // without its creator
	creators creatorFile

	cancel context.CancelFunc
	ended  chan struct{}
	first  chan error    // of capacity 1: what became of the first attempt that ended it
	topics chan struct{} // a topic was made or deleted, or its node is not what it should be
	gone   chan struct{} // the broker's node is not what it should be

	mu       sync.Mutex
	deleted  map[string]bool            // topics to unregister; guarded by mu
	current  string                     // creator of the node that should be there, "" if none should; guarded by mu
	trouble  error                      // why something is not registered; guarded by mu
	nodes    map[string]int32           // topics registered in the current session, with their partitions; guarded by mu
	failures int64                      // steps that failed; guarded by mu
	told     string                     // the last failure that was logged; only run touches it
	started  bool                       // first was told; only run touches it
	watch    *registry.Watch            // on the broker's node; only run touches it
	watches  map[string]*registry.Watch // on the nodes of topics; only run touches it
}

// connectZooKeeper waits for a session with ZooKeeper, if the broker is to be
// registered there.
func (s *Server) connectZooKeeper(ctx context.Context) error {
	if s.cfg.ZooKeeper.Servers == "" {
		return nil
	}
	zk := s.cfg.ZooKeeper
	if zk.Logger == nil {
		zk.Logger = s.log
	}
	host, err := advertisedHost(ctx, &s.cfg)
	if err != nil {
		return err
	}
	g := &registration{
		srv: s, log: s.log,
		broker:   registry.Broker{ID: s.cfg.ID, Host: host},
		creators: creatorFile{fs: s.logs.Config().FS, dir: s.cfg.LogDir},
		ended:    make(chan struct{}), first: make(chan error, 1),
		topics: make(chan struct{}, 1), gone: make(chan struct{}, 1),
		deleted: map[string]bool{}, nodes: map[string]int32{}, watches: map[string]*registry.Watch{},
		trouble: errors.New("it is connecting"),
	}
	if err := errors.Join(g.creators.load(), g.folderID().check()); err != nil {
		return err
	}
	s.registration.Store(g) // /healthz tells what the start waits for
	s.log.Info(fmt.Sprintf("waiting for ZooKeeper at %s, up to %v", zk.Servers, cmp.Or(zk.ConnectTimeout, zk.SessionTimeout, coord.DefaultSessionTimeout)))
	client, err := coord.Connect(ctx, zk)
	if err != nil {
		return fmt.Errorf("register broker %d in ZooKeeper: %w: start ZooKeeper, or name another one with --zk-connect, or leave that out to run without", s.cfg.ID, err)
	}
	s.warnOfLoopback(ctx, host)
	g.mu.Lock()
	g.client, g.registry = client, registry.New(client)
	g.mu.Unlock()
	return nil
}

// register registers the broker, which serves by now, if it is to be. It returns
// when that is done.
func (s *Server) register(ctx context.Context) (err error) {
	g := s.registration.Load()
	if g == nil {
		return nil
	}
	g.broker.Port = s.listener.Addr().(*net.TCPAddr).Port
	var life context.Context
	life, g.cancel = context.WithCancel(context.Background())
	go g.run(life)
	limit := time.NewTimer(registerLimit)
	defer limit.Stop()
	select {
	case err = <-g.first:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-limit.C:
		err = fmt.Errorf("not done within %v: %w", registerLimit, g.state().trouble)
	}
	if err != nil {
		return fmt.Errorf("register broker %d in ZooKeeper: %w", s.cfg.ID, err)
	}
	return nil
}

// unregisterGrace is how long a stop waits for ZooKeeper before it goes on.
const unregisterGrace = 2 * time.Second

// unregister ends the registration, so that clients learn of the stop before
// connections fail. When ZooKeeper does not answer, it goes on in the background;
// wait returns what became of it.
func (s *Server) unregister(ctx context.Context) (wait func() error) {
	g := s.registration.Load()
	if g == nil {
		return func() error { return nil }
	}
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = g.close()
	}()
	grace := time.NewTimer(unregisterGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	case <-ctx.Done():
	}
	return func() error {
		<-ended
		return err
	}
}

// close ends the session, and with it all nodes; while ZooKeeper cannot be reached,
// that is left to the session's time-out. It takes no longer than the Close of the
// client.
func (g *registration) close() error {
	g.mu.Lock()
	client := g.client
	g.current, g.trouble = "", errors.New("the broker is stopping")
	g.mu.Unlock()
	if client == nil {
		return nil
	}
	if g.cancel != nil { // it came to be registered
		g.cancel()
		<-g.ended
	}
	if err := client.Close(); err != nil {
		return fmt.Errorf("registration in ZooKeeper: %w", err)
	}
	return nil
}

// run registers in each session until ctx ends.
func (g *registration) run(ctx context.Context) {
	defer close(g.ended)
	defer g.srv.topicWatchers.add(g.topics)()
	g.watchBroker()
	defer func() { g.watch.Close() }()
	defer g.unwatchTopics()
	var contact sync.WaitGroup
	defer contact.Wait()
	contact.Go(func() { g.watchContact(ctx) })
	for ctx.Err() == nil {
		session, err := g.client.Session(ctx)
		if err != nil {
			return // closed, or ctx has ended
		}
		g.mu.Lock()
		g.session = session
		g.mu.Unlock()
		g.inSession(ctx, &sessionState{Session: session})
	}
}

// sessionState is what is registered in a session.
type sessionState struct {
	*coord.Session
	creator string // of the broker's node, once there is one
	broker  bool
}

// inSession keeps everything registered until the session or ctx ends.
func (g *registration) inSession(ctx context.Context, s *sessionState) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	backoff := firstBackoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Context().Done():
			g.lost()
			return
		case <-g.gone:
			s.broker = false
		case <-g.topics:
		case <-retry.C:
		}
		err := g.step(ctx, s)
		g.tell(ctx, s, err)
		if err == nil {
			backoff = firstBackoff
			retry.Stop()
			continue
		}
		retry.Reset(backoff/2 + rand.N(backoff))
		backoff = min(2*backoff, lastBackoff)
	}
}

// step registers what is not registered.
func (g *registration) step(ctx context.Context, s *sessionState) error {
	if err := g.stepBroker(ctx, s); err != nil {
		return err
	}
	return errors.Join(g.stepDeleted(ctx), g.stepTopics(ctx, s))
}

func (g *registration) stepBroker(ctx context.Context, s *sessionState) error {
	if s.broker {
		return nil
	}
	if s.creator == "" {
		creator := registry.NewCreator(g.broker.Host, time.Now())
		// Before the node: whoever finds it there must know that it is ours.
		if err := g.creators.add(creator); err != nil {
			// The disk may be full. What it holds can be read all the same, so the broker
			// must be found: by the creator that is known already.
			last := g.creators.last()
			if last == "" {
				return err
			}
			g.log.Warn("broker registers with the creator of its last registration", "creator", last, "error", err)
			creator = last
		}
		s.creator = creator
	}
	b := g.broker
	b.Creator = s.creator
	if err := g.registry.RegisterBroker(ctx, s.Session, b, g.creators.creators); err != nil {
		return err
	}
	if err := g.folderID().keep(); err != nil {
		return err
	}
	s.broker = true
	g.mu.Lock()
	g.current = s.creator
	g.mu.Unlock()
	g.watchBroker()
	g.log.Info("broker registered in ZooKeeper", "broker_id", b.ID, "host", b.Host, "port", b.Port, "creator", b.Creator, "session", fmt.Sprintf("%#x", s.ID()), "session_timeout", s.Timeout())
	// All older nodes are gone now, so their creators need not be known.
	return g.creators.keepOnly(s.creator)
}

// tell keeps and logs what became of a step.
func (g *registration) tell(ctx context.Context, s *sessionState, err error) {
	if ctx.Err() != nil || s.Context().Err() != nil {
		return // told by who ended it
	}
	g.mu.Lock()
	g.trouble = err
	if err != nil {
		g.failures++
	}
	g.mu.Unlock()
	var taken *registry.TakenError
	ends := false // the start, with err
	if !g.started && (err == nil || errors.As(err, &taken)) {
		g.started, ends = true, err != nil
		g.first <- err
	}
	switch {
	case err == nil:
		g.told = ""
	case ends: // who has started it is told
	case err.Error() != g.told:
		g.told = err.Error()
		g.log.Warn("registration in ZooKeeper failed: it is tried again", "error", err)
	}
}

// lost says that the session has ended, and with it all that was registered.
func (g *registration) lost() {
	g.mu.Lock()
	g.current, g.trouble = "", errors.New("the session has expired, a new one is being made")
	clear(g.nodes)
	g.mu.Unlock()
	g.log.Warn("session with ZooKeeper expired: the broker registers again", "broker_id", g.broker.ID)
}

// watchBroker watches the broker's node, anew if it was watched before: that watch
// may have told of a deletion after the registration before current knew of it, and
// would not tell it twice.
func (g *registration) watchBroker() {
	if g.watch != nil {
		g.watch.Close() // without mu, which its function may be waiting for
	}
	g.watch = g.registry.WatchBroker(g.broker.ID, g.look)
}

// look is called with the broker's node, at first and after each change. Somebody
// may delete it, or take it for his own.
func (g *registration) look(b registry.Broker, ok bool) {
	g.mu.Lock()
	missing := g.current != "" && (!ok || b.Creator != g.current)
	free := !ok && errors.As(g.trouble, new(*registry.TakenError)) // need not wait for the next try
	if missing {
		g.current, g.trouble = "", errors.New("somebody has removed or changed its node")
	}
	g.mu.Unlock()
	if missing || free {
		select {
		case g.gone <- struct{}{}:
		default:
		}
	}
}

// registrationState is what /healthz and /metrics show.
type registrationState struct {
	registered bool
	trouble    error // not nil: something is not registered
	topics     int
	failures   int64
	stats      coord.Stats
}

func (g *registration) state() registrationState {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := registrationState{registered: g.current != "", trouble: g.trouble, topics: len(g.nodes), failures: g.failures}
	if g.client != nil {
		st.stats = g.client.Stats()
	}
	if s := g.session; s != nil {
		if d := s.OutOfTouch(); d > s.Timeout() {
			st.registered, st.trouble = false, fmt.Errorf("there has been no connection for %v, longer than the session's time-out of %v", d.Round(time.Millisecond), s.Timeout())
		}
	}
	return st
}

// registrationReason says why the broker, or a topic, is not registered though it
// should be; "" if all is.
func (s *Server) registrationReason() string {
	g := s.registration.Load()
	if g == nil {
		return ""
	}
	switch st := g.state(); {
	case st.trouble != nil && !st.registered:
		return fmt.Sprintf("broker %d is not registered in ZooKeeper at %s: %v", s.cfg.ID, s.cfg.ZooKeeper.Servers, st.trouble)
	case st.trouble != nil:
		return fmt.Sprintf("registration in ZooKeeper at %s is not complete: %v", s.cfg.ZooKeeper.Servers, st.trouble)
	}
	return ""
}
