package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"kafkalab/kafka/registry"
)

// groupState is a group as it is printed.
type groupState struct {
	Group      string           `json:"group"`
	Members    []groupMember    `json:"members"`
	Partitions []groupPartition `json:"partitions"`
	Unowned    int              `json:"partitions_without_owner"` // of those whose brokers are there
}

// groupMember is a consumer of a group, with its streams.
type groupMember struct {
	Consumer     string        `json:"consumer"`
	Subscription string        `json:"subscription"`
	Streams      []groupStream `json:"streams"`
	topics       []string      // named in the subscription; none of a pattern
}

// groupStream is a stream of a member and what it owns of a topic.
type groupStream struct {
	Stream     string   `json:"stream"`
	Topic      string   `json:"topic"`
	Partitions []string `json:"partitions"` // "broker-partition"; none: it is idle
}

// groupPartition is how far a group is with a partition. What is not known, or
// not there, is nil: of a broker that cannot be asked, of a group that has never
// committed.
type groupPartition struct {
	Topic     string `json:"topic"`
	BrokerID  int32  `json:"broker_id"`
	Partition int32  `json:"partition"`
	progress
	Watermark *int64 `json:"watermark"`
	LogEnd    *int64 `json:"log_end"`
	// Away says that the partition's broker is not registered: then nobody can own
	// the partition.
	Away bool `json:"broker_away,omitempty"`
}

// progress is what a group has of a partition.
type progress struct {
	Owner     *string `json:"owner"` // the stream that owns it, nil: nobody
	Committed *int64  `json:"committed_offset"`
	Lag       *int64  `json:"lag"` // bytes from there to the watermark
}

// lagTo sets the lag against a watermark.
func (p *progress) lagTo(watermark int64) {
	if p.Committed != nil {
		p.Lag = new(watermark - *p.Committed)
	}
}

// noOwner stands where the owner of a partition would.
const noOwner = "NO OWNER"

// columns returns the text of the owner, the committed offset and the lag.
func (p progress) columns() []string {
	owner := noOwner
	if p.Owner != nil {
		owner = *p.Owner
	}
	return []string{owner, numberOrNone(p.Committed), numberOrNone(p.Lag)}
}

func numberOrNone(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// groupProgress reads owners and committed offsets of a group in a topic.
func groupProgress(ctx context.Context, reg *registry.Registry, group, topic string, notes io.Writer) (map[registry.Partition]progress, error) {
	owners, err := reg.Owners(ctx, group, topic)
	if err := skipBad(err, notes); err != nil {
		return nil, err
	}
	offsets, err := reg.Offsets(ctx, group, topic)
	if err := skipBad(err, notes); err != nil {
		return nil, err
	}
	all := map[registry.Partition]progress{}
	for p, owner := range owners {
		all[p] = progress{Owner: &owner}
	}
	for p, offset := range offsets {
		of := all[p]
		of.Committed = &offset
		all[p] = of
	}
	return all, nil
}

// readGroup reads all about a group. What is known is returned beside the errors
// of brokers that could not be asked.
func (a groupsAction) readGroup(ctx context.Context, group string) (*groupState, error) {
	members, err := a.reg.Consumers(ctx, group)
	if err := skipBad(err, a.notes); err != nil {
		return nil, err
	}
	topics, err := a.groupTopics(ctx, group, members)
	if err != nil {
		return nil, err
	}
	known := map[partitionID]progress{}
	for _, t := range topics {
		progress, err := groupProgress(ctx, a.reg, group, t, a.notes)
		if err != nil {
			return nil, err
		}
		for p, of := range progress {
			known[partitionID{t, p}] = of
		}
	}
	g := &groupState{Group: group, Members: []groupMember{}, Partitions: []groupPartition{}}
	owned := ownedBy(known)
	for _, consumer := range slices.Sorted(maps.Keys(members)) {
		g.Members = append(g.Members, memberOf(consumer, members[consumer], topics, owned))
	}
	return g, a.addPartitions(ctx, g, topics, known)
}

// groupTopics returns the topics that a group has to do with, sorted: those of
// which it has offsets or owners, and those that its members have subscribed to.
func (a groupsAction) groupTopics(ctx context.Context, group string, members map[string]registry.Subscription) ([]string, error) {
	topics, err := a.reg.GroupTopics(ctx, group)
	if err != nil {
		return nil, err
	}
	all, err := a.reg.Topics(ctx)
	if err := skipBad(err, a.notes); err != nil {
		return nil, err
	}
	for _, t := range all {
		for _, s := range members {
			if s.Matches(t) {
				topics = append(topics, t)
				break
			}
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics), nil
}

// streamTopic is a stream and a topic that it is for.
type streamTopic struct{ stream, topic string }

// ownedBy lists the partitions that each stream owns of each topic.
func ownedBy(known map[partitionID]progress) map[streamTopic][]string {
	owned := map[streamTopic][]string{}
	for _, id := range sortedPartitions(known) {
		if owner := known[id].Owner; owner != nil {
			of := streamTopic{*owner, id.topic}
			owned[of] = append(owned[of], id.Partition.String())
		}
	}
	return owned
}

// memberOf lists the streams of a member and what they own.
func memberOf(consumer string, s registry.Subscription, topics []string, owned map[streamTopic][]string) groupMember {
	m := groupMember{Consumer: consumer, Subscription: s.Text(), Streams: []groupStream{}, topics: s.Topics()}
	for _, t := range topics {
		for i := range s.Streams(t) {
			stream := registry.ThreadID(consumer, i)
			m.Streams = append(m.Streams, groupStream{stream, t, append([]string{}, owned[streamTopic{stream, t}]...)})
		}
	}
	return m
}

// addPartitions adds the partitions of the topics: those that the brokers have,
// and those of which only the group's nodes tell.
func (a groupsAction) addPartitions(ctx context.Context, g *groupState, topics []string, known map[partitionID]progress) error {
	if len(topics) == 0 {
		return nil
	}
	brokers, err := a.reg.Brokers(ctx)
	if err := skipBad(err, a.notes); err != nil {
		return err
	}
	registered := map[partitionID]bool{}
	for _, t := range topics {
		partitions, err := a.reg.Partitions(ctx, t)
		if err := skipBad(err, a.notes); err != nil {
			return err
		}
		for _, p := range partitions {
			id := partitionID{t, p}
			registered[id] = true
			if _, ok := known[id]; !ok {
				known[id] = progress{}
			}
		}
	}
	states, err := brokerStates(ctx, a.connect, brokers, topics...)
	for _, id := range sortedPartitions(known) {
		p := groupPartition{Topic: id.topic, BrokerID: id.Broker, Partition: id.Partition.Partition, progress: known[id], Away: !registered[id]}
		if s, ok := states[id]; ok {
			p.Watermark, p.LogEnd = &s.Watermark, &s.LogEnd
			p.lagTo(s.Watermark)
		}
		if p.Owner == nil && !p.Away {
			g.Unowned++
		}
		g.Partitions = append(g.Partitions, p)
	}
	return err
}

func sortedPartitions[T any](m map[partitionID]T) []partitionID {
	return slices.SortedFunc(maps.Keys(m), func(a, b partitionID) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), a.Compare(b.Partition))
	})
}

