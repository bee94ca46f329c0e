package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/sluicemq/sluice/tests/diff"
)

type cellKey struct{ client, scenario string }

// table holds the results of a run. Its methods may be called by several goroutines at once.
type table struct {
	kafka, second string
	clients       []string

	mu    sync.Mutex
	cells map[cellKey][2]result // guarded by mu: Kafka's, and the other's
}

func (t *table) put(client, scenario string, side int, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.cells[cellKey{client, scenario}]
	c[side] = r
	t.cells[cellKey{client, scenario}] = c
}

// The verdicts of a cell.
const (
	same      = "same"
	differs   = "**differs**"
	asMeant   = "as meant"
	notServed = "**not served**"
	neither   = "fails on Kafka too"
	noSuch    = "–"
)

func (t *table) verdict(client, scenario string, meant *diff.Meant) string {
	c, ok := t.cells[cellKey{client, scenario}]
	if !ok {
		return noSuch
	}
	kafka, here := c[0], c[1]
	switch {
	case kafka.status == "n/a" && here.status == "n/a":
		return noSuch
	case kafka.status == here.status && kafka.text == here.text:
		if kafka.status == "fail" {
			return neither
		}
		return same
	case meant.Covers(diff.Difference{Case: "client:" + client + "/" + scenario, Field: "result"}):
		return asMeant
	case here.status == "fail" && strings.Contains(here.text, "UNSUPPORTED_VERSION"):
		return notServed
	default:
		return differs
	}
}

// print tells what is not the same, and reports whether anything differs that is not meant to.
func (t *table) print(w io.Writer, meant *diff.Meant) bool {
	counts := make(map[string]int)
	bad := false
	for _, client := range t.clients {
		for _, sc := range scenarios {
			v := t.verdict(client, sc.name, meant)
			counts[v]++
			c := t.cells[cellKey{client, sc.name}]
			switch v {
			case differs, notServed:
				bad = true
				fmt.Fprintf(w, "%s | %s\n  Kafka: %s %s\n  %s: %s %s\n",
					client, sc.name, c[0].status, c[0].text, t.second, c[1].status, c[1].text)
			case neither:
				fmt.Fprintf(w, "%s | %s fails on both: %s\n", client, sc.name, c[0].text)
			}
		}
	}
	fmt.Fprintf(w, "%d same, %d as meant, %d differ, %d not served, %d fail on Kafka too, %d not applicable\n",
		counts[same], counts[asMeant], counts[differs], counts[notServed], counts[neither], counts[noSuch])
	return bad
}

// write writes the table for people to read.
func (t *table) write(file string, meant *diff.Meant) error {
	var w strings.Builder
	fmt.Fprintf(&w, "# Clients\n\nWritten by `go run ./tests/clients/matrix`; do not edit. Every client does every scenario against\n"+
		"Apache Kafka %s and against Sluice, and what it reports is compared.\n\n"+
		"- *same*: the client gets the same result, values, offsets and error codes included.\n"+
		"- *as meant*: it differs where `differences.md` says so.\n"+
		"- *differs*, *not served*: it does not, and should.\n"+
		"- *fails on Kafka too*: this client cannot do it with either.\n"+
		"- –: the client has no such operation.\n\n", t.kafka)
	fmt.Fprintf(&w, "| scenario | %s |\n| --- |%s\n", strings.Join(t.clients, " | "), strings.Repeat(" --- |", len(t.clients)))
	for _, sc := range scenarios {
		fmt.Fprintf(&w, "| %s: %s |", sc.name, sc.what)
		for _, client := range t.clients {
			fmt.Fprintf(&w, " %s |", t.verdict(client, sc.name, meant))
		}
		fmt.Fprintln(&w)
	}
	return os.WriteFile(file, []byte(w.String()), 0o644)
}
