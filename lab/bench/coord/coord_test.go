//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/bench/benchtest"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time.
func TestFigures(t *testing.T) {
	benchtest.Figures(t, &bench, plan{20 * time.Millisecond, 20, 3}, ours, 4)
}
