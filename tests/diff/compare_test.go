package diff

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCompareNamesEveryFieldThatDiffers(t *testing.T) {
	want := []line{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"c", "3"}}
	got := []line{{"a", "1"}, {"b", "9"}, {"c", "3"}, {"d", "4"}}
	var fields []string
	for _, d := range compare("X/y", 3, want, got) {
		fields = append(fields, d.Field+": "+d.Want+" -> "+d.Got)
	}
	if want := []string{"b: 2 -> 9", "c #2: 3 -> ", "d:  -> 4"}; !slices.Equal(fields, want) {
		t.Errorf("got %q, want %q", fields, want)
	}
}

func TestMeantDifferencesCoverByPattern(t *testing.T) {
	file := filepath.Join(t.TempDir(), "differences.md")
	table := "text\n\n| case | field | why |\n| --- | --- | --- |\n" +
		"| `Produce/*` | `answer.Topics[T0].*.ErrorCode` | Because. |\n| `Fetch/x` | `*` | Never seen. |\n"
	if err := os.WriteFile(file, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := LoadMeant(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, field string
		want        bool
	}{
		{"Produce/a", "answer.Topics[T0].Partitions[0].ErrorCode", true},
		{"Produce/a", "answer.Topics[T0].Partitions[0].BaseOffset", false},
		{"Fetch/a", "answer.Topics[T0].Partitions[0].ErrorCode", false},
	} {
		if got := m.Covers(Difference{Case: c.name, Field: c.field}); got != c.want {
			t.Errorf("Covers(%s %s) = %v", c.name, c.field, got)
		}
	}
	if got := m.Unused(); !slices.Equal(got, []string{"Fetch/x *"}) {
		t.Errorf("unused: %q", got)
	}
}

func TestMeantDifferenceNeedsAReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "differences.md")
	if err := os.WriteFile(file, []byte("| `A/b` | `c` |  |\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadMeant(file); err == nil {
		t.Error("a row without a reason was taken")
	}
}

func TestGoldenFilesReadBackAsWritten(t *testing.T) {
	dir := t.TempDir()
	g := Group{Name: "G", Cases: []Case{{Name: "G/a"}}}
	got := answers{"G/a": {
		1: {{"x", "1 = 2"}, {"x.y", `""`}}, 2: {{"x", "1 = 2"}, {"x.y", `""`}}, 4: {},
	}}
	if err := saveGolden(dir, "0", g, got); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "G.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "x.y"); n != 1 {
		t.Errorf("versions with the same answers do not share a block:\n%s", b)
	}
	back, err := parseGolden("G", string(b))
	if err != nil {
		t.Fatal(err)
	}
	for v, lines := range got["G/a"] {
		if !slices.Equal(back["G/a"][v], lines) {
			t.Errorf("version %d: %v, want %v", v, back["G/a"][v], lines)
		}
	}
}

func TestCaseNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, g := range Groups("") {
		for _, c := range g.Cases {
			if seen[c.Name] {
				t.Errorf("%s is there twice", c.Name)
			}
			seen[c.Name] = true
		}
	}
}

func TestEveryCaseIsRecorded(t *testing.T) {
	for _, g := range Groups("") {
		golden, err := loadGolden(g.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, c := range g.Cases {
			if len(golden[c.Name]) == 0 {
				t.Errorf("%s has no recorded answer", c.Name)
			}
		}
	}
}
