package mysqladvisory

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/internal/calls"
)

// A row remembers the last fence of its name, so that the next fence is higher. The row stays in
// the table after the name has become free. Once its fence is old enough, the row is removed.
// Without a row, the next fence is the server's time, which is higher than every old fence. That is
// true even if the clock was set back by an hour, because every row stays for at least minKeep.
const (
	// minKeep is more than an hour, in case somebody sets the clock back to winter time.
	minKeep     = 65 * time.Minute
	defaultKeep = 24 * time.Hour

	sweepBatch = 500         // rows in one batch
	sweepPause = time.Second // between batches
	// sweepEvery is how often the table is swept, no matter how many processes share it.
	sweepEvery = time.Hour
)

// A sweeper removes old rows from the table of fences.
type sweeper struct {
	sql     statements
	keep    time.Duration
	live    func() []*conn                           // the connections of this store
	connect func(ctx context.Context) (*conn, error) // makes a connection on which no hold depends
	ctx     context.Context                          // canceled when the sweep must stop
}

// background sweeps from time to time, until the store is closed.
func (w *sweeper) background() {
	calls.Regularly(w.ctx, sweepEvery, func() {
		if w.sweepDue() {
			_, _ = w.sweep(sweepPause) // the next sweep tries again
		}
	})
}

// sweepDue returns true if this process has to sweep the table: the last sweep was long ago, and no
// other process has started one. A process without a connection does not sweep.
func (w *sweeper) sweepDue() bool {
	all := w.live()
	if len(all) == 0 {
		return false
	}
	at, err := all[0].exec(w.sql.dueSweep())
	return err == nil && at != 0
}

// sweep removes old rows in batches, in the order of the names of the locks. It uses a connection
// of its own, so a batch that takes long delays no other operation.
func (w *sweeper) sweep(pause time.Duration) (removed int, err error) {
	c, err := w.connect(w.ctx)
	if err != nil {
		return 0, err
	}
	defer c.closeConn()
	for after := ""; ; {
		rows, err := c.query(w.sql.oldRows(after, w.keep))
		if err != nil {
			return removed, failure(err)
		}
		var old []string
		for _, r := range rows {
			if after = r[0].String; r.isOne(1) {
				old = append(old, after)
			}
		}
		if len(old) > 0 {
			if _, err := c.exec(w.sql.removeRows(old, w.keep)); err != nil {
				return removed, failure(err)
			}
			removed += len(old)
		}
		if len(rows) < sweepBatch {
			return removed, nil
		}
		if pause > 0 {
			calls.Sleep(w.ctx, pause)
		}
		if err := w.ctx.Err(); err != nil {
			return removed, err
		}
	}
}
