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
	server.Needs(t, "redis")
	server.Needs(t, "postgres")
	benchtest.Figures(t, &bench, plan{50 * time.Millisecond}, "", ours, 3)
}
