package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours. padlock's own rows stand out from the others. Some rows show what the server can do
// at most, without locks. These rows have the palest colour. Series of dots go from light to dark.
var (
	own    = color.RGBA{0x1f, 0x6f, 0xb4, 0xff}
	peer   = color.RGBA{0xa6, 0xa9, 0xae, 0xff}
	limit  = color.RGBA{0xdd, 0xdf, 0xe2, 0xff}
	grid   = color.RGBA{0xe4, 0xe6, 0xe9, 0xff}
	light  = color.RGBA{0x8c, 0xc0, 0xe8, 0xff}
	medium = color.RGBA{0x2f, 0x83, 0xc8, 0xff}
	dark   = color.RGBA{0x0b, 0x3d, 0x6e, 0xff}
)

const (
	width     = 8 * vg.Inch
	rowHeight = 0.34 * vg.Inch
	around    = 1.4 * vg.Inch // title, and the axis with its label
	thickness = 0.2 * vg.Inch
	margin    = 0.1 * vg.Inch
	axisText  = 0.5 * vg.Inch // space for the axis label and the legend

	legendStep  = 1.2 * vg.Inch
	legendAbove = 0.24 * vg.Inch
	fallback    = 0.25 * vg.Inch // extra space, in case the reader's font is wider than Liberation Sans
)

// picture draws a chart and returns it as SVG.
func (c chart) picture(lines []line) ([]byte, error) {
	rows := rowsOf(c.rows, lines)
	p := c.frame(rows)
	for _, l := range lines {
		shape := c.bars
		if c.log {
			shape = c.dots
		}
		if err := shape(p, rows, l); err != nil {
			return nil, err
		}
	}
	c.span(p, lines)
	canvas := vgsvg.New(width, around+vg.Length(len(rows))*rowHeight)
	page := draw.New(canvas)
	page.SetColor(p.BackgroundColor)
	page.Fill(page.Rectangle.Path())
	whole := draw.Crop(page, margin, -margin, margin, -margin)
	c.nameAxis(p, whole, lines)
	p.Draw(draw.Crop(whole, 0, -margin, axisText, 0))
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return portable(out.Bytes()), err
}

// nameAxis writes the label of the figures' axis. gonum/plot can do that, but with a logarithmic
// axis it then leaves a third of the picture empty.
func (c chart) nameAxis(p *plot.Plot, whole draw.Canvas, lines []line) {
	style := p.X.Tick.Label
	style.XAlign, style.YAlign = text.XCenter, text.YBottom
	whole.FillText(style, vg.Point{X: whole.Center().X, Y: whole.Min.Y}, c.axis)
	if len(lines) < 2 {
		return
	}
	style.XAlign = text.XLeft
	for i, l := range lines { // draws the legend
		at := vg.Point{X: whole.Center().X + vg.Length(i-1)*legendStep, Y: whole.Min.Y + legendAbove}
		whole.DrawGlyph(dot(l.shade), at.Add(vg.Point{X: -10, Y: 4}))
		whole.FillText(style, at, l.label)
	}
}

func dot(shade color.RGBA) draw.GlyphStyle {
	return draw.GlyphStyle{Color: shade, Radius: 5, Shape: draw.CircleGlyph{}}
}

// rowsOf returns the rows that have a figure, from the bottom of the axis to the top. The parameter
// fromTop lists all rows of the chart, from the top to the bottom.
func rowsOf(fromTop []string, lines []line) []string {
	var rows []string
	for _, row := range fromTop {
		if slices.ContainsFunc(lines, func(l line) bool { return l.valueOf(row) > 0 }) {
			rows = append(rows, row)
		}
	}
	slices.Reverse(rows)
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

// frame returns the empty picture, with title, axes and names of rows.
func (c chart) frame(rows []string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	p := plot.New()
	p.Title.Text = c.title
	p.Title.TextStyle.Font.Size, p.Title.Padding = 15, 10
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 11, 12
	p.Y.LineStyle.Width, p.Y.Tick.LineStyle.Width = 0, 0
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	ticks := make([]plot.Tick, len(rows))
	for i, row := range rows {
		ticks[i] = plot.Tick{Value: float64(i), Label: row}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Padding = fallback
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = grid, grid
	if !c.log {
		g.Horizontal.Width = 0
	}
	p.Add(g)
	return p
}

// span sets the range of the figures' axis. It leaves room for the numbers at the ends of the bars.
func (c chart) span(p *plot.Plot, lines []line) {
	low, high := math.Inf(1), 0.0
	for _, l := range lines {
		for _, pt := range l.points {
			low, high = min(low, pt.value), max(high, pt.value)
		}
	}
	if !c.log {
		p.X.Min, p.X.Max = 0, high*1.12
		return
	}
	p.X.Scale = plot.LogScale{}
	p.X.Min = math.Pow(10, math.Floor(math.Log10(low)))
	p.X.Max = math.Pow(10, math.Ceil(math.Log10(high)))
	p.X.Tick.Marker = plot.TickerFunc(decades)
}

// decades returns ticks at the powers of ten, written as plain numbers.
func decades(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Round(math.Log10(low)); e <= math.Round(math.Log10(high)); e++ {
		x := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'f', max(0, int(-e)), 64)})
	}
	return ticks
}

// bars draws a bar for each row, with its figure at the end.
func (c chart) bars(p *plot.Plot, rows []string, l line) error {
	for i, row := range rows {
		b, err := plotter.NewBarChart(plotter.Values{l.valueOf(row)}, thickness)
		if err != nil {
			return err
		}
		b.Horizontal, b.XMin, b.Color, b.LineStyle.Width = true, float64(i), colourOf(row), 0
		p.Add(b)
	}
	return c.numbers(p, rows, l)
}

// dots draws a dot for each row. If the chart has only one series, it draws the figures too.
func (c chart) dots(p *plot.Plot, rows []string, l line) error {
	var at plotter.XYs
	for i, row := range rows {
		if x := l.valueOf(row); x > 0 {
			at = append(at, plotter.XY{X: x, Y: float64(i)})
		}
	}
	s, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	s.GlyphStyle = dot(l.shade)
	p.Add(s)
	if c.format == "" {
		return nil
	}
	return c.numbers(p, rows, l)
}

// numbers writes the figures of a series to the right of its bars or dots.
func (c chart) numbers(p *plot.Plot, rows []string, l line) error {
	var at plotter.XYLabels
	for i, row := range rows {
		at.XYs = append(at.XYs, plotter.XY{X: l.valueOf(row), Y: float64(i)})
		at.Labels = append(at.Labels, fmt.Sprintf(c.format, l.valueOf(row)))
	}
	labels, err := plotter.NewLabels(at)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = 11
		labels.TextStyle[i].YAlign = -0.4
	}
	labels.Offset = vg.Point{X: 8}
	p.Add(labels)
	return nil
}

func colourOf(row string) color.RGBA {
	switch {
	case strings.HasPrefix(row, "padlock"):
		return own
	case strings.HasPrefix(row, "limit-"):
		return limit
	}
	return peer
}

// portable adds the names of fonts that may take the place of Liberation Sans on the reader's
// machine.
func portable(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
}
