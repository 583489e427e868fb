package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// A row remembers the last fence of its name, so that the next fence is higher. The row stays in
// the table after the name has become free, or after its holder has died. Once its fence is old
// enough, the row is removed. Without a row, the next fence is the server's time, which is higher
// than every old fence. That is true even if the clock was set back by an hour, because every row
// stays for at least minKeep.
const (
	// minKeep is more than an hour, in case somebody sets the clock back to winter time.
	minKeep     = 65 * time.Minute
	defaultKeep = 24 * time.Hour

	pruneRows  = 500         // rows at a time
	prunePause = time.Second // between batches
	// pruneEvery is how often the tables are swept, no matter how many processes share them.
	pruneEvery = time.Hour
)

// Keep sets how long the row of a name stays in the table after the name was last used. The default
// is 24 hours. The time is at least 65 minutes: less counts as 65 minutes, and there is no error.
// With 0 or less, no row is ever removed. One of the processes that share the table removes old
// rows in the background, at most 500 a second.
func Keep(d time.Duration) Option {
	return func(c *config) {
		if c.keep = max(d, minKeep); d <= 0 {
			c.keep = -1
		}
	}
}

func (c *config) keepFor() time.Duration {
	if c.keep == 0 {
		return defaultKeep
	}
	return c.keep
}

// pruneInBackground prunes from time to time, until Close.
func (s *Store) pruneInBackground() {
	storekit.Regularly(s.calls.Closing, pruneEvery, func() {
		if mine, err := s.pruneIsDue(s.calls.Closing); mine && err == nil {
			_, _ = s.sweep(s.calls.Closing, prunePause) // the next sweep tries again
			_ = s.pruneRecords(s.calls.Closing)         // there may be no such table
		}
	})
}

// pruneIsDue returns true if this process must sweep the table now: the last sweep was long ago,
// and no other process has started one.
func (s *Store) pruneIsDue(ctx context.Context) (bool, error) {
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	t := &s.rows
	const setting = "swept"
	text, err := s.setting(ctx, setting)
	if errors.Is(err, sql.ErrNoRows) {
		return dbms.Changed(t.db.ExecContext(ctx, t.sql.prune.begin, setting, strconv.FormatInt(time.Now().UnixMicro(), 10)))
	}
	if err != nil {
		return false, err
	}
	last, err := strconv.ParseInt(text, 10, 64)
	now := time.Now()
	if err == nil && now.Sub(time.UnixMicro(last)).Abs() < pruneEvery {
		return false, nil
	}
	return dbms.Changed(t.db.ExecContext(ctx, t.sql.prune.again, strconv.FormatInt(now.UnixMicro(), 10), setting, text))
}

// sweep goes through the table in the order of the names and removes old rows.
func (s *Store) sweep(ctx context.Context, pause time.Duration) (removed int, err error) {
	keep := s.cfg.keepFor()
	if keep < 0 {
		return 0, nil
	}
	after := []byte{}
	for {
		list, err := s.pruneList(ctx, after, keep)
		if err != nil || len(list) == 0 {
			return removed, err
		}
		n, err := s.remove(ctx, list, keep)
		removed += n
		if err != nil {
			return removed, err
		}
		if len(list) < pruneRows || pause > 0 && !storekit.Sleep(s.calls.Closing, pause) {
			return removed, nil
		}
		after = list[len(list)-1].name
	}
}

// An oldRow is a row that has not been used for a long time.
type oldRow struct {
	name    []byte
	version int64
}

