package group

// Stats are figures of a coordinator.
type Stats struct {
	Groups     map[Life]int // by state
	Members    int
	Offsets    int   // committed, of all groups
	Held       int   // JoinGroup and SyncGroup requests that wait
	Rebalances int64 // that came to an end
	Commits    int64 // requests
	Refused    int64 // commit requests
	Expired    int64 // offsets forgotten
	Silent     int64 // members removed for their silence
}

// Stats returns the figures as they are. It looks at every group.
func (c *Coordinator) Stats() Stats {
	stats := Stats{
		Groups:     make(map[Life]int),
		Rebalances: c.rebalances.Load(), Commits: c.commits.Load(), Refused: c.refused.Load(),
		Expired: c.expired.Load(), Silent: c.silent.Load(),
	}
	for _, one := range c.List(nil, nil) {
		stats.Groups[one.State]++
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		stats.Members += s.members
		stats.Held += len(s.held)
		s.mu.Unlock()
	}
	_, stats.Offsets = c.state.offsets.Count()
	return stats
}
