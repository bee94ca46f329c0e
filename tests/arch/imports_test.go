package arch

import (
	"sort"
	"strings"
	"testing"
)

// mayImport is the table of docs/architecture.md: what of Sluice's own each
// package may import. A name ending in "/" stands for everything below it.
// Tests and the folder tests/ are free.
var mayImport = map[string][]string{
	"protocol/kerr":  {},
	"log/entry":      {},
	"protocol/batch": {"protocol/kerr"},
	"protocol/frame": {"protocol/kerr"},
	"protocol":       {"protocol/frame", "protocol/kerr"},
	"protocol/conn":  {"protocol", "protocol/frame", "protocol/kerr"},

	"log/vfs":          {},
	"log/vfs/vfstest":  {"log/vfs"},
	"log/segment":      {"log/vfs", "log/entry"},
	"log/commitlog":    {"log/segment", "log/vfs", "log/entry"},
	"log/consumequeue": {"log/vfs", "log/entry", "protocol/batch"},
	"log/state":        {"log/vfs", "log/entry"},
	"log/watch":        {"log/entry"},
	"log/retain":       {"log/entry", "log/consumequeue"},
	"log/apply": {"log/commitlog", "log/consumequeue", "log/state", "log/watch", "log/segment", "log/vfs",
		"log/entry", "protocol/batch", "protocol/kerr"},
	"log": {"log/", "protocol/batch", "protocol/kerr"},

	"catalog":        {"catalog/config", "log/entry", "protocol/kerr"},
	"catalog/config": {"protocol/kerr"},
	"txn/":           {"txn/", "log/entry", "protocol/kerr"},
	"group/":         {"group/", "log/entry", "protocol/kerr"},
	"scheduler/":     {"scheduler/", "log/entry", "protocol/kerr"},
	"filter":         {"protocol/kerr"},
	"metrics":        {},

	"broker/fetchsession": {"protocol/kerr", "log/entry"},
	"broker/fetchwire":    {"protocol/kerr", "log/entry"},
	"broker": {"broker/", "protocol/", "protocol", "log/", "log", "catalog", "catalog/config", "txn/", "txn", "group/", "group",
		"scheduler/", "scheduler", "filter", "security", "metrics"},

	"cmd/":   {"*"},
	"tests/": {"*"},
}

// allowedFor returns the rule of a package: its own, or that of the nearest
// folder above it that has one ending in "/".
func allowedFor(path string) ([]string, bool) {
	if rule, ok := mayImport[path]; ok {
		return rule, true
	}
	best := ""
	for prefix := range mayImport {
		if strings.HasSuffix(prefix, "/") && (strings.HasPrefix(path, prefix) || path+"/" == prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	rule, ok := mayImport[best]
	return rule, ok
}

func permits(rule []string, imported string) bool {
	for _, allowed := range rule {
		if allowed == "*" || allowed == imported || strings.HasSuffix(allowed, "/") && strings.HasPrefix(imported, allowed) {
			return true
		}
	}
	return false
}

func TestImportsGoDownOnly(t *testing.T) {
	for path, p := range loadTree(t) {
		rule, known := allowedFor(path)
		if !known {
			t.Errorf("package %s has no line in the import table of tests/arch", path)
			continue
		}
		var wrong []string
		for imported := range p.imports() {
			if !permits(rule, imported) {
				wrong = append(wrong, imported)
			}
		}
		sort.Strings(wrong)
		if len(wrong) > 0 {
			t.Errorf("package %s must not import %s", path, strings.Join(wrong, ", "))
		}
	}
}
