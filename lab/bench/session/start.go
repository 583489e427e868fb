package main

import (
	"errors"
	"regexp"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/session/sessiontest/load"
)

// startStacks starts the stacks whose names match.
func startStacks(t testing.TB, chosen *regexp.Regexp, workers int) ([]*stack, error) {
	b := &builder{t: t, chosen: chosen, workers: workers, redis: server.Redis(t, server.RedisOptions{}).Addr()}
	b.bare = b.serve(load.Bare())
	b.add("no session", none, func() ([]string, error) { return []string{b.bare}, nil })
	err := errors.Join(b.inMemory(), b.inRedis())
	b.peers()
	b.php()
	return b.stacks, err
}
