package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// check says which texts a setting takes.
type check struct {
	expect string // completes the sentence "X is not ..."
	// canonical returns the one text that stands for the value. Spaces around
	// the text are already gone.
	canonical func(text string) (string, bool)
}

func boolean() check {
	return check{"true or false", func(s string) (string, bool) {
		s = strings.ToLower(s)
		return s, s == "true" || s == "false"
	}}
}

// onlyFalse is for a switch that turns on what Sluice does not have.
func onlyFalse(what string) check {
	return check{"false (" + what + ")", func(s string) (string, bool) {
		s = strings.ToLower(s)
		return s, s == "false"
	}}
}

// whole accepts the whole numbers from min to max.
func whole(min, max int64) check {
	expect := "a whole number"
	switch {
	case max == math.MaxInt64 || max == math.MaxInt32:
		expect += " of at least " + strconv.FormatInt(min, 10)
	default:
		expect += " from " + strconv.FormatInt(min, 10) + " to " + strconv.FormatInt(max, 10)
	}
	return check{expect, func(s string) (string, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < min || n > max {
			return "", false
		}
		return strconv.FormatInt(n, 10), true
	}}
}

func int32From(min int64) check { return whole(min, math.MaxInt32) }
func int64From(min int64) check { return whole(min, math.MaxInt64) }

// levels accepts the compression levels from min to max, and also the number
// that stands for the codec's own default.
func levels(min, max int64, also ...int64) check {
	c := whole(min, max)
	inner := c.canonical
	for _, n := range also {
		c.expect += " or " + strconv.FormatInt(n, 10)
	}
	c.canonical = func(s string) (string, bool) {
		for _, n := range also {
			if text := strconv.FormatInt(n, 10); s == text {
				return text, true
			}
		}
		return inner(s)
	}
	return c
}

func ratio() check {
	return check{"a number from 0 to 1", func(s string) (string, bool) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return "", false
		}
		text := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text, true
	}}
}

func oneOf(values ...string) check {
	return check{"one of " + strings.Join(values, ", "), func(s string) (string, bool) {
		return s, slices.Contains(values, s)
	}}
}

// listOf accepts a list, which may be empty, of some of the values. What occurs
// twice is kept once.
func listOf(values ...string) check {
	return check{"a list of " + strings.Join(values, ", "), func(s string) (string, bool) {
		items := splitList(s)
		for _, item := range items {
			if !slices.Contains(values, item) {
				return "", false
			}
		}
		return strings.Join(items, ","), true
	}}
}

// listWhere accepts a list of items that good accepts.
func listWhere(expect string, good func(item string) bool) check {
	return check{expect, func(s string) (string, bool) {
		items := splitList(s)
		for _, item := range items {
			if !good(item) {
				return "", false
			}
		}
		return strings.Join(items, ","), true
	}}
}

// throttledReplicas accepts "*" or a list of partition:node pairs.
func throttledReplicas() check {
	c := listWhere("* or a list of partition:node pairs", func(item string) bool {
		partition, node, ok := strings.Cut(item, ":")
		if !ok {
			return false
		}
		_, err1 := strconv.ParseUint(partition, 10, 31)
		_, err2 := strconv.ParseUint(node, 10, 31)
		return err1 == nil && err2 == nil
	})
	pairs := c.canonical
	c.canonical = func(s string) (string, bool) {
		if s == "*" {
			return s, true
		}
		return pairs(s)
	}
	return c
}

func text(expect string) check {
	return check{expect, func(s string) (string, bool) { return s, true }}
}

// splitList cuts a list at its commas, takes spaces off the items, and drops
// empty items and repetitions.
func splitList(s string) []string {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if item != "" && !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}
