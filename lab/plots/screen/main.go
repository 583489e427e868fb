// Command screen draws the screen of a terminal as SVG. Its standard input is the output of "tmux
// capture-pane -e -p". The script top.sh in this directory makes docs/images/top.svg with it.
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The size of a letter, and the colours. In a terminal's output, the code 31 means red, and 33
// means yellow.
const (
	wide, high   = 8.4, 18.0
	margin       = 12.0
	back         = "#16181d"
	front        = "#d5d9e0"
	faint        = "#8b93a1"
	red, yellow  = "#ff7b72", "#e3b341"
	fontFamilies = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
)

func main() {
	if err := drawScreen(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// style is how the terminal writes letters.
type style struct {
	bold, faint, reverse bool
	colour               string
}

// applySGR applies the parameters of an SGR sequence.
func (s *style) applySGR(params string) {
	for _, p := range strings.Split(params, ";") {
		switch n, _ := strconv.Atoi(p); n {
		case 0:
			*s = style{}
		case 1:
			s.bold = true
		case 2:
			s.faint = true
		case 7:
			s.reverse = true
		case 22:
			s.bold, s.faint = false, false
		case 27:
			s.reverse = false
		case 31:
			s.colour = red
		case 33:
			s.colour = yellow
		case 39:
			s.colour = ""
		}
	}
}

// drawScreen reads lines from r and writes a picture of them to w.
func drawScreen(r io.Reader, w io.Writer) error {
	var lines []string
	columns := 0
	for scan := bufio.NewScanner(r); scan.Scan(); {
		lines = append(lines, scan.Text())
		columns = max(columns, utf8.RuneCountInString(bare(scan.Text())))
	}
	width, height := float64(columns)*wide+2*margin, float64(len(lines))*high+2*margin
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" text-anchor="start" role="img" font-family="%s" font-size="14">`+"\n",
		width, height, width, height, html.EscapeString(fontFamilies))
	fmt.Fprintln(out, "<title>The screen of padlock top</title>\n<style>@media (prefers-color-scheme: dark) { .ground { stroke: #444c56; } }</style>")
	fmt.Fprintf(out, `<rect class="ground" width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", back)
	s := style{}
	for i, line := range lines {
		drawLine(out, line, margin+float64(i)*high, &s)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// drawLine draws one line of text. The parameter s is the style at the beginning of the line;
// drawLine sets it to the style at the end of the line.
func drawLine(out io.Writer, line string, top float64, s *style) {
	at := 0
	for line != "" {
		text, rest, found := strings.Cut(line, "\x1b[")
		drawText(out, text, at, top, *s)
		at += utf8.RuneCountInString(text)
		if !found {
			return
		}
		params, after, _ := strings.Cut(rest, "m")
		s.applySGR(params)
		line = after
	}
}

func drawText(out io.Writer, text string, at int, top float64, s style) {
	x, n := margin+float64(at)*wide, utf8.RuneCountInString(text)
	colour, weight := front, ""
	switch {
	case s.colour != "":
		colour = s.colour
	case s.faint:
		colour = faint
	}
	if s.bold {
		weight = ` font-weight="bold"`
	}
	if s.reverse && n > 0 {
		fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, top, float64(n)*wide, high, colour)
		colour = back
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" textLength="%.1f" fill="%s"%s xml:space="preserve">%s</text>`+"\n",
		x, top+13.5, float64(n)*wide, colour, weight, html.EscapeString(text))
}

// bare returns a line without styles.
func bare(line string) string {
	var b strings.Builder
	for line != "" {
		text, rest, found := strings.Cut(line, "\x1b[")
		b.WriteString(text)
		if !found {
			break
		}
		_, line, _ = strings.Cut(rest, "m")
	}
	return b.String()
}
