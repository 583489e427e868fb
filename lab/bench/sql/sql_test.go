//go:build linux

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/host"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time. On
// a busy machine, a row may get no figure in so short a time; then the test tries again.
func TestFigures(t *testing.T) {
	server.Needs(t, "postgres")
	t.Setenv("TMPDIR", t.TempDir())
	var text string
	for range 3 {
		if text = figures(t); strings.Count(text, "| processes: ") >= 4 && !strings.Contains(text, "NaN") {
			return
		}
	}
	t.Errorf("figures are missing:\n%s", text)
}

func figures(t *testing.T) string {
	h := &host.Host{}
	defer h.End()
	var out bytes.Buffer
	tiny := plan{1, 20 * time.Millisecond, 4, 100 * time.Millisecond, 3, 30 * time.Millisecond, 300 * time.Millisecond, 20, []int{10}, 6 * time.Second}
	if err := (&bench{plan: tiny}).run(h, &out, io.Discard, "", false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
