//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// A rig is the server of a run.
type rig struct {
	addr string
	pid  int // 0 in a process of a trial, which does not need it
}

// newRig starts a Redis that keeps nothing on disk. It ends with t.
func newRig(t testing.TB) *rig {
	s := server.Redis(t, server.RedisOptions{Args: []string{"--appendonly", "no"}})
	return &rig{s.Addr(), s.Pid()}
}

// ask sends a command of the benchmark's own, which does not count.
func (r *rig) ask(args ...string) (string, error) {
	return server.AskRedis(context.Background(), r.addr, args...)
}

// clear deletes all keys, so that no trial finds keys of an earlier one. Scripts stay.
func (r *rig) clear() error {
	_, err := r.ask("FLUSHALL")
	return err
}

// A cost is everything that was used up to one instant.
type cost struct {
	sent   int64         // commands that clients sent
	server time.Duration // CPU time of the server
	client time.Duration // processor time
}

// cost reads the current cost. The INFO that it sends is not counted.
func (r *rig) cost(p *trial.Page) (c cost, err error) {
	c.client = measure.Used()
	c.sent = p.SentByAll()
	text, err := r.ask("INFO", "cpu")
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, bad := strconv.ParseFloat(value, 64)
			err = errors.Join(err, bad)
			c.server += time.Duration(seconds * float64(time.Second))
		}
	}
	if err == nil && c.server == 0 {
		err = fmt.Errorf("INFO cpu says %q", text)
	}
	return c, err
}

// meter adds what an operation costs.
func (r *rig) meter(p *trial.Page) trial.Meter {
	return func() (func(measure.Figures, int) error, error) {
		before, err := r.cost(p)
		return func(f measure.Figures, n int) error {
			after, err := r.cost(p)
			per := 1 / float64(n)
			f["cmds"] = float64(after.sent-before.sent) * per
			f["client us"] = measure.Micros(after.client-before.client) * per
			f["server us"] = measure.Micros(after.server-before.server) * per
			return err
		}, err
	}
}
