package advisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// A waiter is a call of Wait that is running.
type waiter struct {
	r      driver.Request
	s      store
	cancel context.CancelFunc
	done   chan error // gets nil if the lock was granted, and then claimed
}

// waitFor waits for a lock until it is granted or canceled, and claims it.
func waitFor(t testing.TB, s store, r driver.Request) *waiter {
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiter{r, s, cancel, make(chan error, 1)}
	t.Cleanup(cancel)
	go func() {
		for {
			g, err := s.Wait(ctx, r, true)
			if err == nil && g.TTL > 0 {
				_, err = s.Acquire(ctx, r)
				w.done <- err
				return
			}
			if err != nil {
				w.done <- err
				return
			}
		}
	}()
	return w
}

func (w *waiter) isServed() bool { return len(w.done) > 0 }

// granted returns when the waiter has the lock.
func (w *waiter) granted(t testing.TB) {
	t.Helper()
	until(t, "a grant of "+w.r.Name, w.isServed)
	noError(t, <-w.done)
}

// waiters starts n waiters of as many stores as they need, one after the other.
func waiters(t testing.TB, sys *system, url string, n int, query string, r func() driver.Request) (all []*waiter) {
	t.Helper()
	db := sys.db(t, url)
	var s store
	for i := range n {
		if i%7 == 0 { // a store has room for 8
			s = sys.mustOpen(t, url, query)
		}
		all = append(all, waitFor(t, s, r()))
		sys.queued(t, db, i+1)
	}
	return all
}

// places are the locks that stand for the places in the line of a name, the only one in use.
func places(t testing.TB, s store, name string) string {
	t.Helper()
	lock, err := s.Location(name)
	noError(t, err)
	return "FROM " + advisoryLocks + " AND granted AND mode = 'ExclusiveLock' AND classid::bigint << 32 | objid::bigint <> " + lock
}

// end cancels waiters, and returns when they have gone.
func end(all []*waiter) {
	for _, w := range all {
		w.cancel()
	}
	for _, w := range all {
		<-w.done
	}
}

// anotherSlice returns when each of n waiters has begun a new transaction.
func anotherSlice(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	now := ask[string](t, db, "SELECT clock_timestamp()::text")
	until(t, "another slice of each waiter", func() bool {
		return ask[int](t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory' AND xact_start > $1::timestamptz", now) == n
	})
}

// A statement that waits for all older snapshots, and one that removes what no snapshot sees, end
// while others wait for a lock.
func TestWaitersHaveNoSnapshot(t *testing.T) {
	t.Parallel()
	for n, query := range map[int]string{1: "", 20: "", 2: "layout=symfony"} {
		t.Run(fmt.Sprint(n, query), func(t *testing.T) {
			t.Parallel()
			url := postgres.shared(t).URL()
			db := postgres.db(t, url)
			run(t, db, "CREATE TABLE t AS SELECT a FROM generate_series(1, 1000) a", "CREATE INDEX j ON t (a)", "CREATE TABLE u AS SELECT a FROM t")
			s, job := postgres.mustOpen(t, url, query), request("migration")
			take(t, s, job)
			all := waiters(t, postgres, url, n, query, func() driver.Request { return request("migration") })

			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			for _, statement := range []string{"CREATE INDEX CONCURRENTLY i ON t (a)", "REINDEX INDEX CONCURRENTLY j", "DROP INDEX CONCURRENTLY i"} {
				if _, err := db.ExecContext(ctx, statement); err != nil {
					t.Fatalf("%s beside %d waiters: %v", statement, n, err)
				}
			}
			run(t, db, "DELETE FROM u")
			until(t, "VACUUM removes the deleted rows", func() bool {
				run(t, db, "VACUUM u")
				return ask[int](t, db, "SELECT pg_relation_size('u')") == 0
			})
			end(all)
		})
	}
}

// Waiters get a lock in the order in which they came, although each of them waits in slices.
func TestWaitersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	url := postgres.shared(t).URL()
	db, s, job := postgres.db(t, url), postgres.mustOpen(t, url, ""), request("job")
	take(t, s, job)
	all := waiters(t, postgres, url, 20, "", func() driver.Request { return request("job") })
	for _, leaves := range []int{0, 7, 8} { // the first one, and two in a row
		all[leaves].cancel()
		<-all[leaves].done
	}
	all = slices.Concat(all[1:7], all[9:])
	anotherSlice(t, db, len(all))
	// The session of one more ends, and with it its place.
	fifth := ask[int](t, db, "SELECT pid "+places(t, s, "job")+" ORDER BY (classid, objid) LIMIT 1 OFFSET 4")
	run(t, db, fmt.Sprintf(postgres.kill, fifth))
	postgres.queued(t, db, len(all))
	all = slices.Concat(all[:4], all[5:], all[4:5])
	anotherSlice(t, db, len(all))
	release(t, s, job)
	for i, w := range all {
		w.granted(t)
		for j, later := range all[i+1:] {
			if later.isServed() {
				safety.TwoHold(t, "waiter %d has the lock of waiter %d", i+1+j, i)
				t.FailNow()
			}
		}
		release(t, w.s, w.r)
	}
}

