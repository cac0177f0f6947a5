package plots

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// checkHead looks at what both files begin with.
func checkHead(schema int, taken time.Time) error {
	if schema != DrawingsSchema {
		return fmt.Errorf("schema = %d: %d is known here", schema, DrawingsSchema)
	}
	if taken.IsZero() {
		return errors.New("taken is missing: when it was so")
	}
	return nil
}

func (t *Topology) check() error {
	if err := checkHead(t.Schema, t.Taken); err != nil {
		return err
	}
	if len(t.Clusters) == 0 || len(t.Clusters) > maxDrawn {
		return fmt.Errorf("%d clusters: from 1 to %d are wanted", len(t.Clusters), maxDrawn)
	}
	names := map[string]bool{}
	for _, c := range t.Clusters {
		if c.Name == "" || names[c.Name] {
			return fmt.Errorf("cluster %q: a name of its own is wanted", c.Name)
		}
		names[c.Name] = true
		if err := c.check(); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	for _, m := range t.Mirrors {
		if !names[m.From] || !names[m.To] || m.From == m.To || len(m.Topics) == 0 {
			return fmt.Errorf("mirror from %q to %q: two clusters that are here, and topics, are wanted", m.From, m.To)
		}
	}
	return nil
}

// placed is a partition of a topic at a broker.
type placed struct {
	topic  string
	broker int32
	number int32
}

func (c Cluster) check() error {
	if len(c.Brokers) == 0 || len(c.Brokers) > maxDrawn || len(c.Producers) > maxDrawn || len(c.Groups) > maxDrawn || len(c.Loads) > maxDrawn {
		return fmt.Errorf("%d brokers, %d producers, %d groups, %d loads: from 1 broker, and at most %d of each, are wanted", len(c.Brokers), len(c.Producers), len(c.Groups), len(c.Loads), maxDrawn)
	}
	known, ids, topics := map[placed]bool{}, map[int32]bool{}, map[string]bool{}
	for _, b := range c.Brokers {
		if b.ID < 0 || ids[b.ID] || len(b.Partitions) > maxDrawn {
			return fmt.Errorf("broker %d: an ID of its own from 0, and at most %d partitions, are wanted", b.ID, maxDrawn)
		}
		ids[b.ID] = true
		for _, p := range b.Partitions {
			at := placed{p.Topic, b.ID, p.Partition}
			if p.Topic == "" || p.Partition < 0 || known[at] {
				return fmt.Errorf("broker %d: partition %q-%d: a topic, and a number of its own from 0, are wanted", b.ID, p.Topic, p.Partition)
			}
			if p.First < 0 || p.Watermark < p.First || p.LogEnd < p.Watermark || p.Segments < 1 {
				return fmt.Errorf("broker %d: partition %s-%d: first offset %d, watermark %d, log end %d, %d segments cannot be", b.ID, p.Topic, p.Partition, p.First, p.Watermark, p.LogEnd, p.Segments)
			}
			known[at], topics[p.Topic] = true, true
		}
	}
	for _, p := range c.Producers {
		if p.Name == "" || len(p.Topics) == 0 {
			return fmt.Errorf("producer %q: a name and topics are wanted", p.Name)
		}
		for _, topic := range p.Topics {
			if !topics[topic] {
				return fmt.Errorf("producer %s: no broker has the topic %q", p.Name, topic)
			}
		}
	}
	for _, l := range c.Loads {
		if l.Name == "" || len(l.Topics) == 0 {
			return fmt.Errorf("load %q: a name and topics are wanted", l.Name)
		}
		for _, topic := range l.Topics {
			if !topics[topic] {
				return fmt.Errorf("load %s: no broker has the topic %q", l.Name, topic)
			}
		}
	}
	groups := map[string]bool{}
	for _, g := range c.Groups {
		if g.Name == "" || groups[g.Name] {
			return fmt.Errorf("group %q: a name of its own is wanted", g.Name)
		}
		groups[g.Name] = true
		if err := g.check(known); err != nil {
			return fmt.Errorf("group %s: %w", g.Name, err)
		}
	}
	return nil
}

func (g Group) check(known map[placed]bool) error {
	if len(g.Members) > maxDrawn || len(g.Partitions) > maxDrawn {
		return fmt.Errorf("%d members, %d partitions: at most %d of each are wanted", len(g.Members), len(g.Partitions), maxDrawn)
	}
	streams := map[string]bool{}
	for _, m := range g.Members {
		if m.Consumer == "" {
			return errors.New("a member without a name")
		}
		for _, s := range m.Streams {
			if s == "" || streams[s] {
				return fmt.Errorf("member %s: stream %q: a name of its own is wanted", m.Consumer, s)
			}
			streams[s] = true
		}
	}
	seen := map[placed]bool{}
	for _, p := range g.Partitions {
		at := placed{p.Topic, p.BrokerID, p.Partition}
		switch {
		case !known[at] || seen[at]:
			return fmt.Errorf("partition %s %d-%d: one that a broker here has, once, is wanted", p.Topic, p.BrokerID, p.Partition)
		case p.Owner != nil && !streams[*p.Owner]:
			return fmt.Errorf("partition %s %d-%d: its owner %q is no stream of a member", p.Topic, p.BrokerID, p.Partition, *p.Owner)
		case p.Committed != nil && *p.Committed < 0:
			return fmt.Errorf("partition %s %d-%d: committed offset %d cannot be", p.Topic, p.BrokerID, p.Partition, *p.Committed)
		}
		seen[at] = true
	}
	return nil
}

func (l *PartitionLog) check() error {
	if err := checkHead(l.Schema, l.Taken); err != nil {
		return err
	}
	if l.Broker == "" || l.Topic == "" || l.Partition < 0 || l.SegmentBytes <= 0 {
		return errors.New("broker, topic, partition and segment_bytes are wanted")
	}
	if len(l.Segments) == 0 || len(l.Segments) > maxDrawn || len(l.Bases) != len(l.Segments) {
		return fmt.Errorf("%d segments and %d base offsets: as many of both, from 1 to %d, are wanted", len(l.Segments), len(l.Bases), maxDrawn)
	}
	end := l.Segments[0].Base
	for i, s := range l.Segments {
		switch {
		case s.File == "" || strings.ContainsAny(s.File, `/\`):
			return fmt.Errorf("segment %q: the name of a file is wanted", s.File)
		case s.Base != l.Bases[i] || s.Base != end || s.Base < 0 || s.End < s.Base || s.Messages < 0:
			return fmt.Errorf("segment %s: base offset %d, end %d, where %d is the end of the one before and %d in the broker's list", s.File, s.Base, s.End, end, l.Bases[i])
		}
		end = s.End
		if err := s.checkShown(); err != nil {
			return fmt.Errorf("segment %s: %w", s.File, err)
		}
	}
	if l.Watermark < l.Segments[0].Base || l.Watermark > end {
		return fmt.Errorf("watermark %d: it lies outside of the log, from %d to %d", l.Watermark, l.Segments[0].Base, end)
	}
	return nil
}

func (s LogSegment) checkShown() error {
	if int64(len(s.Shown)) > s.Messages || len(s.Shown) > maxDrawn {
		return fmt.Errorf("%d of %d messages are shown", len(s.Shown), s.Messages)
	}
	at := s.Base
	for _, m := range s.Shown {
		if m.Offset < at || m.Next <= m.Offset || m.Next > s.End {
			return fmt.Errorf("message at %d, next at %d: not in order, or not within %d to %d", m.Offset, m.Next, s.Base, s.End)
		}
		at = m.Next
	}
	return nil
}