// print prints the group for people.
func (g *groupState) print(out io.Writer) error {
	if len(g.Members) == 0 {
		if _, err := fmt.Fprintf(out, "group %s has no members\n", g.Group); err != nil {
			return err
		}
	}
	rows := [][]string{{"TOPIC", "PARTITION", "OWNER", "COMMITTED", "LAG", "WATERMARK", "LOG END"}}
	for _, p := range g.Partitions {
		row := append([]string{p.Topic, registry.Partition{Broker: p.BrokerID, Partition: p.Partition}.String()}, p.columns()...)
		row = append(row, numberOrNone(p.Watermark), numberOrNone(p.LogEnd))
		if p.Away {
			row[len(row)-2] = "broker is away"
			if p.Owner == nil {
				row[2] = "-"
			}
		}
		rows = append(rows, row)
	}
	if len(g.Partitions) > 0 {
		if err := table(out, rows); err != nil {
			return err
		}
	}
	if len(g.Members) == 0 {
		return nil
	}
	rows = [][]string{{"STREAM", "TOPIC", "PARTITIONS"}}
	for _, m := range g.Members {
		for _, s := range m.Streams {
			owned := "idle"
			if len(s.Partitions) > 0 {
				owned = strings.Join(s.Partitions, " ")
			}
			rows = append(rows, []string{s.Stream, s.Topic, owned})
		}
		if len(m.Streams) == 0 {
			wanted := m.Subscription
			if len(m.topics) > 0 {
				wanted = strings.Join(m.topics, " ")
			}
			rows = append(rows, []string{m.Consumer, wanted, "none: no such topic"})
		}
	}
	if len(g.Partitions) > 0 {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	return table(out, rows)
}

// notes says in words what is amiss: partitions that nobody reads, though there are
// members, and those that nobody can read.
func (g *groupState) notes() (notes []string) {
	var unowned, away []string
	for _, p := range g.Partitions {
		name := fmt.Sprintf("%s %d-%d", p.Topic, p.BrokerID, p.Partition)
		switch {
		case p.Away:
			away = append(away, name)
		case p.Owner == nil:
			unowned = append(unowned, name)
		}
	}
	tell := func(names []string, what string) {
		const most = 10
		if n := len(names); n > most {
			names = append(names[:most:most], "…")
		} else if n == 0 {
			return
		}
		notes = append(notes, fmt.Sprintf("group %s: %s: %s", g.Group, what, strings.Join(names, ", ")))
	}
	if len(g.Members) > 0 {
		tell(unowned, ofAll(len(unowned), len(g.Partitions), "has no owner", "have no owner"))
	}
	tell(away, ofAll(len(away), len(g.Partitions), "is at a broker that is not registered", "are at brokers that are not registered"))
	return notes
}

// ofAll says what is with some of all partitions.
func ofAll(some, all int, isOne, areMore string) string {
	what := areMore
	if some == 1 {
		what = isOne
	}
	return fmt.Sprintf("%d of %s %s", some, count(all, "partition"), what)
}
