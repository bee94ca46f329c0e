package consumer

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// CheckRegex says whether a member may subscribe to the pattern. Empty is no
// pattern, and in order.
func CheckRegex(pattern string) error {
	if len(pattern) > MaxRegexBytes {
		return kerr.New(kerr.InvalidRegularExpression, "pattern has %d bytes, at most %d are allowed", len(pattern), MaxRegexBytes)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return kerr.New(kerr.InvalidRegularExpression, "pattern %q: %v", pattern, err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return kerr.New(kerr.InvalidRegularExpression, "pattern %q: %v", pattern, err)
	}
	if n := len(program.Inst); n > maxRegexProgram {
		return kerr.New(kerr.InvalidRegularExpression, "pattern %q is too complex: it takes %d instructions, at most %d are allowed", pattern, n, maxRegexProgram)
	}
	return nil
}

// compile returns the pattern for whole names.
func compile(pattern string) (*regexp.Regexp, error) {
	// The pattern is parsed by itself first, so that none can close the bracket
	// that it is put into.
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + parsed.String() + `)\z`)
}

// Resolution finds the topics that patterns match. Run may be called by any
// goroutine.
type Resolution struct {
	patterns []string
	visible  func(topic string) bool
	version  uint64
	all      bool // of the group's patterns
	topics   [][]string
}

// Run looks at all topics.
func (r *Resolution) Run(topics Topics) {
	r.version = topics.Version()
	r.topics = make([][]string, len(r.patterns))
	compiled := make([]*regexp.Regexp, len(r.patterns))
	for i, p := range r.patterns {
		compiled[i], _ = compile(p) // CheckRegex has; what does not compile matches nothing
	}
	topics.Names(func(name string) bool {
		hidden, asked := false, false
		for i, re := range compiled {
			if re == nil || !re.MatchString(name) {
				continue
			}
			if !asked {
				asked = true
				hidden = r.visible != nil && !r.visible(name)
			}
			if !hidden {
				r.topics[i] = append(r.topics[i], name)
			}
		}
		return true
	})
	for i := range r.topics {
		slices.Sort(r.topics[i])
		r.topics[i] = slices.Compact(r.topics[i])
	}
}

// regexDue reports whether the patterns are to be resolved again, for changed
// topics or for changed permissions.
func (g *Group) regexDue(now time.Time) bool {
	if g.patterned == 0 || g.resolving {
		return false
	}
	if g.unresolved || g.resolved.IsZero() || !now.Before(g.resolved.Add(g.settings.RegexRefresh)) {
		return true
	}
	return g.resolvedFor != g.topics.Version() && !now.Before(g.resolved.Add(regexInterval))
}

// patterns forgets those that nobody subscribes to, and resolves those that are
// not resolved, or all when that is due. What a pattern matches depends on what
// the member who asks may know; so only a heartbeat sets it off.
func (d *draft) patterns(now time.Time, out *Output) {
	due := d.beaten != nil && d.g.regexDue(now)
	if !d.repatterned && !due {
		return
	}
	used := make(map[string]bool)
	var all, unresolved []string
	for _, m := range d.list() {
		if p := m.Info.Regex; p != "" && !used[p] {
			used[p] = true
			all = append(all, p)
			if d.regex(p) == nil {
				unresolved = append(unresolved, p)
			}
		}
	}
	for _, r := range d.base.Regexes {
		if !used[r.Pattern] {
			d.setRegex(r.Pattern, nil)
		}
	}
	for p := range d.regexes {
		if !used[p] {
			d.setRegex(p, nil)
		}
	}
	r := &Resolution{patterns: unresolved}
	if r.all = due && !d.g.unresolved; r.all {
		r.patterns = all
	}
	d.g.unresolved = len(unresolved) > 0 && (d.beaten == nil || d.g.resolving)
	if len(r.patterns) == 0 || d.g.unresolved {
		return
	}
	slices.Sort(r.patterns)
	r.visible = d.beaten.Visible
	if d.g.topics.Count() <= inlineNames {
		r.Run(d.g.topics)
		d.useResolution(now, r)
		return
	}
	d.g.resolving = true
	out.Resolution = r
}

// useResolution is the first step of a resolution.
func (d *draft) useResolution(now time.Time, r *Resolution) {
	g := d.g
	g.resolving = false
	d.repatterned = d.repatterned || g.unresolved
	if r.all || g.resolved.IsZero() {
		g.resolved, g.resolvedFor = now, r.version
	}
	for i, p := range r.patterns {
		old := d.regex(p)
		if old != nil && slices.Equal(old.Topics, r.topics[i]) || !d.uses(p) {
			continue
		}
		d.setRegex(p, &Regex{p, r.topics[i]})
		if old != nil || len(r.topics[i]) > 0 {
			d.bump, d.resubscribed = true, true
		}
		d.sizes = nil
	}
}

// uses reports whether a member subscribes to the pattern.
func (d *draft) uses(pattern string) bool {
	return slices.ContainsFunc(d.list(), func(m *Member) bool { return m.Info.Regex == pattern })
}

// Resolved hands over a resolution that was run.
func (g *Group) Resolved(now time.Time, r *Resolution, out *Output) { g.handle(now, r, out) }
