package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A shade is a class of the style sheet. padlock's own rows stand out from the others. Some rows
// show what the server can do at most, without locks: they have the palest colour. Series of dots
// go from light to dark.
type shade string

const (
	own    shade = "own"
	peer   shade = "peer"
	limit  shade = "limit"
	light  shade = "light"
	medium shade = "medium"
	dark   shade = "dark"
)

// sheet is the style of a chart. On a dark page the ground is dark, and series of dots go from dark
// to light.
const sheet = `
text { font-family: Liberation Sans, Arial, Helvetica, sans-serif; font-size: 13px; fill: #1f2328; }
.title { font-size: 18px; }
.ground { fill: #ffffff; }
.grid { stroke: #e4e6e9; } .axis { stroke: #57606a; }
.own { fill: #1f6fb4; } .peer { fill: #a6a9ae; } .limit { fill: #d3d6da; }
.light { fill: #8cc0e8; } .medium { fill: #2f83c8; } .dark { fill: #0b3d6e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.ground { fill: #0d1117; }
.grid { stroke: #30363d; } .axis { stroke: #8b949e; }
.own { fill: #58a6ff; } .peer { fill: #6e7681; } .limit { fill: #424a53; }
.light { fill: #1f5a8a; } .medium { fill: #58a6ff; } .dark { fill: #cae8ff; }
}
`

// The measures of a chart, in pixels.
const (
	width      = 760
	rowHeight  = 30
	thickness  = 18
	top        = 52 // the title
	bottom     = 46 // the numbers of the axis and its label
	legend     = 24
	letter     = 7.2 // wide enough for the letters of most fonts
	margin     = 12
	numberRoom = 70 // for the figure at the end of a bar
)

// An area is the part of a chart between the axes, and the range of the figures' axis.
type area struct {
	left, right, bottom float64
	low, high           float64 // low is 0 if the axis is not logarithmic
	rows                []string
}

// x is the place of a figure.
func (a area) x(value float64) float64 {
	share := value / a.high
	if a.low > 0 {
		share = math.Log(value/a.low) / math.Log(a.high/a.low)
	}
	return a.left + share*(a.right-a.left)
}

// y is the middle of a row.
func (a area) y(row int) float64 { return top + (float64(row)+0.5)*rowHeight }

// picture draws a chart and returns it as SVG.
func (c chart) picture(lines []line) []byte {
	a := c.area(lines)
	height := a.bottom + bottom
	if len(lines) > 1 {
		height += legend
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" role=\"img\">\n", width, height, width)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", html.EscapeString(c.title), sheet)
	fmt.Fprintf(&b, "<rect class=\"ground\" width=\"%d\" height=\"%.0f\"/>\n", width, height)
	fmt.Fprintf(&b, "<text class=\"title\" x=\"%d\" y=\"32\" text-anchor=\"middle\">%s</text>\n", width/2, html.EscapeString(c.title))
	c.axes(&b, a)
	for i, l := range lines {
		// Dots of one row are drawn at different heights, so that none hides another.
		c.marks(&b, a, l, 7*(float64(i)-float64(len(lines)-1)/2))
	}
	c.names(&b, a, lines, height)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// area chooses the range of the axis, and leaves room for the names of the rows.
func (c chart) area(lines []line) area {
	a := area{rows: rowsOf(c.rows, lines), right: width - margin - numberRoom/2}
	longest := 0
	for _, row := range a.rows {
		longest = max(longest, utf8.RuneCountInString(shown(row)))
	}
	a.left = margin + float64(longest)*letter + 10
	a.bottom = a.y(len(a.rows)) - rowHeight/2
	low := math.Inf(1)
	for _, l := range lines {
		for _, p := range l.points {
			low, a.high = min(low, p.value), max(a.high, p.value)
		}
	}
	if c.log {
		a.low = math.Pow(10, math.Floor(math.Log10(low)))
		a.high = max(10*a.low, math.Pow(10, math.Ceil(math.Log10(a.high))))
	} else {
		a.high *= 1.12
	}
	return a
}

// rowsOf returns the rows that have a figure.
func rowsOf(all []string, lines []line) []string {
	var rows []string
	for _, row := range all {
		if slices.ContainsFunc(lines, func(l line) bool { return l.valueOf(row) > 0 }) {
			rows = append(rows, row)
		}
	}
	return rows
}

// valueOf returns the figure of a row, or 0 if there is none.
func (l line) valueOf(row string) float64 {
	for _, p := range l.points {
		if p.row == row {
			return p.value
		}
	}
	return 0
}

// axes draws the names of the rows, the numbers of the axis and the grid.
func (c chart) axes(b *bytes.Buffer, a area) {
	for i, row := range a.rows {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", a.left-10, a.y(i)+4.5, html.EscapeString(shown(row)))
	}
	for _, tick := range a.ticks() {
		x := a.x(tick)
		fmt.Fprintf(b, "<path class=\"grid\" d=\"M%.1f %dV%.1f\"/>\n", x, top, a.bottom)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, a.bottom+18, figure(tick, true))
	}
	fmt.Fprintf(b, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", a.left, a.bottom, a.right)
}

// ticks are the powers of ten of a logarithmic axis, or two to five round numbers.
func (a area) ticks() []float64 {
	var ticks []float64
	if a.low > 0 {
		for e := math.Round(math.Log10(a.low)); e <= math.Round(math.Log10(a.high)); e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
		return ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high)))
	for _, part := range []float64{0.2, 0.5, 1} {
		if a.high/(step*part) <= 5.5 {
			step *= part
			break
		}
	}
	for i := 0.0; i*step <= a.high; i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// marks draws a bar for each row, or a dot on a logarithmic axis, and the figure if the chart
