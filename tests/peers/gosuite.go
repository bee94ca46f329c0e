package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goModule is a suite in a Go module. Its version is the one that tests/clients/go has.
type goModule struct {
	path string // of the module
	tags string // build tags
	// packages are folders in the module, each with what its tests mention, directly or in what
	// they call, if they need a broker: names, or parts of string constants.
	packages []goPackage
	env      []string // for the tests
}

type goPackage struct {
	dir   string
	roots []string
}

// fetch copies the module's source to dir, where it may be written to.
func (m goModule) fetch(ctx context.Context, s site) (src, version string, err error) {
	pins := filepath.Join(s.root, "tests", "clients", "go")
	if err := command(ctx, pins, nil, "go", "mod", "download", m.path); err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", m.path)
	cmd.Dir = pins
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("find %s: %w", m.path, err)
	}
	cached, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	src = filepath.Join(s.dir, "source")
	return src, version, os.CopyFS(src, os.DirFS(cached))
}

// build compiles the tests, and adds to the plan the steps that run those that need a broker.
func (m goModule) build(ctx context.Context, s site, src string, p *plan) error {
	for i, pkg := range m.packages {
		dir := filepath.Join(src, pkg.dir)
		binary := filepath.Join(s.dir, fmt.Sprintf("%d.test", i))
		// Some modules were released with a go.mod that is not tidy.
		if err := command(ctx, dir, nil, "go", "test", "-mod=mod", "-tags", m.tags, "-c", "-o", binary, "."); err != nil {
			return err
		}
		names, err := needBroker(dir, pkg.roots)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("no test in %s needs a broker", dir)
		}
		prefix := pkg.prefix()
		args := []string{"go", "tool", "test2json", "-p", prefix, binary, "-test.v=test2json",
			"-test.timeout", s.limit.String(), "-test.run", "^(" + strings.Join(names, "|") + ")$"}
		if skip := skipPattern(s.leave, prefix); skip != "" {
			args = append(args, "-test.skip", skip)
		}
		p.Steps = append(p.Steps, step{Dir: dir, Env: m.env, Args: args, Out: fmt.Sprintf("%d.json", i)})
	}
	return nil
}

// prefix stands before the names of the tests of all packages but the module's first.
func (g goPackage) prefix() string {
	if g.dir == "." || strings.HasPrefix(g.dir, "pkg/") || g.dir == "kafka" {
		return ""
	}
	return g.dir + "/"
}

// skipPattern makes of tests' names, which may hold "*", what -test.skip takes.
func skipPattern(tests []string, prefix string) string {
	var out []string
	for _, t := range tests {
		name, ok := strings.CutPrefix(t, prefix)
		if !ok || prefix == "" && !strings.HasPrefix(name, "Test") {
			continue
		}
		var levels []string
		for _, l := range strings.Split(name, "/") {
			levels = append(levels, "^"+strings.ReplaceAll(regexp.QuoteMeta(l), `\*`, ".*")+"$")
		}
		out = append(out, strings.Join(levels, "/"))
	}
	return strings.Join(out, "|")
}

// needBroker returns the names of the tests in dir that mention one of the roots, or call something
// in the package's tests that does.
func needBroker(dir string, roots []string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	uses := make(map[string][]string) // what each function mentions
	needs := make(map[string]bool)
	fset := token.NewFileSet()
	for _, file := range files {
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			ast.Inspect(fn, func(n ast.Node) bool {
				text := ""
				switch n := n.(type) {
				case *ast.Ident:
					text = n.Name
					uses[name] = append(uses[name], text)
				case *ast.BasicLit:
					text = n.Value
				}
				needs[name] = needs[name] || text != "" && slices.ContainsFunc(roots, func(r string) bool {
					return strings.Contains(text, r)
				})
				return true
			})
		}
	}
	for changed := true; changed; {
		changed = false
		for name, mentions := range uses {
			if !needs[name] && slices.ContainsFunc(mentions, func(m string) bool { return needs[m] }) {
				needs[name], changed = true, true
			}
		}
	}
	var out []string
	for name, yes := range needs {
		if yes && strings.HasPrefix(name, "Test") && name != "TestMain" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// said is a line that a test logged, with its place.
var said = regexp.MustCompile(`^\s+(?:\w+\.go:\d+: )(.*)`)

// read returns how each test ended that has no tests below it, or failed although none below did.
func (m goModule) read(dir string) ([]result, error) {
	var out []result
	for i := range m.packages {
		results, err := readTest2JSON(filepath.Join(dir, fmt.Sprintf("%d.json", i)), m.packages[i].prefix())
		if err != nil {
			return nil, err
		}
		out = append(out, results...)
	}
	return out, nil
}

func readTest2JSON(file, prefix string) ([]result, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	byName := make(map[string]*result)
	var order []string
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var e struct {
			Action, Test, Output string
			Elapsed              float64
		}
		// Lines that are not JSON come from what a test started.
		if json.Unmarshal(sc.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		r := byName[e.Test]
		if r == nil {
			r = &result{test: prefix + e.Test, outcome: fails, words: "it did not end"}
			byName[e.Test] = r
			order = append(order, e.Test)
		}
		switch e.Action {
		case "output":
			if m := said.FindStringSubmatch(e.Output); m != nil && strings.TrimSpace(m[1]) != "" {
				r.last = strings.TrimSpace(m[1])
			}
		case "pass":
			r.outcome, r.words = passes, ""
		case "skip":
			r.outcome, r.words = skips, r.last
		case "fail":
			r.outcome, r.words = fails, r.last
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	var out []result
	for _, name := range order {
		below, failed := false, false
		for other, r := range byName {
			if strings.HasPrefix(other, name+"/") {
				below, failed = true, failed || r.outcome == fails
			}
		}
		if r := byName[name]; !below || r.outcome == fails && !failed {
			out = append(out, *r)
		}
	}
	return out, nil
}
