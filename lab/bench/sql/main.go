//go:build linux

// Command sql measures locks in tables of PostgreSQL and SQLite, advisory locks of PostgreSQL and
// named locks of MariaDB. For comparison, it also measures the bare statements that any lock in a
// database needs. It starts the servers itself. Package bench describes the method; `make
// bench-sql` runs the command.
package main

import (
	"flag"
	"io"
	"os"
	"time"

	"github.com/padlock-go/padlock/lab/bench/host"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	rounds  int
	trial   time.Duration // how long a trial of pairs takes
	waiters int           // waiters of a drain
	queued  time.Duration // how long waiters wait before the drain starts
	many    int           // number of processes that wait
	section time.Duration // how long each of the many processes holds the lock
	watched time.Duration
	holds   int           // advisory locks that are held at once
	renewed []int         // numbers of leases that one process renews
	lease   time.Duration // the TTL of these leases
}

var (
	full  = plan{5, time.Second, 64, time.Second, 50, 2 * time.Second, 30 * time.Second, 1000, []int{1000, 10000}, 30 * time.Second}
	quick = plan{1, 300 * time.Millisecond, 16, 500 * time.Millisecond, 10, 500 * time.Millisecond, 3 * time.Second, 100, []int{1000}, 6 * time.Second}
)

func main() {
	f := measure.DefineFlags("experiment")
	f.DefineQuick("half a minute", full.rounds, quick.rounds)
	flag.Parse()
	b := &bench{plan: full}
	if f.Quick {
		b.plan = quick
	}
	b.plan.rounds = f.Rounds(b.plan.rounds)
	h := &host.Host{}
	err := b.run(h, os.Stdout, os.Stderr, f.Only, f.JSON)
	h.End()
	measure.ExitIf("sql", err)
}

// run runs the experiments and prints them. It returns an error if the benchmark itself fails or if
// the pattern of -only is not valid. A missed target is not an error.
func (b *bench) run(h *host.Host, out, progress io.Writer, only string, asJSON bool) error {
	report, err := measure.NewReport(out, progress, only, asJSON)
	if err != nil {
		return err
	}
	if err := b.start(h); err != nil {
		return err
	}
	defer b.close()
	for _, e := range b.experiments() {
		rounds := b.plan.rounds
		if e.Name == waiting || e.Name == files || e.Name == renewing {
			rounds = 1 // these experiments take long, and their figures are means
		}
		report.Run(e, rounds, nil)
	}
	return report.End()
}
