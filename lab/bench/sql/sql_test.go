//go:build linux

package main

import (
	"io"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
	"github.com/padlock-go/padlock/lab/bench/host"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time.
func TestFigures(t *testing.T) {
	server.Needs(t, "postgres")
	tiny := plan{1, 20 * time.Millisecond, 4, 100 * time.Millisecond, 3, 30 * time.Millisecond, 300 * time.Millisecond, 20, []int{10}, 6 * time.Second}
	benchtest.Figures(t, "processes: ", 4, func(h *host.Host, out io.Writer) error {
		return (&bench{plan: tiny}).run(h, out, io.Discard, "", false)
	})
}
