package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"
)

// SQLite has no notifications. But a connection can find out cheaply, without reading a table,
// whether another connection has changed the file (PRAGMA data_version). So one connection of each
// process with waiters asks often, and the waiters read their row only after a change. A fileWatch
// is a Listener. So the connection that asks is opened and closed at the same times as the one on
// which PostgreSQL notifies.
type fileWatch struct{ s *Store }

const (
	// The connection asks every nearPause while one of this process's waiters is the first or
	// second in its queue. If all of them have more waiters ahead, it asks less often, at least
	// every farPause.
	nearPause = 5 * time.Millisecond
	farPause  = 50 * time.Millisecond

	// After a look, a waiter ignores changes for a time: restTime for each waiter ahead of it, and
	// at most maxRest. The first two waiters ignore no change.
	restTime = 10 * time.Millisecond
	maxRest  = 200 * time.Millisecond

	// watchPool is the least number of connections that a pool must have. The watch keeps one of
	// them, and transactions of the caller must not take the last one from renewals.
	watchPool = 3

	// A file without a write-ahead log cannot be watched, because each look would lock the file
	// against the writer. Waiters then poll, and the watch is tried again after deafTime.
	deafTime = 10 * time.Minute
)

var errNoLog = errors.New("the file has no write-ahead log")

// canWatch reports whether a pool can spare a connection for a fileWatch.
func canWatch(e Engine, db *sql.DB) bool {
	most := db.Stats().MaxOpenConnections
	return e == SQLite && (most == 0 || most >= watchPool)
}

// Listen implements Listener. It uses no channel, and wakes the waiters itself.
func (f fileWatch) Listen(ctx context.Context, _ []string, ready func(), _ func(string)) error {
	conn, err := f.s.rows.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		conn.Close()
		select {
		case <-ctx.Done():
		case <-time.After(deafTime):
		}
		return errNoLog
	}
	look, err := conn.PrepareContext(ctx, "PRAGMA data_version")
	if err != nil {
		return err
	}
	defer look.Close()
	ready()
	for last := int64(-1); ; {
		var version int64
		// Drivers start a goroutine for a context that can end. The pragma itself never waits.
		if err := look.QueryRowContext(context.WithoutCancel(ctx)).Scan(&version); err != nil {
			return err
		}
		ahead := f.s.waits.stir(version != last)
		last = version
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Duration(max(ahead, 1))*nearPause, farPause)):
		}
	}
}

// stir lets waiters look at their rows when the file has changed. Those with others ahead of them
// look less often. For each waiter of this process, a number of waiters is ahead of it. stir
// returns the smallest of these numbers.
func (w *waits) stir(changed bool) (fewest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	fewest = math.MaxInt32
	for _, list := range w.byName {
		for _, one := range list {
			fewest = min(fewest, one.ahead)
			one.stale = one.stale || changed
			rest := min(time.Duration(one.ahead)*restTime, maxRest)
			if one.stale && (one.ahead < 2 || now.Sub(one.stirred) >= rest) {
				one.stale, one.stirred = false, now
				signal(one.look)
			}
		}
	}
	return fewest
}

// noteAhead records how many others are ahead of a waiter.
func (w *waits) noteAhead(one *waiting, position int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.ahead = position
}

// watched reports whether a fileWatch is at work.
func (w *waits) watched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.channel == "" && w.listener != nil && w.listener.on
}