// A writer that waits is not overtaken by readers that come later, although it waits in slices.
func TestWriterBetweenReaders(t *testing.T) {
	t.Parallel()
	url := postgres.shared(t).URL()
	db, s, first := postgres.db(t, url), postgres.mustOpen(t, url, ""), reader("job")
	take(t, s, first)
	writer := waiters(t, postgres, url, 1, "", func() driver.Request { return request("job") })[0]
	later := []*waiter{waitFor(t, s, reader("job")), waitFor(t, s, reader("job"))}
	postgres.queued(t, db, 3)
	anotherSlice(t, db, 3)
	anotherSlice(t, db, 3)
	release(t, s, first)
	writer.granted(t)
	for _, l := range later {
		if l.isServed() {
			t.Error("a reader has overtaken the writer")
		}
	}
	release(t, writer.s, writer.r)
	for _, l := range later {
		l.granted(t)
	}
}

// Sessions of other programs wait in one statement each. A waiter of padlock's gets the lock when
// their queue is empty.
func TestWaiterBesideOtherPrograms(t *testing.T) {
	t.Parallel()
	url := postgres.shared(t).URL()
	db, s := postgres.db(t, url), postgres.mustOpen(t, url, "layout=number")
	session := func() *sql.Conn {
		c, err := db.Conn(t.Context())
		noError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	on := func(c *sql.Conn, statement string) {
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	holder := session()
	on(holder, "SELECT pg_advisory_lock(7)")
	ours := waitFor(t, s, request("7"))
	postgres.queued(t, db, 1)
	var turns [3]chan *sql.Conn
	for i := range turns {
		turns[i] = make(chan *sql.Conn, 1)
		go func() {
			c := session()
			on(c, "SELECT pg_advisory_lock(7)")
			turns[i] <- c
		}()
		postgres.queued(t, db, i+2)
	}
	anotherSlice(t, db, 1) // now they stand in front
	for _, turn := range turns {
		on(holder, "SELECT pg_advisory_unlock(7)")
		holder = <-turn
		if ours.isServed() {
			safety.TwoHold(t, "two sessions have the lock")
		}
	}
	on(holder, "SELECT pg_advisory_unlock(7)")
	ours.granted(t)
}

// A line without room is no line, but its waiters are served.
func TestFullLine(t *testing.T) {
	t.Parallel()
	url := postgres.shared(t).URL()
	db, s, job := postgres.db(t, url), postgres.mustOpen(t, url, ""), request("job")
	take(t, s, job)
	all := waiters(t, postgres, url, 1, "", func() driver.Request { return request("job") })
	takeLast := "SELECT pg_try_advisory_lock(max(classid::bigint << 32 | objid::bigint) + 1048574) " + places(t, s, "job")
	c, err := db.Conn(t.Context())
	noError(t, err)
	defer c.Close()
	var taken bool
	noError(t, c.QueryRowContext(t.Context(), takeLast).Scan(&taken))
	if !taken {
		t.Fatal("the last place of the line is taken")
	}
	all = append(all, waitFor(t, s, request("job")), waitFor(t, s, request("job")))
	postgres.queued(t, db, 3)
	release(t, s, job)
	for left := all; len(left) > 0; {
		until(t, "a grant", func() bool { return slices.ContainsFunc(left, (*waiter).isServed) })
		i := slices.IndexFunc(left, (*waiter).isServed)
		left[i].granted(t)
		release(t, left[i].s, left[i].r)
		left = slices.Delete(left, i, i+1)
	}
}

// On a server without PL/pgSQL, waiters and promotions do their work too.
func TestWithoutPLpgSQL(t *testing.T) {
	t.Parallel()
	url := postgres.shared(t).URL()
	run(t, postgres.db(t, url), "DROP EXTENSION plpgsql")
	s, job := postgres.mustOpen(t, url, ""), request("job")
	take(t, s, job)
	w := waitFor(t, s, request("job"))
	release(t, s, job)
	w.granted(t)
	release(t, s, w.r)
	first, second := reader("job"), reader("job")
	take(t, s, first)
	take(t, s, second)
	first.Shared = false
	convert := func() error {
		_, err := s.(driver.Converter).Convert(t.Context(), first)
		return err
	}
	if err := convert(); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("promotion beside another reader: %v", err)
	}
	release(t, s, second)
	until(t, "the promotion", func() bool { return convert() == nil })
	release(t, s, first)
}

// A process is stopped while it waits. Its place in the line is given up, so that the one behind it
// gets its turn.
func TestWaiterStoppedInTheLine(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	url := postgres.shared(t).URL()
	db, s, job := postgres.db(t, url), postgres.mustOpen(t, url, ""), request("job")
	take(t, s, job)
	stopped := startChild(t, postgres, "wait", url, "job")
	postgres.queued(t, db, 1)
	behind := waitFor(t, s, request("job"))
	postgres.queued(t, db, 2)
	server.StopProcess(t, stopped.process.Pid)
	release(t, s, job)
	behind.granted(t)
	release(t, s, behind.r)
}

var complaint = regexp.MustCompile("(?i)ERROR|FATAL|WARNING")

// The server has nothing to complain about in its log, however a wait ends.
func TestServerLogIsSilent(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		srv := sys.own(t)
		url := srv.URL()
		db, a := sys.db(t, url), sys.mustOpen(t, url, "")
		b, err := sys.open(t.Context(), url, sys.patient)
		noError(t, err)
		job := request("job")
		take(t, a, job)
		before := len(srv.Log())
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if _, err := b.Wait(ctx, request("job"), true); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a wait that ends by its time-out: %v", err)
				}
			})
		}
		wg.Wait()
		canceled := []*waiter{waitFor(t, b, request("job")), waitFor(t, b, request("job"))}
		sys.queued(t, db, 2)
		end(canceled)
		granted := waitFor(t, b, request("job"))
		sys.queued(t, db, 1)
		if sys == mariadb {
			holdUpNothing(t, db)
		}
		release(t, a, job)
		granted.granted(t)
		if sys == postgres {
			promoteInVain(t, a, b)
		}
		closed := waitFor(t, a, request("job"))
		sys.queued(t, db, 1)
		noError(t, a.Close())
		if err := <-closed.done; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("a wait that Close ends: %v", err)
		}
		noError(t, b.Close())
		until(t, "the sessions have gone", func() bool { return ask[int](t, db, sys.locks) == 0 })
		for line := range strings.Lines(srv.Log()[before:]) {
			if complaint.MatchString(line) {
				t.Errorf("the server's log: %s", line)
			}
		}
	})
}

// promoteInVain asks for a promotion while another process reads.
func promoteInVain(t *testing.T, s, elsewhere store) {
	t.Helper()
	one, other := reader("both"), reader("both")
	take(t, s, one)
	take(t, elsewhere, other)
	one.Shared = false
	for range 3 {
		if _, err := s.(driver.Converter).Convert(t.Context(), one); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("promotion beside another reader: %v", err)
		}
	}
	release(t, s, one)
	release(t, elsewhere, other)
}

// holdUpNothing checks that a waiter on MariaDB holds up no change of a table, no backup and no
// purge: it has no transaction and no lock of a table.
func holdUpNothing(t *testing.T, db *sql.DB) {
	t.Helper()
	c, err := db.Conn(t.Context())
	noError(t, err)
	defer c.Close()
	for _, statement := range []string{"SET lock_wait_timeout = 20", "ALTER TABLE padlock_fences COMMENT = 'changed'",
		"FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END"} {
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if n := ask[int](t, db, "SELECT COUNT(*) FROM information_schema.innodb_trx"); n != 0 {
		t.Errorf("%d transactions are open, which a purge waits for", n)
	}
}
