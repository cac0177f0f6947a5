package schema

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of [ClientConfig].
const (
	DefaultRequestTimeout  = 5 * time.Second
	DefaultUnknownInterval = 30 * time.Second
	DefaultRetryInterval   = time.Second
	DefaultMaxCacheBytes   = 64 << 20
)

const (
	// maxCached is how many schemas a client keeps.
	maxCached = 10_000
	// maxUnproven is how many ids a client keeps that it has no schema for: so many
	// are asked for in one interval, whatever ids payloads hold.
	maxUnproven = 1000
	// schemaCost is what a schema takes beside its text, about: a parsed one is larger.
	schemaCost = 4 << 10
)

var (
	// ErrUnknownID says that the registry does not know the id.
	ErrUnknownID = errors.New("unknown schema")
	// ErrUnavailable says that the registry could not be asked, or did not say whether it
	// knows. Errors that wrap it have a method Temporary, which says true: the same
	// payload can be read later.
	ErrUnavailable error = unavailable{}
)

// errTooManyUnknown says, beside [ErrUnavailable], that an id was not asked for.
var errTooManyUnknown = errors.New("too many ids were unknown of late")

type unavailable struct{}

func (unavailable) Error() string { return "schema registry unavailable" }

// Temporary says that it may pass.
func (unavailable) Temporary() bool { return true }

// ClientConfig describes a client. Zero fields take the defaults.
type ClientConfig struct {
	URL string // of the registry: http://host:port

	RequestTimeout time.Duration // of one request
	// UnknownInterval is how long an id that the registry does not know is not asked
	// for again, RetryInterval how long one for which it could not be asked.
	UnknownInterval, RetryInterval time.Duration
	// AwaitTurn lets who needs a further id wait while a thousand are unknown, which is as
	// many as are asked for in one UnknownInterval; else that is an [ErrUnavailable]. It is
	// for those who must come to the end of payloads that may only look as if they had a
	// schema.
	AwaitTurn bool
	// MaxCacheBytes bounds the schemas that are kept, by their texts. Beyond it, or
	// beyond 10,000 schemas, one is forgotten, and looked up again when it is needed.
	MaxCacheBytes int64

	Logger *slog.Logger // failures of the registry, and ids that wait, never messages; nil: nothing is logged
}

func (c ClientConfig) withDefaults() (ClientConfig, error) {
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&c.RequestTimeout, DefaultRequestTimeout}, {&c.UnknownInterval, DefaultUnknownInterval}, {&c.RetryInterval, DefaultRetryInterval}} {
		if *d.v == 0 {
			*d.v = d.d
		}
		if *d.v < 0 {
			return c, fmt.Errorf("schema client: a time is %v: give 0 for the default", *d.v)
		}
	}
	if c.MaxCacheBytes == 0 {
		c.MaxCacheBytes = DefaultMaxCacheBytes
	}
	if c.MaxCacheBytes < 0 {
		return c, fmt.Errorf("schema client: %d bytes of schemas: give 0 for the default", c.MaxCacheBytes)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return c, fmt.Errorf("schema client: %q is not the address of a registry: give http://HOST:PORT", c.URL)
	}
	c.URL = strings.TrimRight(c.URL, "/")
	return c, nil
}

// Client looks schemas up at a registry, each once, and reads and makes payloads with
// them. Its methods may be called by several goroutines at once.
//
// An id stands for one schema for ever, so what was looked up is never asked for
// again; while the registry is away the ids that are known go on.
type Client struct {
	cfg    ClientConfig
	http   *http.Client
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // look-ups on their way

	recent atomic.Pointer[entry] // the one that was used last, with a schema

	mu       sync.Mutex // guards all below
	entries  map[uint32]*entry
	bytes    int64 // of the entries that have a schema
	unproven int   // entries that have none, or none yet
	closed   bool
	stats    ClientStats
	// toldTurns is when it was last told that ids wait for their turn.
	toldTurns time.Time
}

// ClientStats counts what a client has asked its registry for.
type ClientStats struct {
	Lookups   int64 // of ids, that were sent to the registry
	Unknown   int64 // of them, those that it did not know
	Failed    int64 // of them, those that it could not be asked, or did not answer
	Forgotten int64 // schemas that made room for others
	Refused   int64 // times that a look-up was not made, as too many ids had none
	Cached    int   // schemas that are kept now
}

// entry is what is known of an id. Before done is closed it is of who looks it up.
type entry struct {
	id     uint32
	done   chan struct{}
	schema *Schema
	err    error
	until  time.Time // with err: when it may be asked for again
}

// NewClient returns a client, which must be closed. It asks for nothing yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, http: newHTTPClient(), entries: map[uint32]*entry{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends look-ups on their way. What is known can still be used. A second Close
// does nothing.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
	c.http.CloseIdleConnections()
}

// Stats returns the counts so far.
func (c *Client) Stats() ClientStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Cached = len(c.entries) - c.unproven
	return s
}

