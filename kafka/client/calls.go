package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// call sends the one request in c.out and receives its answer into c.in. The
// error of a code other than 0 is that [wire.Code].
func (c *Conn) call(ctx context.Context, a Answer) ([]byte, error) {
	c.mu.Lock()
	busy := len(c.answers)
	c.mu.Unlock()
	if busy > 0 {
		return nil, fmt.Errorf("%w: %d answers are still to be received", ErrArgument, busy)
	}
	if err := c.send(ctx, a); err != nil {
		return nil, err
	}
	code, payload, err := c.Receive(ctx, c.in[:0])
	c.in = payload
	if err != nil {
		// The answer may still come, and a later call would take it for its own.
		return nil, c.end(err)
	}
	return payload, code.Err()
}

// send sends the request in c.out.
func (c *Conn) send(ctx context.Context, answers ...Answer) error {
	if n := len(c.out) - wire.SizeSize; n > wire.MaxRequestSize {
		return fmt.Errorf("%w: request of %d bytes, at most %d are allowed: send less at a time", ErrArgument, n, wire.MaxRequestSize)
	}
	_, err := c.Send(ctx, c.out, answers...)
	return err
}

// malformed ends the connection after an answer that does not parse.
func (c *Conn) malformed(err error) error {
	return c.end(fmt.Errorf("%w: its answer does not parse: %w", ErrNotBroker, err))
}

func checkTopic(topic string) error {
	if err := message.CheckTopic(topic); err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return nil
}

func checkCount(n int) error {
	if n > wire.MaxCount {
		return fmt.Errorf("%w: %d entries, at most %d fit a request", ErrArgument, n, wire.MaxCount)
	}
	return nil
}

// Produce writes a message set to a partition, -1 for one of the broker's
// choice. There is no answer: that nil was returned means that the bytes were
// handed to the network.
func (c *Conn) Produce(ctx context.Context, topic string, partition int32, set message.Set) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	c.out = wire.AppendProduce(c.out[:0], topic, partition, set)
	if err := c.send(ctx); err != nil {
		return fmt.Errorf("produce to %s-%d: %w", topic, partition, err)
	}
	return nil
}

// MultiProduce writes several message sets with one request, at most
// [wire.MaxCount]. Like Produce it has no answer.
func (c *Conn) MultiProduce(ctx context.Context, entries []wire.ProduceEntry) error {
	if err := checkCount(len(entries)); err != nil {
		return err
	}
	for _, e := range entries {
		if err := checkTopic(e.Topic); err != nil {
			return err
		}
	}
	c.out = wire.AppendMultiProduce(c.out[:0], entries)
	if err := c.send(ctx); err != nil {
		return fmt.Errorf("produce to %d partitions: %w", len(entries), err)
	}
	return nil
}

// AckedProduceMaxPayload is the size of the answer to an AckedProduce.
const AckedProduceMaxPayload = 16

// AckedProduce writes a message set and waits until the broker says that it
// was received, appended or flushed. The broker holds the answer back for at
// most timeout. A [wire.Code] in the error is the broker's refusal; after any
// other error the set may or may not be in the log.
func (c *Conn) AckedProduce(ctx context.Context, topic string, partition int32, set message.Set, acks wire.Acks, timeout time.Duration) (wire.AckedRange, error) {
	if err := checkTopic(topic); err != nil {
		return wire.AckedRange{}, err
	}
	if partition < 0 {
		return wire.AckedRange{}, fmt.Errorf("%w: partition %d of %s: an acknowledged produce must name the partition", ErrArgument, partition, topic)
	}
	c.out = wire.AppendAckedProduce(c.out[:0], topic, partition, set, acks, Millis(timeout))
	payload, err := c.call(ctx, Answer{MaxPayload: AckedProduceMaxPayload, Wait: timeout})
	if err != nil {
		return wire.AckedRange{}, fmt.Errorf("acknowledged produce to %s-%d: %w", topic, partition, err)
	}
	r, err := wire.ParseAckedRange(payload)
	if err != nil {
		return r, c.malformed(err)
	}
	return r, nil
}

// Millis returns d in whole milliseconds, rounded up, as requests carry it.
func Millis(d time.Duration) int32 {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return int32(min(max(ms, 0), math.MaxInt32))
}

func checkFetch(e wire.FetchEntry) error {
	if e.MaxBytes < 0 {
		return fmt.Errorf("%w: fetch of %d bytes of %s-%d", ErrArgument, e.MaxBytes, e.Topic, e.Partition)
	}
	return checkTopic(e.Topic)
}

// Fetch reads up to e.MaxBytes of a partition's log from e.Offset on. The set
// is empty at the end of the log and usually ends in a cut-off entry; it is
// valid until the next call.
func (c *Conn) Fetch(ctx context.Context, e wire.FetchEntry) (message.Set, error) {
	if err := checkFetch(e); err != nil {
		return nil, err
	}
	if err := c.checkAnswer(int(e.MaxBytes)); err != nil {
		return nil, err
	}
	c.out = wire.AppendFetch(c.out[:0], e)
	set, err := c.call(ctx, Answer{MaxPayload: int(e.MaxBytes)})
	if err != nil {
		return nil, fmt.Errorf("fetch %s-%d at offset %d: %w", e.Topic, e.Partition, e.Offset, err)
	}
	return set, nil
}

