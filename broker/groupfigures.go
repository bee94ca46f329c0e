package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/group"
)

// groupFigures collects what the coordinator counts of groups.
type groupFigures struct{ *Broker }

var (
	groupCount        = prometheus.NewDesc("sluice_groups", "Groups, by state.", []string{"state"}, nil)
	groupMembers      = prometheus.NewDesc("sluice_group_members", "Members of all groups.", nil, nil)
	groupHeld         = prometheus.NewDesc("sluice_group_held_requests", "JoinGroup and SyncGroup requests that wait for others.", nil, nil)
	groupOffsets      = prometheus.NewDesc("sluice_group_offsets", "Committed offsets, of all groups.", nil, nil)
	groupRebalances   = prometheus.NewDesc("sluice_group_rebalances_total", "Rebalances: of classic groups those that came to an end, of others those that began.", nil, nil)
	groupSilent       = prometheus.NewDesc("sluice_group_expired_members_total", "Members removed because they were silent for too long.", nil, nil)
	groupCommits      = prometheus.NewDesc("sluice_group_commits_total", "OffsetCommit requests that were carried out.", nil, nil)
	groupRefused      = prometheus.NewDesc("sluice_group_refused_commits_total", "OffsetCommit requests that were refused as a whole.", nil, nil)
	groupExpired      = prometheus.NewDesc("sluice_group_expired_offsets_total", "Committed offsets forgotten because nobody used them for too long.", nil, nil)
	groupFiguresDescs = []*prometheus.Desc{groupCount, groupMembers, groupHeld, groupOffsets, groupRebalances, groupSilent, groupCommits,
		groupRefused, groupExpired}
)

// Describe implements prometheus.Collector.
func (groupFigures) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range groupFiguresDescs {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (g groupFigures) Collect(out chan<- prometheus.Metric) {
	stats := g.groups.Stats()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	counter := func(d *prometheus.Desc, n int64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	for _, state := range group.Lives() {
		gauge(groupCount, stats.Groups[state], state.String())
	}
	gauge(groupMembers, stats.Members)
	gauge(groupHeld, stats.Held)
	gauge(groupOffsets, stats.Offsets)
	counter(groupRebalances, stats.Rebalances)
	counter(groupSilent, stats.Silent)
	counter(groupCommits, stats.Commits)
	counter(groupRefused, stats.Refused)
	counter(groupExpired, stats.Expired)
}
