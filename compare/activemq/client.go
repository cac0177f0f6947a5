package activemq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-stomp/stomp/v3"

	"kafkalab/compare/internal/interrupt"
	"kafkalab/harness/driver"
)

// client is the client half. Each producer and each consumer has a connection
// of its own, and Arrived another.
type client struct {
	addr string
	opt  options

	mu      sync.Mutex
	closed  bool
	links   []closer           // of producers and consumers
	watches []*interrupt.Watch // of producers
	asked   *link              // where questions go; nil: to be dialled

	asking   sync.Mutex // one question at a time; protects the rest
	answers  *stomp.Subscription
	asker    string // distinguishes our questions from those of other clients
	question int64
}

// closer is a connection that Close closes.
type closer interface {
	close(ctx context.Context) error
}

// Connect opens the connection that Arrived uses, so that a broker that is not
// there is noticed at once.
func (d *Driver) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(target.Addr); err != nil {
		return nil, fmt.Errorf("activemq: the broker's address %q: %w", target.Addr, err)
	}
	c := &client{addr: target.Addr, opt: opt, asker: rand.Text()}
	if _, err := c.askLink(ctx); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// queuePattern leaves out what has a meaning of its own in the broker's names:
// wildcards, lists of destinations, their options.
var queuePattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

func checkQueue(queue string) error {
	if !queuePattern.MatchString(queue) {
		return fmt.Errorf("activemq: queue name %q: letters, digits, '.', '_' and '-' are wanted, 200 at most", queue)
	}
	return nil
}

// open dials a connection for a producer or a consumer.
func (c *client) open(ctx context.Context, queue string, sender bool) (*link, error) {
	if err := checkQueue(queue); err != nil {
		return nil, err
	}
	l, err := dial(ctx, c.addr, c.opt.coalesced, sender)
	if err != nil {
		return nil, err
	}
	if err := c.keep(l, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("activemq %s: %w", c.addr, err), l.close(ctx))
	}
	return l, nil
}

// keep has Close close a connection and the watch over its calls, if it has
// one, unless it has begun.
func (c *client) keep(l closer, w *interrupt.Watch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.links = append(c.links, l)
	if w != nil {
		c.watches = append(c.watches, w)
	}
	return nil
}

// Arrived returns how many messages the queue has taken since the broker was
// started, by its own counter (enqueueCount), or how many it holds, if that is
// more: after a restart. A queue that is not there has taken 0.
func (c *client) Arrived(ctx context.Context, queue string) (int64, error) {
	if err := checkQueue(queue); err != nil {
		return 0, err
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	found, err := c.ask(ctx, queue)
	if err != nil {
		return 0, fmt.Errorf("activemq %s: asking for queue %s: %w", c.addr, queue, err)
	}
	s := found[queue]
	return max(s.enqueued, s.size), nil
}

const (
	statistics = "/queue/ActiveMQ.Statistics.Destination."
	// listEnd asks for an empty answer after the last: else there is none for a
	// queue that does not exist.
	listEnd  = "ActiveMQ.Statistics.Destination.List.End.With.Null"
	emptyMap = "{}"
)

// state is what the broker says of a queue.
type state struct{ enqueued, size int64 }

// ask asks for the queues of that name, in which * stands for any one part. The
// asking lock is held.
func (c *client) ask(ctx context.Context, pattern string) (map[string]state, error) {
	l, err := c.askLink(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.room(ctx); err != nil {
		return nil, err
	}
	c.question++
	id := c.asker + "-" + strconv.FormatInt(c.question, 10)
	err = l.conn.Send(statistics+pattern, "", nil,
		stomp.SendOpt.Header("reply-to", "/queue/"+rawQueue), stomp.SendOpt.Header("correlation-id", id), stomp.SendOpt.Header(listEnd, "true"))
	if err != nil {
		return nil, l.sock.because(err)
	}
	for found := map[string]state{}; ; {
		m, err := l.next(ctx, c.answers)
		if err != nil {
			return nil, err
		}
		if m.Header.Get("correlation-id") != id {
			continue // another client's, or one that was not waited for
		}
		if string(m.Body) == emptyMap {
			return found, nil
		}
		queue, s, err := parseAnswer(string(m.Body))
		if err != nil {
			return nil, err
		}
		if len(found) > maxGroups {
			return nil, fmt.Errorf("the broker has more than %d queues %s", maxGroups, pattern)
		}
		found[queue] = s
	}
}

// parseAnswer finds the name and the counters in a Java map's text:
// {name=value, …}.
func parseAnswer(text string) (queue string, s state, err error) {
	values := map[string]string{}
	for _, entry := range strings.Split(strings.Trim(text, "{}"), ", ") {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	queue, named := strings.CutPrefix(values["destinationName"], "queue://")
	for name, n := range map[string]*int64{"enqueueCount": &s.enqueued, "size": &s.size} {
		*n, err = strconv.ParseInt(values[name], 10, 64)
		if err != nil || *n < 0 || !named {
			return "", state{}, fmt.Errorf("the broker's statistics are not understood: %.500q", text)
		}
	}
	return queue, s, nil
}

// askLink returns the connection that Arrived uses. The asking lock is held,
// or nobody else knows the client yet.
func (c *client) askLink(ctx context.Context) (*link, error) {
	c.mu.Lock()
	l, closed := c.asked, c.closed
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if l != nil {
		select {
		case <-l.sock.ended:
			// The broker has gone; dialling will tell.
			_ = l.close(ctx)
		default:
			return l, nil
		}
	}
	l, err := dial(ctx, c.addr, false, false)
	if err != nil {
		return nil, err
	}
	if c.answers, err = l.subscribe("/topic/"+textTopic, stomp.AckAuto); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	c.mu.Lock()
	closed = c.closed
	c.asked = l
	c.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed, l.close(ctx))
	}
	return l, nil
}

// Close closes all connections at once, each within a few seconds, also when
// the broker never answers.
func (c *client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	links := slices.Clone(c.links)
	if c.asked != nil {
		links = append(links, c.asked)
	}
	watches := slices.Clone(c.watches)
	c.mu.Unlock()
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = l.close(ctx) })
	}
	wg.Wait()
	for _, w := range watches {
		w.Close()
	}
	return errors.Join(errs...)
}
