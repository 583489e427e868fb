//go:build linux

package main

import "github.com/padlock-go/padlock/internal/integration/bench/measure"

// The targets are those of the issue in which redisstore was asked for.

func uncontendedTargets(n int) []measure.Target { return nil }

func drainTargets(n int, each bool) []measure.Target { return nil }

func procsTargets(n int) []measure.Target { return nil }

var blockedTargets []measure.Target
