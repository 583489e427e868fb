//go:build linux

// Command core measures the cost of padlock without any server. It measures lock files in
// comparison with gofrs/flock, and package padlock in comparison with a channel. It also measures
// memory. Package bench describes the method; `make bench` runs the
// command.
package main

import (
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// plan says how much is measured.
type plan struct {
	trial     time.Duration // how long one trial repeats its operation
	waiters   int           // number of goroutines that wait for one name in a hand-over
	drains    int           // how many queues of waiters one trial empties, one after the other
	processes []int         // how many processes wait for one file; one row for each number
}

// The plan has many short rounds, so that some of them run while no other program is busy.
var bench = measure.Bench[plan]{
	Name: "core", Rounds: 41,
	Plan: plan{
		trial: 50 * time.Millisecond, waiters: 1000, drains: 3, processes: []int{25, 100, 400},
	},
	Start: func(_ *measure.Run, p *plan) ([]*measure.Experiment, error) { return experiments(p), nil },
}

func main() {
	trial.PlayChild(trial.Obey(filePeers))
	bench.Main()
}

// experiments returns the experiments in the order in which they run.
func experiments(p *plan) []*measure.Experiment {
	return []*measure.Experiment{
		files(p), processes(p), faceOverMemory(p), observed(p), handOver(p), memoryOfWaiters(p),
	}
}
