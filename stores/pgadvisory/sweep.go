package pgadvisory

import (
	"context"
	"math"
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
	sql     sweepStatements
	keep    time.Duration
	live    func() []*conn                           // the connections of this process
	connect func(ctx context.Context) (*conn, error) // makes a connection that no hold uses
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

// sweepDue returns true if this process has to sweep the table. That is so if no process has begun
// a sweep for a long time. A process without a connection does not sweep.
func (w *sweeper) sweepDue() bool {
	all := w.live()
	if len(all) == 0 {
		return false
	}
	rows, err := all[0].exec(&w.sql.due, number(sweepKey))
	return err == nil && len(rows) == 1
}

// sweep goes through the table in the order of the keys, in batches. It uses a connection of its
// own, so a batch that takes long delays nobody.
func (w *sweeper) sweep(pause time.Duration) (removed int, err error) {
	c, err := w.connect(w.ctx)
	if err != nil {
		return 0, err
	}
	defer c.closeConn()
	for after := number(math.MinInt64); ; {
		rows, err := c.exec(&w.sql.next, after, number(w.keep.Microseconds()), number(versionKey))
		if err != nil {
			return removed, failure(err)
		}
		removed += int(parse(rows[0][0]))
		if parse(rows[0][1]) < sweepBatch {
			return removed, nil
		}
		if pause > 0 {
			calls.Sleep(w.ctx, pause)
		}
		if err := w.ctx.Err(); err != nil {
			return removed, err
		}
		after = rows[0][2]
	}
}
