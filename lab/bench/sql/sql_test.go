//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time.
func TestFigures(t *testing.T) {
	server.Needs(t, "postgres")
	tiny := plan{20 * time.Millisecond, 4, 100 * time.Millisecond}
	benchtest.Figures(t, &benchmark, tiny, "", "processes: ", 1)
}
