//go:build linux

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/bench/host"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time. On
// a busy machine, a row may get no figure in so short a time; then the test tries again.
func TestFigures(t *testing.T) {
	var text string
	for range 3 {
		if text = figures(t); strings.Count(text, "| etcdstore") >= 4 && !strings.Contains(text, "NaN") {
			return
		}
	}
	t.Errorf("figures are missing:\n%s", text)
}

func figures(t *testing.T) string {
	h := &host.Host{}
	defer h.End()
	var out bytes.Buffer
	if err := run(h, &plan{1, 20, 20, 3, 20, time.Millisecond, 100 * time.Millisecond}, engines(), &out, io.Discard, "", false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
