package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// A chart is a picture of docs/images with a bar for each of several rows of one experiment.
type chart struct {
	title, experiment, column, unit string
	bars                            []bar
}

type bar struct{ label, note, row string }

// charts are the pictures, by the names of their files.
var charts = map[string]chart{
	"waiters.svg": {
		"64 waiters on one Redis: time until each has had the lock", "drain, a client each, 64 waiters", "total_ms", "ms", []bar{
			{"padlock", "wakes the next one", "padlock"},
			{"rueidislock", "wakes all", "rueidislock-1key"},
			{"redislock", "polls", "redislock-lin10"},
			{"redsync", "polls", "redsync"},
		},
	},
}

// words says in one sentence what the picture shows. It is empty if the run lacks one of the figures.
func (c chart) words(all run) string {
	var parts []string
	for _, b := range c.bars {
		x := all.find(c.experiment).Median(b.row, c.column)
		if math.IsNaN(x) {
			return ""
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", b.label, measure.Figure(math.Round(x)), c.unit))
	}
	return c.title + ": " + strings.Join(parts, ", ")
}

// draw returns the picture as SVG. It has colours for light and for dark pages. It is empty if the run
// lacks one of the figures.
func (c chart) draw(all run) string {
	words := c.words(all)
	if words == "" {
		return ""
	}
	const (
		width, left, longest = 740, 140, 460
		top, step, thick     = 52, 40, 26
	)
	height := top + len(c.bars)*step + 4
	figures, most := make([]float64, len(c.bars)), 0.0
	for i, b := range c.bars {
		figures[i] = all.find(c.experiment).Median(b.row, c.column)
		most = max(most, figures[i])
	}
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="15" text-anchor="start" role="img" aria-label="%s">
<!-- make plots writes this file from lab/plots/published.json -->
<title>%s</title>
<style>
.ground { fill: #fff; } text { fill: #1f2328; } .note { fill: #555; } .ours { fill: #1a6fb5; } .others { fill: #8c959f; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } text { fill: #e6edf3; } .note { fill: #9aa4b2; } .ours { fill: #58a6ff; } .others { fill: #6e7681; }
}
</style>
<rect class="ground" width="%d" height="%d"/>
<text x="20" y="30" font-weight="bold">%s</text>
`, width, height, words, c.title, width, height, c.title)
	for i, b := range c.bars {
		y, class, weight := top+i*step, "others", "normal"
		if i == 0 {
			class, weight = "ours", "bold"
		}
		long := max(2, int(math.Round(figures[i]/most*longest)))
		fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="end" font-weight="%s">%s</text><rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/><text x="%d" y="%d" font-weight="%s">%s %s</text><text class="note" x="%d" y="%d">%s</text>
`,
			left-12, y+18, weight, b.label, class, left, y, long, thick, left+long+8, y+18, weight, measure.Figure(math.Round(figures[i])), c.unit, left+long+80, y+18, b.note)
	}
	return svg.String() + "</svg>\n"
}
