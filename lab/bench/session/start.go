package main

import (
	"errors"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/session/sessiontest/load"
)

// startStacks starts the stacks that the user wants to see.
func startStacks(t testing.TB, wants func(row string) bool, workers int) ([]*stack, error) {
	b := &builder{t: t, wants: wants, workers: workers, redis: server.Redis(t, server.RedisOptions{}).Addr()}
	b.bare = b.serve(load.Bare())
	b.add("no session", none, func() ([]string, error) { return []string{b.bare}, nil })
	err := errors.Join(b.inMemory(), b.inRedis())
	b.peers()
	b.php()
	return b.stacks, err
}
