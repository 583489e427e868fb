//go:build linux

// Command core measures the cost of padlock without any server. It measures lock files in
// comparison with gofrs/flock, and package padlock in comparison with a channel. It also measures
// memory, and the cost of idle holds. Package bench describes the method; `make bench` runs the
// command.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	rounds      int
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

// full is the plan without -quick. It has many short rounds, so that some of them run while no
// other program is busy.
var full = plan{
	rounds: 41, trial: 50 * time.Millisecond, waiters: 1000, drains: 3, crowds: []int{1000, 10_000},
	idle: time.Minute, idleHolds: 1000, manyHolds: 100_000, maxRoutines: 100,
	processes: []int{25, 100, 400}, runs: []int{25, 400},
}

// quick is the plan for -quick. It measures little, and only checks that every part of the
// benchmark works.
var quick = plan{
	rounds: 5, trial: 20 * time.Millisecond, waiters: 1000, drains: 3, crowds: []int{1000},
	idle: 10 * time.Second, idleHolds: 1000, idleTTL: 6 * time.Second, manyHolds: 10_000, maxRoutines: 100,
	processes: []int{25, 100}, runs: []int{5, 25},
}

func main() {
	if kind := os.Getenv(waiterEnv); kind != "" {
		if err := beWaiter(kind, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "core, a waiting process:", err)
			os.Exit(1)
		}
		return
	}
	f := measure.DefineFlags("experiment")
	f.DefineQuick("half a minute", full.rounds, quick.rounds)
	dir := flag.String("dir", "", "where lock files are made, instead of the directory for temporary files")
	flag.Parse()
	p := full
	if f.Quick {
		p = quick
	}
	p.rounds = f.Rounds(p.rounds)
	p.dir = *dir
	measure.ExitIf("core", run(os.Stdout, os.Stderr, &p, f.Only, f.JSON))
}

// run makes the experiments and prints them. It returns an error if the benchmark itself fails. A
// missed target is no error.
func run(out, progress io.Writer, p *plan, only string, asJSON bool) error {
	report, err := measure.NewReport(out, progress, only, asJSON)
	if err != nil {
		return err
	}
	for _, e := range experiments(p) {
		report.Run(e.Experiment, e.roundsOf(p), nil)
	}
	return report.End()
}

// An experiment of this command. Usually there are several rounds of each experiment, but one round
// is enough if once is true.
type experiment struct {
	*measure.Experiment
	once bool
}

func (e experiment) roundsOf(p *plan) int {
	if e.once {
		return 1
	}
	return p.rounds
}

// experiments returns the experiments in the order in which they run. Idle holds come first,
// because they are measured best in a process that has done nothing before.
func experiments(p *plan) []experiment {
	return []experiment{
		{idleHolds(p), true},
		{files(p), false},
		{processes(p), false},
		{commandRuns(p), true},
		{faceOverMemory(p), false},
		{observed(p), false},
		{permits(p), false},
		{slotQueue(p), false},
		{handOver(p), false},
		{memoryOfWaiters(p), false},
		{manyHolds(p), true},
	}
}
