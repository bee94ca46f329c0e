package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"github.com/sluicemq/sluice/catalog/config"
)

// Places are where settings are read from.
type Places struct {
	File    string   // path of a YAML file; empty: none
	Environ []string // NAME=value, as from os.Environ
	Set     []string // name=value; of the same name the last counts
}

// Loaded is the outcome of Load.
type Loaded struct {
	Broker *config.Broker
	// From says for each setting that was given where, as in "sluice.yaml",
	// "SLUICE_LOG_LEVEL" or "--set".
	From map[string]string
}

// Load reads the settings. The error has one line for each mistake, which names
// the place, the setting and what was expected.
func Load(p Places) (*Loaded, error) {
	l := &loader{values: make(config.Values), from: make(map[string]string)}
	if p.File != "" {
		l.file(p.File)
	}
	l.environ(p.Environ)
	l.set(p.Set)
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	broker, err := config.NewBroker(l.values)
	if err != nil {
		return nil, l.placed(err)
	}
	return &Loaded{Broker: broker, From: l.from}, nil
}

// loader collects what the places give.
type loader struct {
	values config.Values
	from   map[string]string
	errs   []error
}

func (l *loader) fail(place, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s: "+format, append([]any{place}, args...)...))
}

// give checks a value and takes it.
func (l *loader) give(place, name, value string) {
	text, err := config.CheckStatic(name, value)
	if err != nil {
		l.fail(place, "%w", err)
		return
	}
	l.values[name] = text
	l.from[name] = place
}

// placed adds to errors about settings that are wrong together where the named
// one was given.
func (l *loader) placed(err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for i, one := range all {
		var s *config.SettingError
		if errors.As(one, &s) && l.from[s.Name] != "" {
			all[i] = fmt.Errorf("%s: %w", l.from[s.Name], one)
		}
	}
	return errors.Join(all...)
}

// nested stands between the keys of nested maps, so that a flat name, with its
// dots, is kept apart from them until both have been seen.
const nested = "\x00"

func (l *loader) file(path string) {
	k := koanf.New(nested)
	if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
		l.errs = append(l.errs, fmt.Errorf("read the configuration file %s: %w", path, err))
		return
	}
	flat := k.All()
	seen := make(map[string]bool, len(flat))
	for _, key := range slices.Sorted(maps.Keys(flat)) {
		name := strings.ReplaceAll(key, nested, ".")
		if seen[name] {
			l.fail(path, "%s: is given twice", name)
			continue
		}
		seen[name] = true
		value, err := textOf(flat[key])
		if err != nil {
			l.fail(path, "%s: %w", name, err)
			continue
		}
		l.give(path, name, value)
	}
}

// textOf returns a YAML value as the text that the tables check.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			text, err := textOf(item)
			if err != nil {
				return "", err
			}
			items[i] = text
		}
		return strings.Join(items, ","), nil
	case nil:
		return "", errors.New("has no value")
	case map[string]any:
		return "", errors.New("is an empty map, expected a value")
	}
	return "", fmt.Errorf("has a value of a kind that no setting takes (%T)", value)
}

const prefix = "SLUICE_"

// variableOf returns the environment variable of a setting.
func variableOf(name string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// serviceVariable matches the variables that Kubernetes sets in every pod for a
// service called sluice.
var serviceVariable = regexp.MustCompile(`^SLUICE_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

func (l *loader) environ(environ []string) {
	k := koanf.New(nested)
	err := k.Load(env.Provider("", env.Opt{
		Prefix:      prefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(variable, value string) (string, any) {
			if variable == prefix+"CONFIG" || serviceVariable.MatchString(variable) {
				return "", nil
			}
			return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, prefix), "_", ".")), value
		},
	}), nil)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read the environment: %w", err))
		return
	}
	flat := k.All()
	for _, name := range slices.Sorted(maps.Keys(flat)) {
		value, _ := flat[name].(string)
		l.give(variableOf(name), name, value)
	}
}

func (l *loader) set(settings []string) {
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			l.fail("--set", "%q is not name=value", s)
			continue
		}
		l.give("--set", strings.TrimSpace(name), value)
	}
}
