//go:build linux

package main

import (
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time.
func TestFigures(t *testing.T) {
	server.Needs(t, "redis")
	benchtest.Figures(t, &bench, plan{1, false}, "", small, 8)
}
