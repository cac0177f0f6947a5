package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// topicsCluster is what ZooKeeper adds to what brokers tell of topics. A nil one
// adds nothing.
type topicsCluster struct {
	reg      *registry.Registry
	ids      map[string]int32 // by address
	topics   []string         // that are registered
	group    string           // "": none is asked for
	read     map[string]bool  // topics that the group has to do with
	progress map[partitionID]progress
	made     []madeTopic
}

// madeTopic is a topic that a broker has made, and is to register.
type madeTopic struct {
	topic  string
	broker int32
}

// useRegistry takes the brokers from ZooKeeper, and what it knows of the topics.
func (a *topicsAction) useRegistry(ctx context.Context, z zkOptions, reg *registry.Registry, group string) error {
	brokers, err := z.liveBrokers(ctx, reg, a.notes)
	if err != nil {
		return err
	}
	c := &topicsCluster{reg: reg, ids: map[string]int32{}, group: group, progress: map[partitionID]progress{}}
	for _, b := range brokers {
		a.brokers = append(a.brokers, b.Addr())
		c.ids[b.Addr()] = b.ID
	}
	a.cluster = c
	c.topics, err = reg.Topics(ctx)
	if err := skipBad(err, a.notes); err != nil || group == "" {
		return err
	}
	groups, err := reg.Groups(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(groups, group) {
		return fmt.Errorf("no group %q in ZooKeeper at %s: \"kafka groups list\" names those that are there", group, z.servers)
	}
	if c.read, err = topicsRead(ctx, reg, group, a.notes); err != nil {
		return err
	}
	for _, t := range c.topics {
		if len(a.topics) > 0 && !slices.Contains(a.topics, t) {
			continue
		}
		of, err := groupProgress(ctx, reg, group, t, a.notes)
		if err != nil {
			return err
		}
		for p, progress := range of {
			c.progress[partitionID{t, p}] = progress
		}
	}
	return nil
}

// topicsRead returns the topics that a group has to do with.
func topicsRead(ctx context.Context, reg *registry.Registry, group string, notes io.Writer) (map[string]bool, error) {
	members, err := reg.Consumers(ctx, group)
	if err := skipBad(err, notes); err != nil {
		return nil, err
	}
	topics, err := groupsAction{reg: reg, notes: notes}.groupTopics(ctx, group, members)
	read := map[string]bool{}
	for _, t := range topics {
		read[t] = true
	}
	return read, err
}

// clusterColumns is what a cluster adds to a partition's line.
type clusterColumns struct {
	BrokerID int32 `json:"broker_id"`
	*groupColumns
}

// groupColumns is what a group adds to it.
type groupColumns struct {
	Group string `json:"group"`
	progress
	unread bool // the group has nothing to do with the topic
}

// columns returns what is added to a partition's line.
func (c *topicsCluster) columns(address string, s wire.TopicState) *clusterColumns {
	if c == nil {
		return nil
	}
	columns := &clusterColumns{BrokerID: c.ids[address]}
	if c.group != "" {
		p := c.progress[partitionID{s.Topic, registry.Partition{Broker: columns.BrokerID, Partition: s.Partition}}]
		p.lagTo(s.Watermark)
		columns.groupColumns = &groupColumns{c.group, p, !c.read[s.Topic]}
	}
	return columns
}

// header returns the names of the columns that text returns.
func (c *topicsCluster) header() []string {
	if c == nil || c.group == "" {
		return nil
	}
	return []string{"OWNER", "COMMITTED", "LAG"}
}

// text returns the columns of a group, none without one.
func (c *clusterColumns) text() []string {
	if c == nil || c.groupColumns == nil {
		return nil
	}
	columns := c.groupColumns.columns()
	if c.unread {
		columns[0] = "not read"
	}
	return columns
}

// addUnheld adds the topics that are registered while no broker that lives has
// them.
func (c *topicsCluster) addUnheld(topics []listedTopic) []listedTopic {
	if c == nil {
		return topics
	}
	for _, t := range c.topics {
		i, held := slices.BinarySearchFunc(topics, t, func(l listedTopic, name string) int { return cmp.Compare(l.Topic, name) })
		if !held {
			topics = slices.Insert(topics, i, listedTopic{Topic: t, Brokers: []listedBroker{}})
		}
	}
	return topics
}

// awaits notes that a broker has made a topic.
func (c *topicsCluster) awaits(topic, address string) {
	if c != nil {
		c.made = append(c.made, madeTopic{topic, c.ids[address]})
	}
}

// registerTimeout bounds how long the topics that were made may take to be
// registered.
const registerTimeout = 10 * time.Second

// awaitRegistered returns when the topics that were made stand in ZooKeeper, so that
// who produces or consumes next finds all their partitions.
func (c *topicsCluster) awaitRegistered(ctx context.Context) error {
	if c == nil {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	for _, m := range c.made {
		for {
			brokers, err := c.reg.TopicBrokers(limit, m.topic)
			if _, ok := brokers[m.broker]; ok {
				break
			}
			if err := skipBad(err, io.Discard); err != nil {
				return err
			}
			select {
			case <-time.After(connectInterval):
			case <-limit.Done():
				return fmt.Errorf("topic %s was made at broker %d, which has not registered it in ZooKeeper within %v", m.topic, m.broker, registerTimeout)
			}
		}
	}
	return nil
}
