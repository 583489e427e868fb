package stampede

import "sync/atomic"

// Stats counts what a Cache has done in this process since New.
type Stats struct {
	Hits   uint64 // calls of Get that found a fresh value
	Stale  uint64 // calls of Get that got a stale value at once
	Misses uint64 // calls of Get that waited for a value, or got the error of a recent failure
	Runs   uint64 // calls of the function, those in the background among them
	Errors uint64 // calls of the function that failed
}

// tally is Stats while it is counted.
type tally struct{ hits, stale, misses, runs, errors atomic.Uint64 }

func (t *tally) stats() Stats {
	return Stats{Hits: t.hits.Load(), Stale: t.stale.Load(), Misses: t.misses.Load(), Runs: t.runs.Load(), Errors: t.errors.Load()}
}
