package top

import (
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

func itoa(n int) string { return strconv.Itoa(n) }

// cell cuts or pads a text to a width in columns of the terminal. Some letters take two columns.
func cell(text string, width int) string {
	if ansi.StringWidth(text) > width {
		text = ansi.Truncate(text, width, "…")
	}
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// number cuts or pads a text to the width of a column, and aligns it to the right.
func number(text string, width int) string {
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + ansi.Truncate(text, width, "…")
}

// The styles are SGR sequences. Bubble Tea removes the colours if NO_COLOR is set, or if the
// terminal cannot show colours.
const (
	bold    = "\x1b[1m"
	faint   = "\x1b[2m"
	reverse = "\x1b[7m"
	red     = "\x1b[31m"
	yellow  = "\x1b[33m"
)

func styled(style, text string) string {
	if style == "" {
		return text
	}
	return style + text + "\x1b[0m"
}

// laterTime returns the later one of two times.
func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
