package diff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Options says what Check compares.
type Options struct {
	// Cases is a pattern for the names of the cases, as for path.Match; "" is all.
	Cases string
	// Meant has the differences that are no failures; nil has none.
	Meant *Meant
}

// Check plays the cases against the broker at addr, and reports every difference from Kafka's
// recorded answers as an error of the test, but for the meant ones.
func Check(t *testing.T, addr string, o Options) {
	t.Helper()
	b, err := meet(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Groups(o.Cases) {
		t.Run(g.Name, func(t *testing.T) {
			want, err := loadGolden(g.Name)
			if err != nil {
				t.Fatal(err)
			}
			var found []Difference
			played, meant := 0, 0
			for _, c := range g.Cases {
				for _, v := range c.versions(b) {
					lines, ok := want[c.Name][v]
					if !ok {
						continue // Kafka does not serve it; ApiVersions/table tells.
					}
					got, err := c.run(b, v)
					if err != nil {
						got = append(got, line{"script", err.Error()})
					}
					played++
					for _, d := range compare(c.Name, v, lines, got) {
						if o.Meant.Covers(d) {
							meant++
						} else {
							found = append(found, d)
						}
					}
				}
			}
			t.Logf("%d scripts played, %d fields differ as meant, %d otherwise", played, meant, len(found))
			for _, text := range Summary(found) {
				t.Error(text)
			}
		})
	}
}

// slow is how long a script may take before Record tells.
const slow = 3 * time.Second

// Record plays the cases against the broker at addr, which is Kafka, and writes the answers into
// the folder of golden files.
func Record(t *testing.T, addr, kafka, dir string, o Options) {
	t.Helper()
	b, err := meet(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Groups(o.Cases) {
		got := make(answers)
		for _, c := range g.Cases {
			got[c.Name] = make(map[int16][]line)
			for _, v := range c.versions(b) {
				before := time.Now()
				lines, err := c.run(b, v)
				if took := time.Since(before); took > slow {
					t.Logf("%s v%d took %v", c.Name, v, took)
				}
				if err != nil {
					t.Errorf("%s v%d: %v", c.Name, v, err)
				}
				got[c.Name][v] = lines
			}
		}
		if o.Cases != "" {
			// Only some were played: keep what is known about the others.
			old, err := loadGolden(g.Name)
			if err == nil {
				for name, byVersion := range old {
					if got[name] == nil {
						got[name] = byVersion
					}
				}
			}
			g = Groups("")[slices.IndexFunc(Groups(""), func(x Group) bool { return x.Name == g.Name })]
		}
		if err := saveGolden(dir, kafka, g, got); err != nil {
			t.Fatal(err)
		}
	}
}

// Summary tells the differences in lines for a person, those of several versions in one.
func Summary(ds []Difference) []string {
	type key struct{ name, field, want, got string }
	versions := make(map[key][]int16)
	var order []key
	for _, d := range ds {
		k := key{d.Case, d.Field, d.Want, d.Got}
		if versions[k] == nil {
			order = append(order, k)
		}
		versions[k] = append(versions[k], d.Version)
	}
	var out []string
	for _, k := range order {
		out = append(out, fmt.Sprintf("%s v%s: %s: Kafka %s, here %s",
			k.name, ranges(versions[k]), k.field, orNothing(k.want), orNothing(k.got)))
	}
	return out
}

func orNothing(s string) string {
	if s == "" {
		return "(not there)"
	}
	return s
}

func ranges(versions []int16) string {
	slices.Sort(versions)
	var parts []string
	for i := 0; i < len(versions); {
		j := i
		for j+1 < len(versions) && versions[j+1] == versions[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(versions[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", versions[i], versions[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
