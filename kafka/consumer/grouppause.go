package consumer

import "kafkalab/kafka/registry"

// Pause keeps a partition that this consumer owns from being handed out: from its
// return on no stream gives messages or an error of it, until [Group.Resume]. What
// the application has in hand stays there; the partition is owned as before, and at
// most one pull of it waits in memory. It is for an application that passes messages
// on and cannot get rid of those of one partition: its others go on meanwhile, but for
// messages larger than a pull may be while the one that waits is such a message too.
//
// A pause ends with the ownership. The error is [registry.ErrNotOwner] where the
// partition is not owned, or not read yet.
func (g *Group) Pause(topic string, p registry.Partition) error {
	return g.setPaused(topic, p, true)
}

// Resume ends a pause. Of a partition that is not paused it changes nothing.
func (g *Group) Resume(topic string, p registry.Partition) error {
	return g.setPaused(topic, p, false)
}

func (g *Group) setPaused(topic string, p registry.Partition, paused bool) error {
	f, err := g.feedToChange("pause or resume", TopicPartition{Topic: topic, Partition: p})
	if err == nil {
		f.setPaused(paused)
	}
	return err
}

// Holds reports whether this consumer holds the lease on a partition at this moment:
// it owns it, is not giving it up, and its session has been proven to live within its
// time-out. An application that keeps messages after they were handed out, and does
// with them what only the owner may do, asks before it does.
func (g *Group) Holds(topic string, p registry.Partition) bool {
	g.mu.Lock()
	o := g.owned[TopicPartition{Topic: topic, Partition: p}]
	holds := o != nil && !o.leaving
	g.mu.Unlock()
	return holds && !o.lost.Load() && o.session.Valid()
}

// setPaused keeps the feed out of what its stream hands out, or lets it in again.
func (f *feed) setPaused(paused bool) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	if f.revoked || f.paused == paused {
		return
	}
	f.paused = paused
	if paused {
		f.to.setAside(f)
	} else if f.chunk || f.err != nil {
		f.to.enqueue(f)
	}
}
