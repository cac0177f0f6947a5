package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"kafkalab/plots"
)

// describedPartition is a line of "kafka topics describe --json".
type describedPartition struct {
	Broker   string `json:"broker"`
	BrokerID int32  `json:"broker_id"`
	plots.BrokerPartition
	Bytes int64 `json:"bytes"`
}

// describedGroup is a line of "kafka groups describe --json".
type describedGroup struct {
	Group   string `json:"group"`
	Members []struct {
		Consumer     string `json:"consumer"`
		Subscription string `json:"subscription"`
		Streams      []struct {
			Stream     string   `json:"stream"`
			Topic      string   `json:"topic"`
			Partitions []string `json:"partitions"`
		} `json:"streams"`
	} `json:"members"`
	Partitions []struct {
		plots.GroupPartition
		Lag       *int64 `json:"lag"`
		Watermark *int64 `json:"watermark"`
		LogEnd    *int64 `json:"log_end"`
		Away      bool   `json:"broker_away"`
	} `json:"partitions"`
	Unowned int `json:"partitions_without_owner"`
}

// dumpedMessage is a line of "kafka log dump --json --no-payload".
type dumpedMessage struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Segment   string `json:"segment"`
	plots.LogMessage
	Magic        byte   `json:"magic"`
	Codec        string `json:"codec"`
	CRC          string `json:"crc"`
	PayloadBytes int64  `json:"payload_bytes"`
}

// brokerOffsets is the answer of "kafka offsets --json".
type brokerOffsets struct {
	Broker    string  `json:"broker"`
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Offsets   []int64 `json:"offsets"`
}

// askKafka runs the program with --json and returns what it prints, a value a
// line. A key that is not known here is an error: the drawing would leave it
// out.
func askKafka[T any](ctx context.Context, c *drawnCluster, args ...string) ([]T, error) {
	out, err := c.host.Run(ctx, append(append([]string{c.kafka}, args...), "--json")...)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(out))
	d.DisallowUnknownFields()
	var all []T
	for {
		var v T
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("what kafka %s prints: %w", args[0], err)
		}
		all = append(all, v)
	}
}

// topics and groups are those of the cluster that meets at a ZooKeeper.
func (c *drawnCluster) topics(ctx context.Context, zookeeper string) ([]describedPartition, error) {
	return askKafka[describedPartition](ctx, c, "topics", "describe", "--zk-connect", zookeeper)
}

func (c *drawnCluster) groups(ctx context.Context, zookeeper string, names ...string) ([]describedGroup, error) {
	return askKafka[describedGroup](ctx, c, append(append([]string{"groups", "describe"}, names...), "--zk-connect", zookeeper)...)
}

// listedGroup is a line of "kafka groups list --json".
type listedGroup struct {
	Group   string `json:"group"`
	Members int    `json:"members"`
}

func (c *drawnCluster) listedGroups(ctx context.Context, zookeeper string) ([]listedGroup, error) {
	return askKafka[listedGroup](ctx, c, "groups", "list", "--zk-connect", zookeeper)
}

// drawGroupNames are the names of the groups of the live cluster.
func drawGroupNames() []string {
	var names []string
	for _, g := range drawGroups {
		names = append(names, g.name)
	}
	return names
}

// owned says which group has not all of its members, or a partition without an
// owner.
func (c *drawnCluster) owned(ctx context.Context) (string, error) {
	listed, err := c.listedGroups(ctx, c.zookeeper)
	if err != nil {
		return "", err
	}
	if len(listed) < len(drawGroups) {
		return fmt.Sprintf("%d groups are in ZooKeeper", len(listed)), nil
	}
	groups, err := c.groups(ctx, c.zookeeper, drawGroupNames()...)
	if err != nil {
		return "", err
	}
	for i, g := range groups {
		if want := drawGroups[i]; len(g.Members) != want.members || g.Unowned > 0 {
			return fmt.Sprintf("group %s has %d members and %d partitions without an owner", g.Group, len(g.Members), g.Unowned), nil
		}
		for _, p := range g.Partitions {
			if p.Owner == nil {
				return fmt.Sprintf("group %s: %s %d-%d has no owner", g.Group, p.Topic, p.BrokerID, p.Partition), nil
			}
		}
	}
	return "", nil
}

// consumed says what is not flushed, or not committed.
func (c *drawnCluster) consumed(ctx context.Context) (string, error) {
	partitions, err := c.topics(ctx, c.zookeeper)
	if err != nil {
		return "", err
	}
	if missing := notVisible(partitions); missing != "" {
		return missing, nil
	}
	groups, err := c.groups(ctx, c.zookeeper, drawGroupNames()...)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		for _, p := range g.Partitions {
			if p.Lag == nil || *p.Lag != 0 || p.Owner == nil {
				return fmt.Sprintf("group %s has not committed all of %s %d-%d", g.Group, p.Topic, p.BrokerID, p.Partition), nil
			}
		}
	}
	return "", nil
}

// notVisible says of which topic not all that was published is visible; "" if of
// none.
func notVisible(partitions []describedPartition) string {
	for _, t := range drawTopics {
		visible := int64(0)
		for _, p := range partitions {
			if p.Topic == t.name {
				visible += p.Watermark
			}
		}
		if visible < published(t.name) {
			return fmt.Sprintf("of %s %d of %d bytes are visible", t.name, visible, published(t.name))
		}
	}
	return ""
}

