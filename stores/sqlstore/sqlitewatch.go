package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/padlock-go/padlock/storekit"
)

// A fileWatch wakes waiters on SQLite, which has no notifications. PRAGMA data_version tells
// cheaply, without reading a table, whether another connection has changed the file. So each
// process with waiters has one connection that runs this pragma often. The waiters read their rows
// only after a change.
//
// A fileWatch is a Listener. So the store opens and closes the watch's connection by the same rules
// as PostgreSQL's connection for notifications.
type fileWatch struct{ s *Store }

const (
	// The watch runs the pragma every nearPause if one of this process's waiters is the first or
	// second in its queue. If all of them have more waiters ahead, the pauses are longer, up to
	// farPause.
	nearPause = 5 * time.Millisecond
	farPause  = 50 * time.Millisecond

	// After a look, a waiter ignores changes of the file for restTime times the number of waiters
	// ahead, but for at most maxRest. The first two waiters of a queue always look.
	restTime = 10 * time.Millisecond
	maxRest  = 200 * time.Millisecond

	// watchPool is the minimum number of connections in a pool that has a fileWatch. The fileWatch
	// needs one connection. A transaction of the caller may need another, and renewals need a
	// third.
	watchPool = 3

	// A file without a write-ahead log cannot be watched, because the pragma would lock the file
	// against the writer. Waiters then poll. The store tries the watch again after retryWatch.
	retryWatch = 10 * time.Minute
)

var errNoLog = errors.New("the file has no write-ahead log")

// canWatch reports whether a pool can spare a connection for a fileWatch.
func canWatch(e Engine, db *sql.DB) bool {
	most := db.Stats().MaxOpenConnections
	return e == SQLite && (most == 0 || most >= watchPool)
}

// Listen implements Listener. It ignores the channel, and wakes the waiters of its store itself.
func (f fileWatch) Listen(ctx context.Context, _ string, ready func(), _ func(string)) error {
	if err := f.s.rows.db.Here(ctx); err != nil {
		return err
	}
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
		storekit.Sleep(ctx, retryWatch)
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
		// Drivers start a goroutine for each context that can end. To avoid that, the statement
		// gets a context that cannot end. The pragma itself never waits.
		if err := look.QueryRowContext(context.WithoutCancel(ctx)).Scan(&version); err != nil {
			return err
		}
		if err := f.s.rows.db.Here(ctx); err != nil {
			return err
		}
		ahead := f.s.local.stir(version != last)
		last = version
		if !storekit.Sleep(ctx, min(time.Duration(max(ahead, 1))*nearPause, farPause)) {
			return ctx.Err()
		}
	}
}

// stir makes waiters look at their rows after the file has changed. The position of a waiter is the
// number of waiters ahead of it in its queue. A waiter with a higher position looks less often.
// stir returns the lowest position.
func (w *localWaiters) stir(changed bool) (fewest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	fewest = math.MaxInt32
	for _, list := range w.byName {
		for _, one := range list {
			fewest = min(fewest, one.ahead)
			one.stale = one.stale || changed
			rest := min(time.Duration(one.ahead)*restTime, maxRest)
			if one.stale && (one.ahead < 2 || now.Sub(one.toldAt) >= rest) {
				one.stale, one.toldAt = false, now
				signal(one.look)
			}
		}
	}
	return fewest
}

// noteAhead records how many others are ahead of a waiter.
func (w *localWaiters) noteAhead(one *localWaiter, position int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.ahead = position
}

// watched reports whether a fileWatch wakes the waiters.
func (w *localWaiters) watched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.channel == "" && w.conn != nil && w.conn.on
}
