//go:build linux

package main

import (
	"io"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/bench/benchtest"
	"github.com/padlock-go/padlock/lab/bench/host"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time.
func TestFigures(t *testing.T) {
	benchtest.Figures(t, "etcdstore", 4, func(h *host.Host, out io.Writer) error {
		return run(h, &plan{1, 20, 20, 3, 20, time.Millisecond, 100 * time.Millisecond}, engines(), out, io.Discard, "", false)
	})
}
