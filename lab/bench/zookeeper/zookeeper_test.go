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
	server.Needs(t, "zookeeper")
	benchtest.Figures(t, ours, 3, func(h *host.Host, out io.Writer) error {
		return (&bench{plan: plan{1, 20 * time.Millisecond, 4}}).run(h, out, io.Discard, "", false)
	})
}
