// Package promtext writes Prometheus' text format. It is shared by the packages that export
// metrics.
package promtext

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ContentType is the type of a page in this format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Head writes the lines that introduce a metric. The kind is "gauge", "counter" or "histogram".
func Head(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Label returns a label with its value. The value may contain any bytes. Bytes that are not UTF-8
// become U+FFFD.
func Label(name, value string) string {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return name + `="` + escaper.Replace(value) + `"`
}

// The format has these escapes only.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Number returns a number in the shortest form.
func Number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
