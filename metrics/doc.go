// Package metrics is the HTTP side door of a broker: Prometheus figures,
// health, and profiles.
//
//	/metrics        figures in Prometheus' text format
//	/healthz        200 while the process can do its work, else 503 and why
//	/readyz         200 while it takes requests, else 503 and why
//	/debug/pprof/   Go profiles
//
// The figures themselves belong to the parts; broker registers them. Nothing
// here is needed to store or move a record, and nothing here changes any.
package metrics
