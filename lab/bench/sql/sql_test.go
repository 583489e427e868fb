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

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time.
func TestFigures(t *testing.T) {
	server.Needs(t, "postgres")
	h := &host.Host{}
	defer h.End()
	tiny := plan{1, 20 * time.Millisecond, 4, 100 * time.Millisecond, 3, 30 * time.Millisecond, 300 * time.Millisecond, 20, []int{10}, time.Second}
	var out bytes.Buffer
	t.Setenv("TMPDIR", t.TempDir())
	if err := (&bench{plan: tiny}).run(h, &out, io.Discard, "", false); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "| processes: "); n < 4 || strings.Contains(out.String(), "NaN") {
		t.Errorf("figures are missing:\n%s", out.String())
	}
}