// Schema returns the schema of an id. Errors wrap [ErrUnknownID] or [ErrUnavailable].
// ctx bounds the waiting; the look-up goes on for others.
func (c *Client) Schema(ctx context.Context, id uint32) (*Schema, error) {
	if e := c.recent.Load(); e != nil && e.id == id {
		return e.schema, nil
	}
	e, err := c.entry(id)
	for c.cfg.AwaitTurn && errors.Is(err, errTooManyUnknown) && c.awaitTurn(ctx, err) {
		e, err = c.entry(id)
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("schema %d of %s: %w", id, c.cfg.URL, ctx.Err())
	}
	if e.err != nil {
		return nil, e.err
	}
	c.recent.Store(e)
	return e.schema, nil
}

const (
	// turnPause is the time between two looks whether an id may be asked for.
	turnPause = 200 * time.Millisecond
	// tellTurns is the least time between two lines about ids that wait for it.
	tellTurns = time.Minute
)

// awaitTurn waits a little after an error of [errTooManyUnknown], which it tells. It reports
// false when ctx or the client has ended.
func (c *Client) awaitTurn(ctx context.Context, err error) bool {
	c.mu.Lock()
	if now := time.Now(); now.Sub(c.toldTurns) >= tellTurns {
		c.toldTurns = now
		c.cfg.Logger.Warn("a schema is waited for", "registry", c.cfg.URL, "error", err)
	}
	c.mu.Unlock()
	timer := time.NewTimer(turnPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}

// entry returns the entry of an id, which is looked up if it is not known.
func (c *Client) entry(id uint32) (*entry, error) {
	if id == 0 || id > MaxID {
		return nil, fmt.Errorf("%w: %d is no id", ErrUnknownID, id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e != nil && c.expired(e, time.Now()) {
		delete(c.entries, id)
		c.unproven--
		e = nil
	}
	if e != nil {
		return e, nil
	}
	switch {
	case c.closed:
		return nil, fmt.Errorf("%w: the client is closed", ErrUnavailable)
	case !c.roomForOne():
		c.stats.Refused++
		return nil, fmt.Errorf("%w: %d is not asked for now: %w: %d", ErrUnavailable, id, errTooManyUnknown, c.unproven)
	}
	e = &entry{id: id, done: make(chan struct{})}
	c.entries[id] = e
	c.unproven++
	c.stats.Lookups++
	c.wg.Go(func() { c.lookUp(e) })
	return e, nil
}

// expired says whether an entry is a failure that is old enough. The caller holds mu.
func (c *Client) expired(e *entry, now time.Time) bool {
	select {
	case <-e.done:
		return e.err != nil && !now.Before(e.until)
	default:
		return false
	}
}

// roomForOne makes room for an id without a schema, if there is some. The caller
// holds mu.
func (c *Client) roomForOne() bool {
	if c.unproven < maxUnproven {
		return true
	}
	now := time.Now()
	for id, e := range c.entries {
		if c.expired(e, now) {
			delete(c.entries, id)
			c.unproven--
		}
	}
	return c.unproven < maxUnproven
}

// lookUp asks the registry for the schema of an entry.
func (c *Client) lookUp(e *entry) {
	s, err := c.fetch(c.ctx, e.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(e.done)
	if err == nil {
		e.schema = s
		c.unproven--
		c.keep(s)
		return
	}
	e.err = err
	wait := c.cfg.UnknownInterval
	if errors.Is(err, ErrUnavailable) {
		wait = c.cfg.RetryInterval
		c.stats.Failed++
		c.cfg.Logger.Warn("a schema could not be looked up", "schema_id", e.id, "registry", c.cfg.URL, "error", err)
	} else {
		c.stats.Unknown++
	}
	e.until = time.Now().Add(wait)
}

// keep counts a schema that an entry has got, and forgets others while there are too
// many. The caller holds mu.
func (c *Client) keep(s *Schema) {
	cost := func(s *Schema) int64 { return schemaCost + int64(len(s.text)) }
	c.bytes += cost(s)
	for id, e := range c.entries { // in no order: none is known to be needed less
		if c.bytes <= c.cfg.MaxCacheBytes && len(c.entries)-c.unproven <= maxCached {
			return
		}
		if e.schema != nil && e.schema != s {
			delete(c.entries, id)
			c.bytes -= cost(e.schema)
			c.stats.Forgotten++
		}
	}
}

// learn keeps a schema whose id the registry has just told.
func (c *Client) learn(id uint32, s *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[id]; old != nil {
		select {
		case <-old.done:
		default:
			return // it is being looked up
		}
		if old.err == nil {
			return
		}
		c.unproven-- // it was unknown a moment ago
	}
	e := &entry{id: id, done: make(chan struct{}), schema: s}
	close(e.done)
	c.entries[id] = e
	c.keep(s)
}