// read reads the clusters, and the log of that partition of the live one which has
// most segments.
func (c *drawnCluster) read(ctx context.Context) (*plots.Topology, *plots.PartitionLog, error) {
	names := drawGroupNames()
	if c.replica != "" {
		names = append(names, drawMirrorGroup)
	}
	live, partitions, err := c.readCluster(ctx, "live", c.zookeeper, names...)
	if err != nil {
		return nil, nil, err
	}
	live.Producers = drawProducers
	t := &plots.Topology{
		Clusters: []plots.Cluster{live},
		Note:     "All ran on one machine. Consumers are numbered in the order of their IDs, which hold names of machines.",
	}
	if c.replica != "" {
		if err := c.readReplica(ctx, t); err != nil {
			return nil, nil, err
		}
	}
	most := slices.MaxFunc(partitions, func(a, b describedPartition) int { return cmp.Compare(a.Segments, b.Segments) })
	l, err := c.readLog(ctx, most)
	return t, l, err
}

// readCluster reads what the cluster at a ZooKeeper holds.
func (c *drawnCluster) readCluster(ctx context.Context, name, zookeeper string, groupNames ...string) (plots.Cluster, []describedPartition, error) {
	cluster := plots.Cluster{Name: name, ZooKeeper: "the embedded ZooKeeper"}
	partitions, err := c.topics(ctx, zookeeper)
	if err != nil {
		return cluster, nil, err
	}
	var groups []describedGroup
	if len(groupNames) > 0 {
		if groups, err = c.groups(ctx, zookeeper, groupNames...); err != nil {
			return cluster, nil, err
		}
	}
	for _, p := range partitions {
		i := slices.IndexFunc(cluster.Brokers, func(b plots.ClusterBroker) bool { return b.ID == p.BrokerID })
		if i < 0 {
			i = len(cluster.Brokers)
			cluster.Brokers = append(cluster.Brokers, plots.ClusterBroker{ID: p.BrokerID, Address: p.Broker})
		}
		cluster.Brokers[i].Partitions = append(cluster.Brokers[i].Partitions, p.BrokerPartition)
	}
	slices.SortFunc(cluster.Brokers, func(a, b plots.ClusterBroker) int { return cmp.Compare(a.ID, b.ID) })
	for _, g := range groups {
		cluster.Groups = append(cluster.Groups, drawnGroup(g))
	}
	return cluster, partitions, nil
}

// drawnGroup names the members of a group by their order.
func drawnGroup(g describedGroup) plots.Group {
	out := plots.Group{Name: g.Group}
	names := map[string]string{} // of streams
	for i, m := range g.Members {
		member := plots.Member{Consumer: fmt.Sprintf("consumer %d", i+1)}
		for _, s := range m.Streams {
			if names[s.Stream] == "" { // it stands there for each of its topics
				names[s.Stream] = fmt.Sprintf("%s, stream %d", member.Consumer, len(member.Streams))
				member.Streams = append(member.Streams, names[s.Stream])
			}
		}
		out.Members = append(out.Members, member)
	}
	for _, p := range g.Partitions {
		part := p.GroupPartition
		if p.Owner != nil {
			part.Owner = new(names[*p.Owner])
		}
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

// mostOffsets is how many segments a log that is drawn may have.
const mostOffsets = 1000

// shownMessages is how many messages of a segment are kept at either end.
const shownMessages = 6

// readLog reads the list of base offsets that a broker has in memory, and the
// files that it speaks of.
func (c *drawnCluster) readLog(ctx context.Context, p describedPartition) (*plots.PartitionLog, error) {
	offsets, err := askKafka[brokerOffsets](ctx, c, "offsets", "--broker-list", p.Broker, "--topic", p.Topic, "--partition", fmt.Sprint(p.Partition), "--max", fmt.Sprint(mostOffsets))
	if err != nil {
		return nil, err
	}
	if len(offsets) != 1 || len(offsets[0].Offsets) < 1 {
		return nil, fmt.Errorf("broker %d names no offsets of %s-%d", p.BrokerID, p.Topic, p.Partition)
	}
	// Newest first, and the end of what is visible before all.
	bases := slices.Clone(offsets[0].Offsets)
	slices.Reverse(bases)
	bases = slices.Compact(bases)
	l := &plots.PartitionLog{
		Broker: fmt.Sprintf("broker %d", p.BrokerID), Topic: p.Topic, Partition: p.Partition, SegmentBytes: drawSegmentBytes,
		Watermark: bases[len(bases)-1], Bases: bases[:len(bases)-1],
	}
	folder := filepath.Join(c.folders[p.BrokerID], fmt.Sprintf("%s-%d", p.Topic, p.Partition))
	messages, err := askKafka[dumpedMessage](ctx, c, "log", "dump", folder, "--no-payload")
	if err != nil {
		return nil, err
	}
	l.Segments = drawnSegments(messages)
	return l, nil
}

// drawnSegments gathers the messages of a log by their files.
func drawnSegments(messages []dumpedMessage) []plots.LogSegment {
	var out []plots.LogSegment
	for _, m := range messages {
		file := filepath.Base(m.Segment)
		if n := len(out); n == 0 || out[n-1].File != file {
			out = append(out, plots.LogSegment{File: file, Base: m.Offset})
		}
		s := &out[len(out)-1]
		s.Messages++
		s.End = m.Next
		s.Shown = append(s.Shown, m.LogMessage)
	}
	for i := range out {
		if n := len(out[i].Shown); n > 2*shownMessages {
			out[i].Shown = slices.Concat(out[i].Shown[:shownMessages], out[i].Shown[n-shownMessages:])
		}
	}
	return out
}
