// Package broker puts the parts of Sluice together: it serves Kafka's APIs over
// the catalog, the producers' state and the log, and holds no state or rule of
// its own.
//
// routes.go is the table of what is served. There is one file for each family
// of APIs; a handler decodes, makes one call into a part, and shapes the
// answer. appliers.go joins the parts to the apply loop, propose.go is how
// handlers ask for entries, broker.go starts and stops it all.
//
// Handlers run on the reader of their connection: what they do is done before
// the next request of that connection is looked at. Produce and Fetch return a
// promise and let the apply loop, or the arrival of records, resolve it.
package broker
