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
	server.Needs(t, "redis")
	h := &host.Host{}
	defer h.End()
	var out bytes.Buffer
	t.Setenv("TMPDIR", t.TempDir())
	if err := (&bench{plan: plan{1, 100 * time.Millisecond, []int{1, 3}}}).run(h, &out, io.Discard, "", false); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "| "+ours); n < 4 || strings.Contains(out.String(), "NaN") {
		t.Errorf("figures are missing:\n%s", out.String())
	}
}