// MultiFetch reads from several partitions with one request, at most
// [wire.MaxCount]. Each result has a code of its own. The sets are valid until
// the next call.
func (c *Conn) MultiFetch(ctx context.Context, entries []wire.FetchEntry) ([]wire.FetchResult, error) {
	if err := c.checkFetches(entries); err != nil {
		return nil, err
	}
	c.out = wire.AppendMultiFetch(c.out[:0], entries)
	return c.fetchMany(ctx, entries, 0)
}

// WaitFetch is MultiFetch that waits at the broker until minBytes are there
// over all entries, an entry fails, or maxWait is over.
func (c *Conn) WaitFetch(ctx context.Context, entries []wire.FetchEntry, maxWait time.Duration, minBytes int32) ([]wire.FetchResult, error) {
	if err := c.checkFetches(entries); err != nil {
		return nil, err
	}
	c.out = wire.AppendWaitFetch(c.out[:0], entries, Millis(maxWait), minBytes)
	return c.fetchMany(ctx, entries, maxWait)
}

func (c *Conn) checkFetches(entries []wire.FetchEntry) error {
	if err := checkCount(len(entries)); err != nil {
		return err
	}
	for _, e := range entries {
		if err := checkFetch(e); err != nil {
			return err
		}
	}
	return c.checkAnswer(FetchManyMaxPayload(entries))
}

// checkAnswer refuses what could have an answer that is too large to be taken.
func (c *Conn) checkAnswer(maxBytes int) error {
	if maxBytes > c.cfg.MaxResponseBytes {
		return fmt.Errorf("%w: fetch whose answer may have %d bytes, at most %d are allowed: ask for less at a time", ErrArgument, maxBytes, c.cfg.MaxResponseBytes)
	}
	return nil
}

// FetchManyMaxPayload returns the largest answer to a MultiFetch or WaitFetch.
func FetchManyMaxPayload(entries []wire.FetchEntry) int {
	n := 0
	for _, e := range entries {
		n += wire.ResponseHeaderSize + int(e.MaxBytes)
	}
	return n
}

func (c *Conn) fetchMany(ctx context.Context, entries []wire.FetchEntry, wait time.Duration) ([]wire.FetchResult, error) {
	payload, err := c.call(ctx, Answer{MaxPayload: FetchManyMaxPayload(entries), Wait: wait})
	if err != nil {
		return nil, fmt.Errorf("fetch from %d partitions: %w", len(entries), err)
	}
	c.sets, err = wire.ParseFetchResults(c.sets[:0], payload, len(entries))
	if err != nil {
		return nil, c.malformed(err)
	}
	return c.sets, nil
}

// Offsets asks for at most maxCount offsets of a partition, newest first, that
// are not behind a time in milliseconds since the epoch, [wire.TimeLatest] or
// [wire.TimeEarliest].
func (c *Conn) Offsets(ctx context.Context, topic string, partition int32, timeMs int64, maxCount int32) ([]int64, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if maxCount < 0 {
		return nil, fmt.Errorf("%w: %d offsets of %s-%d", ErrArgument, maxCount, topic, partition)
	}
	c.out = wire.AppendOffsets(c.out[:0], topic, partition, timeMs, maxCount)
	payload, err := c.call(ctx, Answer{MaxPayload: OffsetsMaxPayload(maxCount)})
	if err != nil {
		return nil, fmt.Errorf("offsets of %s-%d: %w", topic, partition, err)
	}
	offsets, err := wire.ParseOffsetList(payload)
	if err != nil {
		return nil, c.malformed(err)
	}
	return offsets, nil
}

// OffsetsMaxPayload returns the largest answer to an Offsets request.
func OffsetsMaxPayload(maxCount int32) int { return 4 + 8*int(maxCount) }

// Topics asks for the state of every partition of the named topics, or of all.
// With an error that is [wire.CodeNoSuchTopic] it returns the states of those
// that are there.
func (c *Conn) Topics(ctx context.Context, topics ...string) ([]wire.TopicState, error) {
	if err := checkCount(len(topics)); err != nil {
		return nil, err
	}
	for _, t := range topics {
		if err := checkTopic(t); err != nil {
			return nil, err
		}
	}
	c.out = wire.AppendTopics(c.out[:0], topics)
	payload, refusal := c.call(ctx, Answer{MaxPayload: c.cfg.MaxResponseBytes})
	if refusal != nil {
		refusal = fmt.Errorf("topics: %w", refusal)
		if !errors.Is(refusal, wire.CodeNoSuchTopic) {
			return nil, refusal
		}
	}
	states, err := wire.ParseTopicStates(payload)
	if err != nil {
		return nil, c.malformed(err)
	}
	return states, refusal
}

// CreateTopic creates a topic with a number of partitions at this broker.
func (c *Conn) CreateTopic(ctx context.Context, topic string, partitions int32) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	c.out = wire.AppendCreateTopic(c.out[:0], topic, partitions)
	if _, err := c.call(ctx, Answer{}); err != nil {
		s := "s"
		if partitions == 1 {
			s = ""
		}
		return fmt.Errorf("create topic %s with %d partition%s: %w", topic, partitions, s, err)
	}
	return nil
}

// DeleteTopic removes a topic and its logs at this broker.
func (c *Conn) DeleteTopic(ctx context.Context, topic string) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	c.out = wire.AppendDeleteTopic(c.out[:0], topic)
	if _, err := c.call(ctx, Answer{}); err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}
