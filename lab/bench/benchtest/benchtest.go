//go:build linux

// Package benchtest has what the tests of the benches have in common.
package benchtest

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

var noFigure = regexp.MustCompile("– [≤≥×]") // of a target

// Figures runs the experiments of a bench whose names match only. It fails if the output has fewer
// than n rows with the given name, or a target without a figure. On a busy machine, a row may get
// no figure in so short a time; then the bench runs again, at most three times in all.
func Figures[P any](t *testing.T, b *measure.Bench[P], p P, only, name string, n int) {
	t.Setenv("TMPDIR", t.TempDir())
	text := ""
	for range 3 {
		var err error
		if text, err = Output(b, p, measure.Run{Rounds: 1, Only: only}); err != nil {
			t.Fatal(err)
		}
		if strings.Count(text, "| "+name) >= n && !noFigure.MatchString(text) {
			return
		}
	}
	t.Errorf("figures are missing:\n%s", text)
}

// Output runs a bench with the flags in r and returns what it writes.
func Output[P any](b *measure.Bench[P], p P, r measure.Run) (string, error) {
	var out bytes.Buffer
	r.Out, r.Progress = &out, io.Discard
	err := b.Run(&r, &p)
	return out.String(), err
}