// shows figures.
func (c chart) marks(b *bytes.Buffer, a area, l line, down float64) {
	for i, row := range a.rows {
		value := l.valueOf(row)
		if value <= 0 {
			continue
		}
		x, y := a.x(value), a.y(i)
		if c.log {
			y += down
			fmt.Fprintf(b, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>\n", l.shade, x, y)
			x += 6
		} else {
			fmt.Fprintf(b, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n",
				shadeOf(row), a.left, y-thickness/2, x-a.left, thickness)
		}
		if c.unit != "" {
			text := strings.TrimSpace(figure(value, true) + " " + strings.TrimPrefix(c.unit, "none"))
			fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\">%s</text>\n", x+7, y+4.5, text)
		}
	}
}

// names writes the label of the axis and the legend.
func (c chart) names(b *bytes.Buffer, a area, lines []line, height float64) {
	middle := (a.left + a.right) / 2
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", middle, a.bottom+38, html.EscapeString(c.axis))
	if len(lines) < 2 {
		return
	}
	const step = 130
	x := middle - step*float64(len(lines))/2
	for _, l := range lines {
		fmt.Fprintf(b, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>\n", l.shade, x+6, height-14)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\">%s</text>\n", x+18, height-9.5, html.EscapeString(l.label))
		x += step
	}
}

func shadeOf(row string) shade {
	switch {
	case strings.HasPrefix(row, "limit-"):
		return limit
	case strings.HasPrefix(shown(row), "padlock"), strings.HasPrefix(row, "Redis"):
		return own
	}
	return peer
}

// rowNames are the names in the charts of rows whose own names only those understand who know the
// benchmarks.
var rowNames = map[string]string{
	"limit-rueidis-1conn":     "limit: SET NX and a delete",
	"limit-blpop-tcp":         "limit: BLPOP and RPUSH",
	"limit-pubsub-tcp":        "limit: PUBLISH",
	"padlock-string":          "padlock, layout=string",
	"padlock-nofence":         "padlock, no fences",
	"padlock-string-nofence":  "padlock, layout=string, no fences",
	"redislock-lin10":         "redislock, polls every 10 ms",
	"rueidislock-1key":        "rueidislock, one key",
	"rueidislock-3key":        "rueidislock, three keys",
	"rueidislock-1key-noloop": "rueidislock, one key, NoLoopTracking",
}

// shown is the name of a row in a chart.
func shown(row string) string {
	if name, ok := rowNames[row]; ok {
		return name
	}
	if ours, other, ok := strings.Cut(row, " | "); ok {
		return ours + " (" + other + ")"
	}
	return row
}
