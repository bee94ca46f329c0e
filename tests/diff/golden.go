package diff

import (
	"bufio"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed all:golden
var goldenFiles embed.FS

// answers maps a case's name and version to what was recorded.
type answers map[string]map[int16][]line

// loadGolden reads the answers of Apache Kafka for one group.
func loadGolden(group string) (answers, error) {
	b, err := goldenFiles.ReadFile("golden/" + group + ".txt")
	if err != nil {
		return nil, fmt.Errorf("diff: no recorded answers for %s: %w", group, err)
	}
	return parseGolden(group, string(b))
}

func parseGolden(group, text string) (answers, error) {
	out := make(answers)
	var name string
	var versions []int16
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		text := sc.Text()
		switch {
		case text == "", strings.HasPrefix(text, "#"):
		case strings.HasPrefix(text, "case "):
			name, versions = strings.TrimPrefix(text, "case "), nil
			out[name] = make(map[int16][]line)
		case strings.HasPrefix(text, "versions "):
			lo, hi, err := parseRange(strings.TrimPrefix(text, "versions "))
			if err != nil || name == "" {
				return nil, fmt.Errorf("diff: golden/%s.txt:%d: %q", group, n, text)
			}
			versions = nil
			for v := lo; v <= hi; v++ {
				versions = append(versions, v)
				out[name][v] = []line{}
			}
		default:
			at, value, ok := strings.Cut(strings.TrimPrefix(text, "  "), " = ")
			if !ok || len(versions) == 0 {
				return nil, fmt.Errorf("diff: golden/%s.txt:%d: %q", group, n, text)
			}
			for _, v := range versions {
				out[name][v] = append(out[name][v], line{at, value})
			}
		}
	}
	return out, nil
}

func parseRange(text string) (lo, hi int16, err error) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		b = a
	}
	x, err := strconv.ParseInt(a, 10, 16)
	if err != nil {
		return 0, 0, err
	}
	y, err := strconv.ParseInt(b, 10, 16)
	return int16(x), int16(y), err
}

// saveGolden writes the answers of one group into the source tree. Neighbouring versions with the
// same answers share a block.
func saveGolden(dir, kafka string, g Group, got answers) error {
	var w strings.Builder
	fmt.Fprintf(&w, "# Answers of Apache Kafka %s. Recorded, not written: see tests/diff/doc.go.\n", kafka)
	for _, c := range g.Cases {
		fmt.Fprintf(&w, "\ncase %s\n", c.Name)
		var versions []int16
		for v := range got[c.Name] {
			versions = append(versions, v)
		}
		slices.Sort(versions)
		for i := 0; i < len(versions); {
			j := i
			for j+1 < len(versions) && slices.Equal(got[c.Name][versions[i]], got[c.Name][versions[j+1]]) {
				j++
			}
			if i == j {
				fmt.Fprintf(&w, "versions %d\n", versions[i])
			} else {
				fmt.Fprintf(&w, "versions %d-%d\n", versions[i], versions[j])
			}
			for _, l := range got[c.Name][versions[i]] {
				fmt.Fprintf(&w, "  %s = %s\n", l.path, l.value)
			}
			i = j + 1
		}
	}
	return os.WriteFile(filepath.Join(dir, g.Name+".txt"), []byte(w.String()), 0o644)
}
