//go:build linux

package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// The trials start this binary again as their processes.
func TestMain(m *testing.M) {
	trial.Patience = 15 * time.Second
	trial.PlayChild(obey)
	os.Exit(m.Run())
}

// tiny shows that every experiment still works; its figures mean nothing. The grace is long because
// a busy machine may stand still for seconds. A worker that gets the lock does not use it up.
var tiny = plan{
	trial: 10 * time.Millisecond, queued: 20 * time.Millisecond, steady: 30 * time.Millisecond, grace: 10 * time.Second,
	blocked: 50 * time.Millisecond, settle: 100 * time.Millisecond,
	goroutines: 4, waiters: 3, processes: 3, quorum: 100 * time.Millisecond, contenders: []int{3}, blockers: 3,
	holds: 50, ttl: 3 * time.Second, watched: 2500 * time.Millisecond,
}

func newBench(t *testing.T) *bench {
	r := &measure.Run{}
	t.Cleanup(r.End)
	return &bench{plan: tiny, rig: newRig(t), three: sync.OnceValues(func() ([]string, error) { return startThree(r) })}
}

// These figures may be zero or missing in such short trials: a poller may never hand over, and the
// runtime may not have measured any CPU time.
var mayLack = regexp.MustCompile(`^hand p|^client us|^server us|^×`)

// strands are peers that are known to leave a waiter behind sometimes;
// docs/internals/performance.md explains why.
var strands = regexp.MustCompile("^rueidislock-1key")

// starves are peers of which a process may get no turn at all on a busy machine in a round as short
// as this test's. Then they have no figures.
var starves = regexp.MustCompile("^(rueidislock|redsync|redislock)")

// Every row of every experiment has all its figures, and there are never two owners.
func TestEveryRowHasFigures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, e := range b.experiments() {
		t.Run(e.Name, func(t *testing.T) {
			r := e.Run(1, io.Discard)
			for range 2 {
				if complete(r) {
					break
				}
				t.Log("a row got no turn in a round as short as this, or a short lease has ended: run again")
				r = e.Run(1, io.Discard)
			}
			for _, row := range r.Rows {
				switch err, failed := r.Errors[row]; {
				case !failed:
					checkRow(t, r, row)
				case strands.MatchString(row):
					t.Logf("%s, as it is known to: %v", row, err)
				default:
					t.Errorf("%s: %v", row, err)
				}
			}
			for _, v := range r.Targets {
				if v.Value == nil && !mayLack.MatchString(v.Column) && (!starves.MatchString(v.Base) || r.Median(v.Base, v.Column) > 0) {
					t.Errorf("target %v has no figure", v)
				}
			}
		})
	}
}

// complete says whether every row that ended without an error has its figures. The leases of the
// experiment with renewals are so short that a machine that stands still for two seconds ends them.
// So its rows are complete only without an error.
func complete(r *measure.Record) bool {
	if strings.Contains(r.Name, "holds with a TTL") && len(r.Errors) > 0 {
		return false
	}
	for _, row := range r.Rows {
		for _, c := range r.Columns {
			if _, failed := r.Errors[row]; !failed && !measured(r.Median(row, c)) && !mayLack.MatchString(c) {
				return false
			}
		}
	}
	return true
}

func checkRow(t *testing.T, r *measure.Record, row string) {
	for _, c := range r.Columns {
		v := r.Median(row, c)
		if !measured(v) && starves.MatchString(row) {
			t.Logf("%s got no turn: %s is %v", row, c, v)
			continue
		}
		if !measured(v) && !mayLack.MatchString(c) {
			t.Errorf("%s: %s is %v", row, c, v)
		}
		if v != 0 && (c == "violations" || c == "stranded" && !strands.MatchString(row)) {
			t.Errorf("%s: %v %s", row, v, c)
		}
	}
	if v := r.Median(row, "cmds"); v == 0 { // NaN where commands are not counted
		t.Errorf("%s: no command was counted", row)
	}
}

// measured is false for NaN and infinities.
func measured(v float64) bool { return v-v == 0 }

func TestCommandsAreCountedHoweverTheyAreCut(t *testing.T) {
	text := string(server.RedisCommand("SET", "k*1\r\n", "$5\r\n*2\r\n", "NX")) + string(server.RedisCommand("PING")) +
		string(server.RedisCommand("EVALSHA", "", strings.Repeat("x", 300)))
	for size := 1; size <= len(text); size++ {
		sent := new(trial.Counter)
		c := commands{sent: sent}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			c.count([]byte(rest[:n]))
			rest = rest[n:]
		}
		if n := sent.Load(); n != 3 {
			t.Fatalf("in pieces of %d bytes %d commands were counted, want 3", size, n)
		}
	}
}
