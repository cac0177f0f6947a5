package producer

// ClusterStats counts what a cluster has done since it was made. At any time
// Sent = Delivered + Dropped + Failed + Pending, and Pending is 0 after Close.
type ClusterStats struct {
	Stats         // of all its producers, also those that are no more, and what reached none
	Pending int64 // messages that were taken and are not settled yet
	Moved   int64 // messages that went from one broker's producer to others, each time
	Brokers int   // that are registered, or listed
	// Producers counts those that there are, those included whose brokers have gone
	// and that are being closed.
	Producers int
}

// tally sums what producers count.
type tally struct {
	stats                   Stats
	held, movedIn, movedOut int64
}

// add adds a producer's. Its mu is held.
func (t *tally) add(p *Producer) {
	s := &p.stats
	t.stats.Sent += s.Sent
	t.stats.Delivered += s.Delivered
	t.stats.Dropped += s.Dropped
	t.stats.Failed += s.Failed
	t.stats.Bytes += s.Bytes
	t.stats.Requests += s.Requests
	t.stats.RequestBytes += s.RequestBytes
	t.stats.Writes += s.Writes
	t.stats.Connects += s.Connects
	t.held += p.held()
	t.movedIn += p.movedIn
	t.movedOut += p.movedOut
}

// Stats returns the counts so far: all of one moment.
func (c *Cluster) Stats() ClusterStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	producers := c.producers()
	for p := range c.retiring {
		producers = append(producers, p)
	}
	// Nobody else holds the mu of two producers, unless with that of the cluster.
	sum := c.ended
	for _, p := range producers {
		p.mu.Lock()
	}
	for _, p := range producers {
		sum.add(p)
	}
	refused, dropped := c.refused.Load(), c.dropped.Load()
	for _, p := range producers {
		p.mu.Unlock()
	}
	st := ClusterStats{Stats: sum.stats, Moved: sum.movedOut, Brokers: len(c.members), Producers: len(producers)}
	st.Sent += refused + dropped
	st.Failed += refused + c.lost
	st.Dropped += dropped
	st.Pending = sum.held + sum.movedOut - sum.movedIn - c.lost
	return st
}