func (s *Store) pruneList(ctx context.Context, after []byte, keep time.Duration) (list []oldRow, err error) {
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	rows, err := s.rows.db.QueryContext(ctx, s.rows.sql.prune.list, append([]any{after}, isOld(keep)...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r oldRow
		if err := rows.Scan(&r.name, &r.version); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// isOld returns the arguments of the SQL condition that selects old rows.
func isOld(keep time.Duration) []any {
	d := keep.Microseconds()
	return []any{[]byte{}, d, d, d, d}
}

// remove deletes the rows in the list. It leaves out rows that were used after the list was read,
// and rows that a transaction has locked. MySQL waits for a locked row until a time-out. The other
// engines, including MariaDB, do not wait.
func (s *Store) remove(ctx context.Context, list []oldRow, keep time.Duration) (n int, err error) {
	if s.engine == MySQL {
		for _, r := range list {
			ok, err := s.rows.removeOne(ctx, r)
			if ok {
				n++
			}
			if v := dbms.Judge(err); err != nil && v != dbms.RowLocked && v != dbms.Again {
				return n, err
			}
		}
		return n, nil
	}
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	args := make([]any, 0, pruneRows+5)
	for i := range pruneRows {
		args = append(args, list[min(i, len(list)-1)].name) // the last name is repeated, so that all batches use the same text
	}
	args = append(args, isOld(keep)...)
	if s.engine == PostgreSQL {
		err = s.rows.db.QueryRowContext(ctx, s.rows.sql.prune.remove, args...).Scan(&n)
		return n, err
	}
	res, err := s.rows.db.ExecContext(ctx, s.rows.sql.prune.remove, args...)
	if err != nil {
		return 0, err
	}
	removed, err := res.RowsAffected()
	return int(removed), err
}

// removeOne deletes both rows of a name on MySQL. The statement finds each row by its key. So MySQL
// locks only these rows, and not the gaps between keys, where other processes insert rows. On
// MariaDB the statement does not wait for locked rows.
func (t *table) removeOne(ctx context.Context, r oldRow) (bool, error) {
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	text := t.sql.prune.remove
	if t.mariaDB.Load() {
		text = noLockWait + text
	}
	return dbms.Changed(t.db.ExecContext(ctx, text, r.name, r.version))
}

// pruneRecords removes the records of names that nobody has used for a long time.
func (s *Store) pruneRecords(ctx context.Context) error {
	ctx, cancel := dbms.Bound(ctx)
	defer cancel()
	_, err := s.rows.db.ExecContext(ctx, s.rows.sql.records.prune, fast.RecordKeep.Microseconds())
	return err
}

// pruneStatements are the statements that remove rows.
type pruneStatements struct {
	list, remove string
	begin, again string
}

func newPruneStatements(d *dialect, t tables) pruneStatements {
	// A fence may be greater than the clock. Then its row stays until the clock is greater than the
	// fence.
	old := "(token = ? OR until < " + d.now + " - ?) AND busy < " + d.now + " - ? AND since < " + d.now + " - ? AND fence < " + d.now + " - ?"
	st := pruneStatements{
		list:  d.bind("SELECT name, version FROM " + t.locks + " WHERE name > ? AND " + old + " ORDER BY name LIMIT " + strconv.Itoa(pruneRows)),
		begin: d.bind("INSERT INTO " + t.meta + " (setting, value) VALUES (?, ?)"),
		again: d.bind("UPDATE " + t.meta + " SET value = ? WHERE setting = ? AND value = ?"),
	}
	names := "name IN (?" + strings.Repeat(", ?", pruneRows-1) + ")"
	switch d {
	case dialects[PostgreSQL]:
		st.remove = d.bind("WITH l AS MATERIALIZED (SELECT name FROM " + t.locks + " WHERE " + names + " AND " + old + " FOR UPDATE SKIP LOCKED), " +
			"g AS MATERIALIZED (SELECT name FROM " + t.grants + " WHERE name IN (SELECT name FROM l) FOR UPDATE SKIP LOCKED), " +
			"d AS (DELETE FROM " + t.grants + " WHERE name IN (SELECT name FROM g)), " +
			"e AS (DELETE FROM " + t.locks + " WHERE name IN (SELECT name FROM g) RETURNING 1) SELECT count(*) FROM e")
	case dialects[MySQL]:
		st.remove = "DELETE l, g FROM " + t.grants + " AS g STRAIGHT_JOIN " + t.locks + " AS l ON l.name = g.name WHERE g.name = ? AND l.version = ?"
	case dialects[SQLite]:
		st.remove = "DELETE FROM " + t.locks + " WHERE " + names + " AND " + old
	}
	return st
}
