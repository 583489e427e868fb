//go:build linux

// Package benchtest is the test that the benches of servers have in common.
package benchtest

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/lab/bench/host"
)

// Figures runs a bench. It fails if the output has fewer than n rows with the given name, or a row
// without a figure. On a busy machine, a row may get no figure in so short a time; then the bench
// runs again, at most three times in all.
func Figures(t *testing.T, name string, n int, run func(h *host.Host, out io.Writer) error) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	for range 3 {
		out.Reset()
		func() {
			h := &host.Host{}
			defer h.End()
			if err := run(h, &out); err != nil {
				t.Fatal(err)
			}
		}()
		if text := out.String(); strings.Count(text, "| "+name) >= n && !strings.Contains(text, "NaN") {
			return
		}
	}
	t.Errorf("figures are missing:\n%s", out.String())
}
