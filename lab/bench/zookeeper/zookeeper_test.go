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
	server.Needs(t, "zookeeper")
	t.Setenv("TMPDIR", t.TempDir())
	var text string
	for range 3 {
		if text = figures(t); strings.Count(text, "| "+ours) >= 3 && !strings.Contains(text, "NaN") {
			return
		}
	}
	t.Errorf("figures are missing:\n%s", text)
}

func figures(t *testing.T) string {
	h := &host.Host{}
	defer h.End()
	var out bytes.Buffer
	if err := (&bench{plan: plan{1, 20 * time.Millisecond, 4}}).run(h, &out, io.Discard, "", false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
