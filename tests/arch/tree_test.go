package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluicemq/sluice"

// goPackage is one folder of the module with its parsed files outside tests.
type goPackage struct {
	path  string // relative to the module's root, "." for the root
	files map[string]*ast.File
	fset  *token.FileSet
}

// imports returns the module's own packages that p imports, as relative paths.
func (p *goPackage) imports() map[string]bool {
	own := map[string]bool{}
	for _, file := range p.files {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			if rest, ok := strings.CutPrefix(path, module+"/"); ok {
				own[rest] = true
			}
		}
	}
	return own
}

// loadTree parses every package of the main module below the root. Folders
// with a go.mod of their own (clients, oracles) are other modules.
func loadTree(t *testing.T) map[string]*goPackage {
	t.Helper()
	root := filepath.Join("..", "..")
	packages := map[string]*goPackage{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin" || name == "data") {
				return filepath.SkipDir
			}
			if path != root {
				if matches, _ := filepath.Glob(filepath.Join(path, "go.mod")); len(matches) > 0 {
					return filepath.SkipDir
				}
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		p := packages[relative]
		if p == nil {
			p = &goPackage{path: relative, files: map[string]*ast.File{}, fset: token.NewFileSet()}
			packages[relative] = p
		}
		file, err := parser.ParseFile(p.fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		p.files[path] = file
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 5 {
		t.Fatalf("found only %d packages below %s: the walk is broken", len(packages), root)
	}
	return packages
}

func (p *goPackage) position(node ast.Node) string { return p.fset.Position(node.Pos()).String() }
