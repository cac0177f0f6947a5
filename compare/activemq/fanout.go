package activemq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stomp/stomp/v3"
)

// fanOutMark stands in the names of the queues that each get all of what is
// sent to another: q.fan.1, q.fan.2, …
const fanOutMark = ".fan."

// maxGroups bounds a fan-out.
const maxGroups = 100

// FanOut makes a queue for each group. A producer of the queue finds them, and
// sends to all of them at once, as one composite destination ("Composite
// Destinations", activemq.apache.org/components/classic/documentation).
func (c *client) FanOut(ctx context.Context, queue string, groups int) ([]string, error) {
	if err := checkQueue(queue); err != nil {
		return nil, err
	}
	if groups < 2 || groups > maxGroups {
		return nil, fmt.Errorf("activemq: fan-out of queue %s to %d groups: from 2 to %d are wanted", queue, groups, maxGroups)
	}
	queues := make([]string, groups)
	for i := range queues {
		queues[i] = queue + fanOutMark + strconv.Itoa(i+1)
		if err := c.make(ctx, queues[i]); err != nil {
			return nil, fmt.Errorf("activemq %s: fan-out of queue %s: %w", c.addr, queue, err)
		}
	}
	return queues, nil
}

// make makes a queue by subscribing to it for a moment. One that is there is
// left as it is.
func (c *client) make(ctx context.Context, queue string) (err error) {
	c.asking.Lock()
	found, err := c.ask(ctx, queue)
	c.asking.Unlock()
	if err != nil || len(found) > 0 {
		return err
	}
	l, err := dial(ctx, c.addr, false, false)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, l.sock.abort)
	_, err = l.subscribe("/queue/"+queue, stomp.AckAuto, stomp.SubscribeOpt.Header("activemq.prefetchSize", "1"))
	if err == nil {
		// A receipt tells that the subscription has been made.
		err = l.await(func() error { return l.conn.Send(barrier, "", nil, stomp.SendOpt.Receipt) })
	}
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	return errors.Join(err, l.close(ctx))
}

// destinationOf returns where a producer of the queue sends to: the queue, or
// all that FanOut has made for it, by this client or another.
func (c *client) destinationOf(ctx context.Context, queue string) (string, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	found, err := c.ask(ctx, queue+fanOutMark+"*")
	if err != nil {
		return "", fmt.Errorf("activemq %s: asking for a fan-out of queue %s: %w", c.addr, queue, err)
	}
	if len(found) == 0 {
		return "/queue/" + queue, nil
	}
	var queues []string
	for name := range found {
		queues = append(queues, "/queue/"+name)
	}
	slices.Sort(queues)
	return strings.Join(queues, ","), nil
}
