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
	visible  []func(topic string) bool // to who asked for the pattern; nil: all
	version  uint64
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
		for i, re := range compiled {
			if re != nil && re.MatchString(name) && (r.visible[i] == nil || r.visible[i](name)) {
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

// resolved says when a pattern was last resolved. After a restart that is not
// known; what the state has of it holds until somebody who subscribes to it is
// heard of.
type resolved struct {
	at      time.Time
	version uint64      // of the topics
	by      *Resolution // that is out; nil: none
}

// regexDue reports whether a pattern is to be resolved: for the first time, for
// changed topics, or for changed permissions.
func (g *Group) regexDue(pattern string, now time.Time) bool {
	if pattern == "" {
		return false
	}
	p, ok := g.patterns[pattern]
	switch {
	case !ok:
		return true
	case p.by != nil:
		return false
	case !now.Before(p.at.Add(g.settings.RegexRefresh)):
		return true
	}
	return p.version != g.topics.Version() && !now.Before(p.at.Add(regexInterval))
}

// ask notes that the pattern of a member that was heard of is to be resolved, if
// it is. What a pattern matches depends on what its subscribers may know of; so
// each is resolved for one of them.
func (d *draft) ask(pattern string, visible func(string) bool, now time.Time) {
	if d.asked == nil || !slices.Contains(d.asked.patterns, pattern) {
		if d.g.regexDue(pattern, now) {
			if d.asked == nil {
				d.asked = &Resolution{}
			}
			d.asked.patterns = append(d.asked.patterns, pattern)
			d.asked.visible = append(d.asked.visible, visible)
		}
	}
}

// resolve forgets patterns that nobody subscribes to, and resolves those that were
// asked for: at once if there are few topics.
func (d *draft) resolve(now time.Time, out *Output) {
	if d.repatterned {
		d.forgetPatterns()
	}
	r := d.asked
	if r == nil {
		return
	}
	d.g.patterns = orMake(d.g.patterns)
	if d.g.topics.Count() <= inlineNames {
		r.Run(d.g.topics)
		d.useResolution(now, r)
		return
	}
	for _, p := range r.patterns {
		d.g.patterns[p] = resolved{at: now, by: r}
	}
	out.Resolution = r
}

func (d *draft) forgetPatterns() {
	used := make(map[string]bool)
	for _, m := range d.list() {
		used[m.Info.Regex] = true
	}
	for _, r := range d.base.Regexes {
		if !used[r.Pattern] {
			d.setRegex(r.Pattern, nil)
			delete(d.g.patterns, r.Pattern)
		}
	}
}

// useResolution is the first step of a resolution that was handed in.
func (d *draft) useResolution(now time.Time, r *Resolution) {
	for i, p := range r.patterns {
		d.g.patterns[p] = resolved{at: now, version: r.version}
		old := d.regex(p)
		if old != nil && slices.Equal(old.Topics, r.topics[i]) || !d.uses(p) {
			continue
		}
		d.setRegex(p, &Regex{p, r.topics[i]})
		if old != nil || len(r.topics[i]) > 0 {
			d.bump, d.resubscribed = true, true
		}
	}
}

// uses reports whether a member subscribes to the pattern.
func (d *draft) uses(pattern string) bool {
	return slices.ContainsFunc(d.list(), func(m *Member) bool { return m.Info.Regex == pattern })
}

// askAgain lets patterns be resolved anew whose topics could not be written down.
func (d *draft) askAgain() {
	for p := range d.regexes {
		delete(d.g.patterns, p)
	}
}

// Resolved hands over a resolution that was run.
func (g *Group) Resolved(now time.Time, r *Resolution, out *Output) { g.handle(now, r, out) }
