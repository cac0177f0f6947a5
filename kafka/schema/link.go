package schema

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// askTimeout bounds one request to the broker, beside the caller's own bound.
const askTimeout = 5 * time.Second

// link is the connection by which the topic is asked for its end and appended to. One
// caller has it at a time.
type link struct {
	life   context.Context // of the store
	locate func(ctx context.Context) (broker string, err error)
	free   chan struct{} // a token: nobody has it
	conn   *client.Conn  // nil: there is none; of who has the token
}

func newLink(life context.Context, locate func(ctx context.Context) (string, error)) link {
	l := link{life: life, locate: locate, free: make(chan struct{}, 1)}
	l.free <- struct{}{}
	return l
}

// look returns the state of the partition, and says whether the log still holds the
// message that was read last, up to next: else it is not the log that was read.
func (l *link) look(ctx context.Context, last lastRead, next int64) (st wire.TopicState, same bool, err error) {
	err = l.do(ctx, func(ctx context.Context, c *client.Conn) error {
		if st, err = partitionState(ctx, c); err != nil {
			return err
		}
		size := next - last.offset
		if same = last.offset < 0 || size == 0; same || st.Watermark < next {
			return nil
		}
		set, err := c.Fetch(ctx, wire.FetchEntry{Topic: message.SchemasTopic, Offset: last.offset, MaxBytes: int32(min(size, maxLastBytes))})
		if err != nil {
			return err
		}
		it := set.Iterate(last.offset)
		same = it.Next() && sha256.Sum256(it.Message().Payload) == last.payload
		return nil
	})
	return st, same, err
}

// maxLastBytes bounds what is read to look at one message: more than a broker takes of
// one.
const maxLastBytes = 16 << 20

// append appends a record, and returns where the log goes on behind it once it is
// flushed. After an error it may stand in the log, or come to stand there.
func (l *link) append(ctx context.Context, payload []byte) (next int64, err error) {
	set := message.Append(nil, payload)
	err = l.do(ctx, func(ctx context.Context, c *client.Conn) error {
		r, err := c.AckedProduce(ctx, message.SchemasTopic, 0, set, wire.AcksFlushed, askTimeout)
		next = r.Next
		return err
	})
	return next, err
}

// do calls f with a connection, which is made if there is none.
func (l *link) do(ctx context.Context, f func(ctx context.Context, c *client.Conn) error) error {
	select {
	case <-l.free:
	case <-ctx.Done():
		return fmt.Errorf("wait for the broker of topic %s: %w", message.SchemasTopic, ctx.Err())
	case <-l.life.Done():
		return errClosed
	}
	defer func() { l.free <- struct{}{} }()
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	if l.life.Err() != nil {
		return errClosed
	}
	if l.conn == nil {
		c, err := connect(ctx, l.locate)
		if err != nil {
			return err
		}
		l.conn = c
	}
	err := f(ctx, l.conn)
	if l.conn.Err() != nil {
		l.conn = nil // it has ended; the next one makes another
	}
	return err
}

// close closes the connection. Who has it has ended, or ends now.
func (l *link) close() {
	<-l.free
	if l.conn != nil {
		_ = l.conn.Close() // nothing is under way on it
		l.conn = nil
	}
	l.free <- struct{}{}
}

// connect connects to the broker that has the topic.
func connect(ctx context.Context, locate func(ctx context.Context) (string, error)) (*client.Conn, error) {
	broker, err := locate(ctx)
	if err != nil {
		return nil, fmt.Errorf("find topic %s: %w", message.SchemasTopic, err)
	}
	return client.Dial(ctx, broker, client.Config{DialTimeout: askTimeout, RequestTimeout: askTimeout})
}

// AtBroker returns what a store finds its topic with if it is at a broker, or is to be
// made there.
func AtBroker(broker string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return broker, CreateTopic(ctx, broker) }
}

// CreateTopic makes the topic of schemas at a broker, with one partition, unless the
// broker has it. No other broker of the cluster may have it.
func CreateTopic(ctx context.Context, broker string) (err error) {
	c, err := client.Dial(ctx, broker, client.Config{DialTimeout: askTimeout, RequestTimeout: askTimeout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.CreateTopic(ctx, message.SchemasTopic, 1); !errors.Is(err, wire.CodeTopicExists) {
		return err
	}
	return nil
}

// partitionState asks a broker for the state of the topic's one partition.
func partitionState(ctx context.Context, c *client.Conn) (wire.TopicState, error) {
	states, err := c.Topics(ctx, message.SchemasTopic)
	if err != nil {
		return wire.TopicState{}, fmt.Errorf("topic %s at broker %s: %w", message.SchemasTopic, c.Addr(), err)
	}
	for _, st := range states {
		if st.Topic == message.SchemasTopic && st.Partition == 0 {
			return st, nil
		}
	}
	return wire.TopicState{}, fmt.Errorf("broker %s has no partition %s-0", c.Addr(), message.SchemasTopic)
}
