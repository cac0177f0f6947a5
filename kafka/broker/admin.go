package broker

import (
	"errors"
	"fmt"
	"slices"

	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// offsets answers an Offsets request. As in 0.7 it has no error codes: what
// cannot be answered closes the connection.
func (c *conn) offsets(body []byte, _ int) error {
	o, err := wire.ParseOffsets(body)
	if err != nil {
		return c.badFrame(err)
	}
	log, code := c.srv.lookup(o.Topic, o.Partition)
	if code != wire.CodeNone || o.MaxCount < 0 {
		c.srv.metrics.fetchErrors.Inc()
		err = fmt.Errorf("offsets of topic %.60q partition %d, at most %d: %w", o.Topic, o.Partition, o.MaxCount, refusal(code))
		return &refusedError{err: err, where: place(o.Topic, o.Partition)}
	}
	var offsets []int64
	if log != nil {
		offsets = log.OffsetsBefore(o.Time, int(o.MaxCount))
		if errors.Is(log.Err(), storage.ErrNoSuchTopic) {
			log, offsets = nil, nil // deleted since the lookup
		}
	}
	if log == nil && (o.Time == wire.TimeLatest || o.Time == wire.TimeEarliest) {
		offsets = []int64{0} // where the first message will be
	}
	return c.answer(wire.CodeNone, wire.AppendOffsetList(nil, offsets))
}

func refusal(code wire.Code) error {
	if code == wire.CodeNone {
		return wire.CodeBadArgument
	}
	return code
}

// topics describes the named topics, or all. When one is not there the code
// says so, and the others are described nevertheless. The answer is sent while
// it is made, so that a hundred thousand partitions take no more memory than
// one; only what the size field of an answer cannot say is refused.
func (c *conn) topics(body []byte, _ int) error {
	wanted, err := wire.ParseTopics(body)
	if err != nil {
		return c.badFrame(err)
	}
	names, code := c.topicNames(wanted)
	// The number of partitions is fixed here: whatever becomes of a topic
	// meanwhile, the answer has the size that its beginning says.
	counts := make([]int32, len(names))
	partitions, size := 0, wire.TopicCountSize
	for i, name := range names {
		counts[i] = c.srv.logs.Partitions([]byte(name))
		partitions += int(counts[i])
		size += int(counts[i]) * wire.TopicStateSize(name)
	}
	if size > maxAnswerBytes-wire.CodeSize {
		return c.answer(wire.CodeBadArgument, nil)
	}
	c.gathered = wire.AppendResponseHeader(c.room(wire.ResponseHeaderSize+wire.TopicCountSize), code, size)
	c.gathered = wire.AppendTopicCount(c.gathered, partitions)
	for i, name := range names {
		if err := c.sendStates(name, counts[i]); err != nil {
			return err
		}
	}
	return nil
}

// topicNames returns those of the wanted topics that are there, each once, or
// all when none is named.
func (c *conn) topicNames(wanted [][]byte) (names []string, code wire.Code) {
	all := c.srv.logs.Topics()
	if len(wanted) == 0 {
		return all, wire.CodeNone
	}
	const exists, listed = 1, 2
	known := make(map[string]int, len(all))
	for _, name := range all {
		known[name] = exists
	}
	for _, name := range wanted {
		switch known[string(name)] {
		case exists:
			names = append(names, string(name))
			known[string(name)] = listed // one that is named again is described once
		case listed:
		default:
			code = wire.CodeNoSuchTopic
		}
	}
	return names, code
}

// sendStates gathers the states of so many partitions of a topic, and sends
// them as they become many. Those without a log are empty.
func (c *conn) sendStates(topic string, partitions int32) error {
	name := []byte(topic)
	for p := range partitions {
		t := wire.TopicState{Topic: topic, Partition: p}
		if log := c.srv.logs.Lookup(name, p); log != nil {
			st := log.State()
			t.First, t.Watermark, t.LogEnd = st.First, st.Watermark, st.LogEnd
			t.Segments, t.Bytes = int32(st.Segments), st.Bytes
		}
		c.gathered = wire.AppendTopicState(c.room(wire.TopicStateSize(topic)), t)
		if len(c.gathered) >= sendAt {
			if err := c.sendGathered(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *conn) createTopic(body []byte, _ int) error {
	req, err := wire.ParseCreateTopic(body)
	if err != nil {
		return c.badFrame(err)
	}
	name := string(req.Topic)
	if message.CheckTopic(name) != nil || req.Partitions < 1 || req.Partitions > storage.MaxPartitions {
		return c.answer(wire.CodeBadArgument, nil)
	}
	if err := c.srv.logs.CreateTopic(name, req.Partitions); err != nil {
		return c.answer(c.adminCode("create topic", req.Topic, err), nil)
	}
	c.log.Info("topic created", "topic", name, "partitions", req.Partitions)
	c.srv.topicWatchers.notify()
	return c.answer(wire.CodeNone, nil)
}

func (c *conn) deleteTopic(body []byte, _ int) error {
	topic, err := wire.ParseDeleteTopic(body)
	if err != nil {
		return c.badFrame(err)
	}
	name := string(topic)
	if message.CheckTopic(name) != nil {
		return c.answer(wire.CodeBadArgument, nil)
	}
	if err := c.srv.logs.DeleteTopic(name); err != nil {
		// It may be gone nevertheless, with files that could not be removed.
		if !slices.Contains(c.srv.logs.Topics(), name) {
			c.srv.topicDeleted(name)
		}
		return c.answer(c.adminCode("delete topic", topic, err), nil)
	}
	c.log.Info("topic deleted", "topic", name)
	c.srv.topicDeleted(name)
	return c.answer(wire.CodeNone, nil)
}

// topicDeleted tells who wants to know that a topic is gone.
func (s *Server) topicDeleted(name string) {
	s.metrics.dropTopic(name)
	if g := s.registration.Load(); g != nil {
		g.topicDeleted(name)
	}
	s.topicWatchers.notify()
}

// adminCode is the code for a failed change of a topic, which it reports when
// the cause is not in the request.
func (c *conn) adminCode(what string, topic []byte, err error) wire.Code {
	switch {
	case errors.Is(err, storage.ErrTopicExists):
		return wire.CodeTopicExists
	case errors.Is(err, storage.ErrNoSuchTopic):
		return wire.CodeNoSuchTopic
	case errors.Is(err, storage.ErrTopicName):
		return wire.CodeBadArgument
	}
	c.storageFailed(what, topic, 0, err)
	return wire.CodeUnknown
}
