package diff

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
)

// Difference is one field in which two answers differ.
type Difference struct {
	Case    string
	Version int16
	// Field is the label of the request within the case, and the path of the field in its answer.
	Field string
	// Want and Got are the values in words; "" means that the field is not there, or has its
	// default.
	Want, Got string
}

// compare lists the fields in which two recordings of a case differ.
func compare(name string, version int16, want, got []line) []Difference {
	var out []Difference
	w, g := index(want), index(got)
	for _, at := range sortedKeys(w) {
		if g[at] != w[at] {
			out = append(out, Difference{name, version, at, w[at], g[at]})
		}
	}
	for _, at := range sortedKeys(g) {
		if _, ok := w[at]; !ok {
			out = append(out, Difference{name, version, at, "", g[at]})
		}
	}
	return out
}

// index maps paths to values; a path that occurs again gets a number.
func index(lines []line) map[string]string {
	m := make(map[string]string, len(lines))
	for _, l := range lines {
		at := l.path
		for n := 2; ; n++ {
			if _, taken := m[at]; !taken {
				break
			}
			at = fmt.Sprintf("%s #%d", l.path, n)
		}
		m[at] = l.value
	}
	return m
}

// Meant is the table of docs/differences.md: where Sluice answers differently on purpose.
type Meant struct {
	rows []meantRow
	mu   sync.Mutex
}

type meantRow struct {
	casePattern, fieldPattern string
	reason                    string
	used                      bool
}

// LoadMeant reads every table row whose first two cells are patterns in backquotes: the case, and
// the field. In both, * stands for any text, also with slashes and dots.
func LoadMeant(file string) (*Meant, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("diff: read the meant differences: %w", err)
	}
	m := new(Meant)
	for n, text := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(text, "| `") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "|"), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) < 3 || !quoted(cells[0]) || !quoted(cells[1]) {
			continue
		}
		row := meantRow{
			casePattern:  strings.Trim(cells[0], "`"),
			fieldPattern: strings.Trim(cells[1], "`"),
			reason:       cells[len(cells)-1],
		}
		if row.reason == "" {
			return nil, fmt.Errorf("%s:%d: a difference without a reason", file, n+1)
		}
		m.rows = append(m.rows, row)
	}
	return m, nil
}

func quoted(cell string) bool {
	return len(cell) > 2 && strings.HasPrefix(cell, "`") && strings.HasSuffix(cell, "`")
}

// Covers reports whether the table names a difference, and notes that the row is of use.
func (m *Meant) Covers(d Difference) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range m.rows {
		if match(r.casePattern, d.Case) && match(r.fieldPattern, d.Field) {
			m.rows[i].used = true
			return true
		}
	}
	return false
}

// Unused returns the rows that covered nothing: differences that are gone. Rows about clients are not
// among them: tests/clients/matrix reads those.
func (m *Meant) Unused() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, r := range m.rows {
		if !r.used && !strings.HasPrefix(r.casePattern, "client:") {
			out = append(out, r.casePattern+" "+r.fieldPattern)
		}
	}
	return out
}

// match is path.Match where * also crosses slashes, and brackets stand for themselves.
func match(pattern, text string) bool {
	flat := strings.NewReplacer("/", "\x01", "[", "\x02", "]", "\x03")
	ok, err := path.Match(flat.Replace(pattern), flat.Replace(text))
	return err == nil && ok
}
