//go:build linux

package main

import (
	"fmt"
	"io"
	"time"
)

// plan says how much is measured.
type plan struct {
	holds     int           // number of holds on Redis; see engine.part for other servers
	ttl       time.Duration // length of every lease
	processes int           // number of processes that wait for one name
	waited    time.Duration // how long these processes are watched
	lockers   int           // number of processes that hand names over to each other
	names     int           // number of names that these processes hand over
	trial     time.Duration // how long hand-overs are counted
	patience  time.Duration // how long a step may take before it is given up
}

// defaultTTL is the length of a lease by default.
const defaultTTL = 30 * time.Second

// bench is the state of one run of the benchmark.
type bench struct {
	plan     plan
	progress io.Writer
}

// report writes to progress what the benchmark is doing.
func (b *bench) report(engine, format string, values ...any) {
	fmt.Fprintf(b.progress, "%s %s: %s\n", time.Now().Format("15:04:05"), engine, fmt.Sprintf(format, values...))
}
