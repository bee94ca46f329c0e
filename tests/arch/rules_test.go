package arch

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// clockPackages may read the clock or draw random numbers: the shells that
// own goroutines and sockets. Machines are handed the time instead.
var clockPackages = []string{"cmd/", "tests/", "broker", "group", "log", "log/commitlog", "protocol/conn", "txn", "metrics", "client",
	"log/vfs", "log/vfs/vfstest", "log/state"}

func mayReadClock(path string) bool {
	for _, allowed := range clockPackages {
		if path == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(path, allowed) {
			return true
		}
	}
	return false
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for path, p := range loadTree(t) {
		documented := false
		for _, file := range p.files {
			if file.Doc != nil {
				text := file.Doc.Text()
				if strings.HasPrefix(text, "Package "+file.Name.Name+" ") || strings.HasPrefix(text, "Command ") {
					documented = true
				}
			}
		}
		if !documented {
			t.Errorf("package %s has no package comment that begins with its name", path)
		}
	}
}

func TestMachinesTakeTimeAsAnArgument(t *testing.T) {
	forbidden := map[string]bool{"time.Now": true, "time.After": true, "time.AfterFunc": true, "time.NewTimer": true,
		"time.NewTicker": true, "time.Sleep": true, "time.Since": true, "rand.Int": true, "rand.Read": true, "rand.Uint64": true}
	for path, p := range loadTree(t) {
		if mayReadClock(path) {
			continue
		}
		for _, file := range p.files {
			ast.Inspect(file, func(node ast.Node) bool {
				selector, ok := node.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if left, ok := selector.X.(*ast.Ident); ok && forbidden[left.Name+"."+selector.Sel.Name] {
					t.Errorf("%s: %s.%s in a package that has no clock", p.position(node), left.Name, selector.Sel.Name)
				}
				return true
			})
		}
	}
}

// repanics are the functions that pass on a panic that was not theirs.
var repanics = map[string]bool{"log/consumequeue.fault": true}

func TestNothingRunsOnImportAndNothingPanics(t *testing.T) {
	for path, p := range loadTree(t) {
		for _, file := range p.files {
			function := ""
			ast.Inspect(file, func(node ast.Node) bool {
				switch n := node.(type) {
				case *ast.FuncDecl:
					function = path + "." + n.Name.Name
					if n.Recv == nil && n.Name.Name == "init" {
						t.Errorf("%s: package %s has an init function", p.position(n), path)
					}
				case *ast.CallExpr:
					if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "panic" && !repanics[function] && path != "internal/invariant" && !strings.HasPrefix(path, "tests/") && !strings.HasSuffix(path, "test") {
						t.Errorf("%s: panic outside internal/invariant", p.position(n))
					}
				}
				return true
			})
		}
	}
}

// TestNoPackageHoldsChangingState allows errors, tables and compiled constants
// at package level, but nothing with a lock, a channel or a pool in it.
func TestNoPackageHoldsChangingState(t *testing.T) {
	suspicious := []string{"sync.", "atomic.", "chan ", "prometheus.NewCounter", "prometheus.NewGauge", "prometheus.NewHistogram"}
	for path, p := range loadTree(t) {
		if strings.HasPrefix(path, "tests/") {
			continue
		}
		for _, file := range p.files {
			for _, decl := range file.Decls {
				general, ok := decl.(*ast.GenDecl)
				if !ok || general.Tok != token.VAR {
					continue
				}
				for _, spec := range general.Specs {
					value := spec.(*ast.ValueSpec)
					text := typeText(value.Type)
					for _, init := range value.Values {
						if literal, ok := init.(*ast.CompositeLit); ok {
							text += typeText(literal.Type)
						}
						if call, ok := init.(*ast.CallExpr); ok {
							text += typeText(call.Fun)
						}
					}
					for _, word := range suspicious {
						if strings.Contains(text, word) {
							t.Errorf("%s: package-level variable %s (%s) holds changing state", p.position(value), value.Names[0].Name, text)
						}
					}
				}
			}
		}
	}
}

func typeText(node ast.Expr) string {
	switch n := node.(type) {
	case *ast.SelectorExpr:
		return typeText(n.X) + "." + n.Sel.Name
	case *ast.Ident:
		return n.Name
	case *ast.ChanType:
		return "chan "
	case *ast.StarExpr:
		return typeText(n.X)
	case *ast.IndexExpr:
		return typeText(n.X)
	}
	return ""
}
