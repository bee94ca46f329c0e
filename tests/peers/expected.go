package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// outcome is how a test ended, or what expected.txt says of it.
type outcome string

const (
	passes   outcome = "passes"
	fails    outcome = "fails"
	skips    outcome = "skips"
	leftOut  outcome = "left out"
	unsteady outcome = "unsteady"
)

// result is how one test ended.
type result struct {
	test    string
	outcome outcome
	words   string // why, in the test's own words
	last    string // the last line that it logged
}

// row is one line of expected.txt.
type row struct {
	suite, test string
	outcome     outcome
	why         string
	pattern     *regexp.Regexp
}

// loadExpected reads the tests that do not pass.
func loadExpected(file string) ([]row, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, line := range strings.Split(string(text), "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.SplitN(line, "|", 4)
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s:%d: want suite | test | outcome | why", file, i+1)
		}
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		r := row{suite: cells[0], test: cells[1], outcome: outcome(cells[2]), why: cells[3]}
		switch r.outcome {
		case fails, skips, leftOut, unsteady:
		default:
			return nil, fmt.Errorf("%s:%d: no outcome %q", file, i+1, r.outcome)
		}
		r.pattern, err = regexp.Compile("^" + strings.ReplaceAll(regexp.QuoteMeta(r.test), `\*`, ".*") + "$")
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}
