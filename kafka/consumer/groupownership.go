package consumer

import (
	"cmp"
	"slices"
	"sync/atomic"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// ownership is a partition that this consumer has claimed.
type ownership struct {
	TopicPartition
	claim   registry.Claim
	session *coord.Session // that made the claim; its life is the lease
	stream  *GroupStream

	// These are changed by the goroutine that rebalances, under the group's lock.
	feed    *feed  // nil until the offset is known and the broker has an address
	addr    string // of the broker, that the feed has been told
	leaving bool   // the streams hand out nothing of it any more
	flushed bool   // OnRelease has been called
	failed  bool   // OnRelease has failed: nothing is to be committed
	leaveAt int64  // what was consumed before OnRelease
	before  int64  // byHand then

	lost  atomic.Bool  // the node is not ours any more, as a commit has found
	reset atomic.Int64 // the offset of a reset that is to be written; noOffset: none

	// committing is held, as a token, over a commit: one at a time for a partition.
	committing chan struct{}
	committed  atomic.Int64 // in ZooKeeper; noOffset: none. Changed with the token
	version    int32        // of the offset node. Of the token's holder
	doubtful   int64        // the offset of a commit without an answer; noOffset: none. Of the token's holder
	byHand     atomic.Int64 // commits by the application
}

// noOffset stands for an offset that is not there.
const noOffset = -1

func newOwnership(claim registry.Claim, s *coord.Session, stream *GroupStream) *ownership {
	o := &ownership{
		TopicPartition: TopicPartition{Topic: claim.Topic, Partition: claim.Partition},
		claim:          claim, session: s, stream: stream,
		committing: make(chan struct{}, 1),
		version:    registry.NoVersion,
		doubtful:   noOffset,
	}
	o.committed.Store(noOffset)
	o.reset.Store(noOffset)
	return o
}

// ownerships returns the partitions claimed, sorted by topic, broker and number.
func (g *Group) ownerships() []*ownership {
	g.mu.Lock()
	list := make([]*ownership, 0, len(g.owned))
	for _, o := range g.owned {
		list = append(list, o)
	}
	g.mu.Unlock()
	slices.SortFunc(list, func(a, b *ownership) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), a.Partition.Compare(b.Partition))
	})
	return list
}

// feedOf returns the feed of a partition, or nil.
func (g *Group) feedOf(o *ownership) *feed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return o.feed
}

// consumed returns the offset behind what the application is done with, or noOffset.
func (g *Group) consumed(o *ownership) int64 {
	if f := g.feedOf(o); f != nil {
		return f.consumed()
	}
	return noOffset
}
