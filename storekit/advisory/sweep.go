package advisory

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/storekit"
)

// A row remembers the last fence of its name, so that the next fence is higher. The row stays in
// the table after the name has become free. Once its fence is old enough, the row is removed.
// Without a row, the next fence is the server's time, which is higher than every old fence. That is
// true even if the clock was set back by an hour, because every row stays for at least minKeep.
const (
	sweepRows  = 500         // rows at a time
	sweepPause = time.Second // between batches
	// sweepEvery is how often the table is swept, no matter how many processes share it.
	sweepEvery = time.Hour
)

// A sweeper removes old rows from the table of fences.
type sweeper[C Session] struct {
	table   Table[C]
	keep    time.Duration
	live    func() []C                       // the connections of this store
	connect func(context.Context) (C, error) // makes a connection that no hold uses
	ctx     context.Context                  // canceled when the sweep must stop
}

// background sweeps from time to time, until the store is closed.
func (w *sweeper[C]) background() {
	storekit.Regularly(w.ctx, sweepEvery, func() {
		if w.due() {
			_, _ = w.sweep(sweepPause) // the next sweep tries again
		}
	})
}

// due returns true if this process has to sweep the table: the last sweep was long ago, and no
// other process has begun one. A process without a connection does not sweep.
func (w *sweeper[C]) due() bool {
	all := w.live()
	if len(all) == 0 {
		return false
	}
	due, err := w.table.SweepDue(all[0], sweepEvery)
	return err == nil && due
}

// sweep goes through the table in the order of the keys, in batches. It uses a connection of its
// own, so a batch that takes long delays nobody.
func (w *sweeper[C]) sweep(pause time.Duration) (removed int, err error) {
	c, err := w.connect(w.ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for after := ""; ; {
		n, last, err := w.table.Sweep(c, after, sweepRows, w.keep)
		removed += n
		if err != nil || last == "" {
			return removed, storekit.Failure(err)
		}
		if pause > 0 {
			storekit.Sleep(w.ctx, pause)
		}
		if err := w.ctx.Err(); err != nil {
			return removed, err
		}
		after = last
	}
}

func (s *Store[C]) sweeper(keep time.Duration) *sweeper[C] {
	return &sweeper[C]{table: s.dialect, keep: keep, live: s.pool.live, connect: s.connect, ctx: s.calls.Closing}
}
