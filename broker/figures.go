package broker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluicemq/sluice/protocol/conn"
)

// figures are the metrics of a broker. Those of the log are counted as they
// come; what other parts count themselves is read when it is asked for. Labels
// are bounded: API names and kinds, never topics or clients.
type figures struct {
	registry *prometheus.Registry

	entries, appended, refused, stateFlushed, stateCompacted prometheus.Counter
	write, fsync, group                                      prometheus.Histogram
}

func newFigures(registry *prometheus.Registry) *figures {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		registry.MustRegister(h)
		return h
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	times := prometheus.ExponentialBuckets(0.0001, 2, 16) // 0.1 ms to 3.3 s
	return &figures{
		registry:       registry,
		entries:        counter("sluice_log_entries_total", "Entries appended to the CommitLog."),
		appended:       counter("sluice_log_appended_bytes_total", "Bytes appended to the CommitLog, entry headers included."),
		refused:        counter("sluice_log_refused_entries_total", "Entries refused for want of room, or of a working log."),
		stateFlushed:   counter("sluice_state_flushed_bytes_total", "Bytes of state written to disk by flushes."),
		stateCompacted: counter("sluice_state_compacted_bytes_total", "Bytes of state written to disk by compactions."),
		write:          histogram("sluice_log_write_seconds", "Duration of the write of a group of entries.", times),
		fsync:          histogram("sluice_log_fdatasync_seconds", "Duration of an fdatasync of the CommitLog.", times),
		group:          histogram("sluice_log_group_entries", "Entries written together.", prometheus.ExponentialBuckets(1, 2, 13)),
	}
}

// watch registers what is read from the parts when it is asked for.
func (f *figures) watch(b *Broker) {
	gauge := func(name, help string, read func() float64) {
		f.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	gauge("sluice_catalog_topics", "Topics.", func() float64 { n, _ := b.catalog.Count(); return float64(n) })
	gauge("sluice_catalog_partitions", "Partitions.", func() float64 { _, n := b.catalog.Count(); return float64(n) })
	gauge("sluice_producer_states", "Producers remembered for idempotence, per partition.", func() float64 { return float64(b.producers.Len()) })
	gauge("sluice_fetch_sessions", "Fetch sessions.", func() float64 { return float64(b.sessions.Stats().Sessions) })
	gauge("sluice_log_writable", "1 while records are accepted, else 0.", func() float64 {
		if b.log.Writable() != nil {
			return 0
		}
		return 1
	})
	gauge("sluice_log_segments", "Segments of the CommitLog.", func() float64 { return float64(b.log.Segments()) })
	gauge("sluice_log_durable_index", "Newest entry known to be durable.", func() float64 { return float64(b.log.Durable()) })
	gauge("sluice_log_applied_index", "Newest entry whose effects exist.", func() float64 { return float64(b.log.Applied()) })
	f.registry.MustRegister(requests{b}, groupFigures{b}, transactionFigures{b})
}

// requests collects what conn counts of connections and requests.
type requests struct{ *Broker }

var (
	openConnections     = prometheus.NewDesc("sluice_connections", "Open connections.", nil, nil)
	acceptedConnections = prometheus.NewDesc("sluice_connections_accepted_total", "Connections accepted.", nil, nil)
	refusedConnections  = prometheus.NewDesc("sluice_connections_refused_total", "Connections refused because there were too many.", nil, nil)
	closedConnections   = prometheus.NewDesc("sluice_connections_closed_total", "Connections closed by the broker, by reason.", []string{"kind"}, nil)
	queuedBytes         = prometheus.NewDesc("sluice_request_queued_bytes", "Bytes of requests in flight.", nil, nil)
	requestCount        = prometheus.NewDesc("sluice_requests_total", "Requests, by API.", []string{"api"}, nil)
	requestErrors       = prometheus.NewDesc("sluice_request_errors_total", "Requests that ended their connection, by API.", []string{"api"}, nil)
	requestsInFlight    = prometheus.NewDesc("sluice_requests_in_flight", "Requests without response yet, by API.", []string{"api"}, nil)
	requestBytes        = prometheus.NewDesc("sluice_request_bytes_total", "Bytes of requests, by API.", []string{"api"}, nil)
	responseBytes       = prometheus.NewDesc("sluice_response_bytes_total", "Bytes of responses, by API.", []string{"api"}, nil)
	requestSeconds      = prometheus.NewDesc("sluice_request_seconds", "Time from the complete request to the written response, by API.", []string{"api"}, nil)
)

// Describe implements prometheus.Collector.
func (requests) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openConnections, acceptedConnections, refusedConnections, closedConnections, queuedBytes,
		requestCount, requestErrors, requestsInFlight, requestBytes, responseBytes, requestSeconds} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (r requests) Collect(out chan<- prometheus.Metric) {
	stats := r.server.Stats()
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(openConnections, stats.Open.Load())
	counter(acceptedConnections, stats.Accepted.Load())
	counter(refusedConnections, stats.Refused.Load())
	counted, past := r.server.QueuedBytes()
	gauge(queuedBytes, counted+past)
	stats.Closed(func(kind string, n int64) { counter(closedConnections, n, kind) })
	for _, route := range r.routes.Table() {
		k, api := stats.Key(route.Key), route.Key.String()
		counter(requestCount, k.Requests.Load(), api)
		counter(requestErrors, k.Errors.Load(), api)
		gauge(requestsInFlight, k.InFlight.Load(), api)
		counter(requestBytes, k.BytesIn.Load(), api)
		counter(responseBytes, k.BytesOut.Load(), api)
		buckets := make(map[float64]uint64, conn.Buckets)
		var count uint64
		for i := range conn.Buckets {
			count += uint64(k.Latency.Bucket(i))
			if i < conn.Buckets-1 {
				buckets[conn.UpperBound(i).Seconds()] = count
			}
		}
		out <- prometheus.MustNewConstHistogram(requestSeconds, count, k.Latency.Sum().Seconds(), buckets, api)
	}
}
