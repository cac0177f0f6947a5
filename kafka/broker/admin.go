package broker

import (
	"errors"
	"fmt"

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
		return &refusedError{fmt.Errorf("offsets of topic %.60q partition %d, at most %d: %w", o.Topic, o.Partition, o.MaxCount, refusal(code))}
	}
	var offsets []int64
	switch {
	case log != nil:
		offsets = log.OffsetsBefore(o.Time, int(o.MaxCount))
	case o.Time == wire.TimeLatest, o.Time == wire.TimeEarliest:
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

// maxTopicStates bounds the partitions that one answer describes. Who has more
// asks for some topics at a time.
const maxTopicStates = 1 << 18

// topics describes the named topics, or all. When one is not there the code
// says so, and the others are described nevertheless.
func (c *conn) topics(body []byte, _ int) error {
	wanted, err := wire.ParseTopics(body)
	if err != nil {
		return c.badFrame(err)
	}
	all := c.srv.logs.Topics()
	names, code := all, wire.CodeNone
	if len(wanted) > 0 {
		const exists, listed = 1, 2
		known := make(map[string]int, len(all))
		for _, name := range all {
			known[name] = exists
		}
		names = nil
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
	}
	total := 0
	for _, name := range names {
		if total += int(c.srv.logs.Partitions([]byte(name))); total > maxTopicStates {
			return c.answer(wire.CodeBadArgument, nil)
		}
	}
	states := make([]wire.TopicState, 0, total)
	for _, name := range names {
		states = c.srv.appendStates(states, name)
	}
	return c.answer(code, wire.AppendTopicStates(nil, states))
}

// appendStates appends the state of every partition of a topic, those without
// a log being empty.
func (s *Server) appendStates(dst []wire.TopicState, topic string) []wire.TopicState {
	name := []byte(topic)
	for p := range s.logs.Partitions(name) {
		t := wire.TopicState{Topic: topic, Partition: p}
		if log := s.logs.Lookup(name, p); log != nil {
			st := log.State()
			t.First, t.Watermark, t.LogEnd = st.First, st.Watermark, st.LogEnd
			t.Segments, t.Bytes = int32(st.Segments), st.Bytes
		}
		dst = append(dst, t)
	}
	return dst
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
		return c.answer(c.adminCode("delete topic", topic, err), nil)
	}
	c.log.Info("topic deleted", "topic", name)
	c.srv.metrics.dropTopic(name)
	c.srv.topicWatchers.notify()
	return c.answer(wire.CodeNone, nil)
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
