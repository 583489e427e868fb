//go:build linux

// Command core measures the cost of padlock without any server. It measures lock files in
// comparison with gofrs/flock, and package padlock in comparison with a channel. It also measures
// memory, and the cost of idle holds. Package bench describes the method; `make bench` runs the
// command.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	trial       time.Duration // how long one trial repeats its operation
	waiters     int           // number of goroutines that wait for one name in a hand-over
	crowds      []int         // how many goroutines wait while memory is measured, one row for each number
	idle        time.Duration // how long idle holds are watched
	idleHolds   int
	idleTTL     time.Duration // the TTL of idle holds; 0 means padlock's default
	manyHolds   int
	dir         string // directory for lock files
	drains      int    // how many queues of waiters one trial empties, one after the other
	maxRoutines float64
	processes   []int // how many processes wait for one file; one row for each number
	runs        []int // how many runs of "padlock run" wait for one file; one row for each number
}

// The full plan has many short rounds, so that some of them run while no other program is busy. The
// quick one only checks that every part of the benchmark works.
var bench = measure.Bench[plan]{
	Name: "core", Rounds: 41, QuickRounds: 5,
	Full: plan{
		trial: 50 * time.Millisecond, waiters: 1000, drains: 3, crowds: []int{1000, 10_000},
		idle: time.Minute, idleHolds: 1000, manyHolds: 100_000, maxRoutines: 100,
		processes: []int{25, 100, 400}, runs: []int{25, 400},
	},
	Quick: plan{
		trial: 20 * time.Millisecond, waiters: 1000, drains: 3, crowds: []int{1000},
		idle: 10 * time.Second, idleHolds: 1000, idleTTL: 6 * time.Second, manyHolds: 10_000, maxRoutines: 100,
		processes: []int{25, 100}, runs: []int{5, 25},
	},
	Start: func(_ *measure.Run, p *plan) ([]*measure.Experiment, error) { return experiments(p), nil },
}

func main() {
	if kind := os.Getenv(waiterEnv); kind != "" {
		if err := beWaiter(kind, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "core, a waiting process:", err)
			os.Exit(1)
		}
		return
	}
	dir := flag.String("dir", "", "where lock files are made, instead of the directory for temporary files")
	start := bench.Start
	bench.Start = func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		p.dir = *dir
		return start(r, p)
	}
	bench.Main()
}

// experiments returns the experiments in the order in which they run. Idle holds come first,
// because they are measured best in a process that has done nothing before.
func experiments(p *plan) []*measure.Experiment {
	return []*measure.Experiment{
		idleHolds(p), files(p), processes(p), commandRuns(p), faceOverMemory(p), observed(p), permits(p), slotQueue(p),
		handOver(p), memoryOfWaiters(p), manyHolds(p),
	}
}
