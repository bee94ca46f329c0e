package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// transactionFigures collects what there is of transactions.
type transactionFigures struct{ *Broker }

var (
	transactionalIDs     = prometheus.NewDesc("sluice_transactional_ids", "Transactional ids that are remembered.", nil, nil)
	openTransactions     = prometheus.NewDesc("sluice_transactions_open", "Open transactions.", nil, nil)
	oldestTransaction    = prometheus.NewDesc("sluice_transactions_oldest_seconds", "Age of the oldest open transaction, 0 if there is none.", nil, nil)
	abortedTransactions  = prometheus.NewDesc("sluice_transactions_aborted_ranges", "Aborted transactions that are remembered, once for each partition.", nil, nil)
	timedOutTransactions = prometheus.NewDesc("sluice_transactions_timed_out_total", "Transactions aborted because they took too long.", nil, nil)
)

// Describe implements prometheus.Collector.
func (transactionFigures) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{transactionalIDs, openTransactions, oldestTransaction, abortedTransactions, timedOutTransactions} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (f transactionFigures) Collect(out chan<- prometheus.Metric) {
	s := f.txns.Stats()
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(transactionalIDs, float64(s.IDs))
	gauge(openTransactions, float64(s.Ongoing))
	oldest := 0.0
	if s.Ongoing > 0 {
		oldest = max(0, time.Since(s.Oldest.Go()).Seconds())
	}
	gauge(oldestTransaction, oldest)
	gauge(abortedTransactions, float64(s.Aborted))
	out <- prometheus.MustNewConstMetric(timedOutTransactions, prometheus.CounterValue, float64(f.timedOut.Load()))
}
