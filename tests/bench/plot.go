package main

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
)

// plot draws the medians of one figure as bars, a group for each workload that
// has it, and returns an SVG picture.
func (r *results) plot(figure string) string {
	const (
		width, bar, gap, left, right = 900, 16, 14, 260, 90
	)
	colours := []string{"#1b6ca8", "#7fb3d5", "#b5651d", "#e0b084", "#777777"}
	type row struct {
		workload, broker string
		value            float64
		colour           string
		first            bool
	}
	var rows []row
	largest := 0.0
	colourOf := map[string]string{}
	for _, w := range r.workloads {
		first := true
		for _, broker := range slices.Sorted(maps.Keys(r.values[w])) {
			values := r.values[w][broker][figure]
			if len(values) == 0 {
				continue
			}
			if colourOf[broker] == "" {
				colourOf[broker] = colours[len(colourOf)%len(colours)]
			}
			v := median(values)
			largest = max(largest, v)
			rows = append(rows, row{w, broker, v, colourOf[broker], first})
			first = false
		}
	}
	var b strings.Builder
	y := 40
	for _, row := range rows {
		if row.first {
			y += gap
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-8, y+bar-4, html.EscapeString(row.workload))
		}
		w := int(row.value / largest * float64(width-left-right))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, left, y, w, bar-2, row.colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d">%.4g %s</text>`+"\n", left+w+4, y+bar-4, row.value, html.EscapeString(row.broker))
		y += bar
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">
<rect width="100%%" height="100%%" fill="white"/><text x="10" y="20" font-size="14">%s</text>
%s</svg>
`, width, y+20, html.EscapeString(figure), b.String())
}
