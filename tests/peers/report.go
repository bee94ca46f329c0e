package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// report is what came out of one suite.
type report struct {
	suite   suite
	version string
	took    time.Duration
	passed  []string
	listed  []entry  // tests that do not pass and are in expected.txt
	wrong   []string // what is not as expected.txt has it
}

// entry is a row of expected.txt with what it applied to.
type entry struct {
	row     row
	results []result
}

// judge compares results with what is expected.
func judge(s suite, results []result, rows []row, all bool) *report {
	r := &report{suite: s}
	for _, row := range rows {
		if row.suite == s.name {
			r.listed = append(r.listed, entry{row: row})
		}
	}
	slices.SortStableFunc(results, func(a, b result) int { return strings.Compare(a.test, b.test) })
	for _, x := range results {
		i := slices.IndexFunc(r.listed, func(e entry) bool { return e.row.pattern.MatchString(x.test) })
		if x.outcome == passes {
			r.passed = append(r.passed, x.test)
		}
		if i < 0 {
			if x.outcome != passes {
				r.wrong = append(r.wrong, fmt.Sprintf("%s %s: %s", x.test, x.outcome, x.words))
			}
			continue
		}
		r.listed[i].results = append(r.listed[i].results, x)
		if want := r.listed[i].row.outcome; want != x.outcome && want != unsteady && want != leftOut {
			r.wrong = append(r.wrong, fmt.Sprintf("%s %s, where expected.txt says that it %s: %s", x.test, x.outcome, want, x.words))
		}
	}
	for _, e := range r.listed {
		if len(e.results) == 0 && (e.row.outcome != leftOut || all) {
			r.wrong = append(r.wrong, fmt.Sprintf("%s is in expected.txt, but there is no such test", e.row.test))
		}
	}
	return r
}

func (r *report) count(o outcome) int {
	n := 0
	for _, e := range r.listed {
		if e.row.outcome == leftOut {
			if o == leftOut {
				n++
			}
			continue
		}
		for _, x := range e.results {
			if x.outcome == o {
				n++
			}
		}
	}
	return n
}

func (r *report) print(w io.Writer, against string) {
	fmt.Fprintf(w, "%s %s: %d pass, %d fail, %d skip, %d left out, %d not as expected, after %v\n", r.suite.name, r.version,
		len(r.passed), r.count(fails), r.count(skips), r.count(leftOut), len(r.wrong), r.took.Round(time.Second))
	for _, line := range r.wrong {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if against == "sluice" {
		return
	}
	for _, e := range r.listed {
		for _, x := range e.results {
			fmt.Fprintf(w, "  %s: %s %s\n", x.test, x.outcome, x.words)
		}
	}
}

const intro = `# Peers' own tests

Written by ` + "`go run ./tests/peers`" + ` from what came out and from ` + "`tests/peers/expected.txt`" + `; do not edit.
These are tests that the authors of Kafka clients wrote for their clients and ship with them, run against Sluice as they are.
Counted are tests without tests below them.

| suite | version | pass | fail | skip | left out |
| --- | --- | --- | --- | --- | --- |
`

// write makes the page for readers.
func write(file string, reports []*report) error {
	var b bytes.Buffer
	b.WriteString(intro)
	for _, r := range reports {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d |\n", r.suite.name, strings.TrimPrefix(r.version, "v"),
			len(r.passed), r.count(fails), r.count(skips), r.count(leftOut))
	}
	for _, r := range reports {
		fmt.Fprintf(&b, "\n## %s\n\nWhat is run: %s.\n\n| does not pass | how | why |\n| --- | --- | --- |\n", r.suite.name, r.suite.about)
		for _, e := range r.listed {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.row.test, e.row.outcome, e.row.why)
		}
		fmt.Fprintf(&b, "\nThese pass, with the number of tests below them: %s.\n", families(r.passed))
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// families names tests by the part before their first slash or bracket, with how many there are.
func families(tests []string) string {
	var names []string
	count := make(map[string]int)
	for _, t := range tests {
		name := t
		if i := strings.Index(name, "Test"); i >= 0 {
			if j := strings.IndexAny(name[i:], "/["); j >= 0 {
				name = name[:i+j]
			}
		} else if j := strings.IndexByte(name, '['); j >= 0 {
			name = name[:j]
		}
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	for i, n := range names {
		names[i] = "`" + n + "`"
		if count[n] > 1 {
			names[i] += fmt.Sprintf(" (%d)", count[n])
		}
	}
	return strings.Join(names, ", ")
}
