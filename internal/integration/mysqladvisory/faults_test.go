package mysqladvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
)

// KILL ends a hold, and its holder learns it, however the store was opened.
func TestKilledConnection(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(dsn string) *mysqladvisory.Store{
		"url":  func(dsn string) *mysqladvisory.Store { return mustOpenURL(t, dsn, "") },
		"pool": func(dsn string) *mysqladvisory.Store { return mustOpen(t, dsn, mysqladvisory.LossDelay(5*time.Second)) }, // its pings find the end
	} {
		t.Run(name, func(t *testing.T) {
			dsn := server.SharedMariaDB(t).URL()
			a, b, r := start(dsn), mustOpen(t, dsn), request("job")
			g, other := take(t, a, r), request("other")
			bound := take(t, a, other).Bound
			_, session := lockOf(t, dsn, "job")
			run(t, dsn, "KILL "+strconv.FormatInt(session, 10))
			ends(t, g.Bound)
			ends(t, bound) // all holds of a connection end with it
			if _, err := a.Extend(t.Context(), "job", r.Token, 0); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Extend: %v", err)
			}
			if _, later := eventually(t, b, "job"); later.Fence <= g.Fence {
				t.Errorf("SAFETY: the fence was %d, and is %d after the kill", g.Fence, later.Fence)
			}
			if out, err := a.Release(t.Context(), "job", r.Token, 0); out != driver.OutcomeGone || err != nil {
				t.Errorf("Release: %v, %v", out, err)
			}
		})
	}
}

// If a proxy resets the session, its locks are gone, and Extend notices. Extend also notices the
// loss of one lock.
func TestSessionReset(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	for _, one := range []bool{false, true} {
		var reset atomic.Pointer[string]
		s := mustOpenThrough(t, &multiplexer{dsn: dsn, before: func(string) string {
			if statement := reset.Swap(nil); statement != nil {
				return *statement
			}
			return ""
		}})
		r := request(fmt.Sprint("job ", one))
		g := take(t, s, r)
		statement := "DO RELEASE_ALL_LOCKS()"
		if lock, _ := lockOf(t, dsn, r.Name); one {
			statement = "DO RELEASE_LOCK('" + lock + "')"
		}
		reset.Store(&statement)
		if _, err := s.Extend(t.Context(), r.Name, r.Token, 0); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Extend after %s: %v", statement, err)
		}
		ends(t, g.Bound)
	}
}

// A deadlock that the server finds is a refusal. MariaDB and MySQL have different numbers for it.
func TestDeadlockIsARefusal(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	for _, n := range []uint16{1213, 3058} {
		var found atomic.Bool
		s := mustOpenThrough(t, &multiplexer{dsn: dsn, fail: func(query string) error {
			if found.Load() && strings.HasPrefix(query, "SELECT GET_LOCK") {
				return &mysql.MySQLError{Number: n, Message: "deadlock"}
			}
			return nil
		}})
		r := request("job")
		g := take(t, s, request(fmt.Sprint("other ", n)))
		found.Store(true)
		refused(t, s, r)
		found.Store(false)
		take(t, s, r)
		release(t, s, r)
		if g.Bound.Err() != nil {
			t.Error("the refusal ended the connection")
		}
	}
}

// If the reply to a try is lost with the connection, and the session stays behind in the server
// with the lock, the same token ends that session and gets the lock. No other hold ends.
func TestSessionLeftBehind(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	var lost atomic.Bool
	s := mustOpenThrough(t, &multiplexer{dsn: dsn, lose: func(query string) bool {
		return strings.HasPrefix(query, "SELECT GET_LOCK") && lost.CompareAndSwap(true, false)
	}})
	bystander := mustOpen(t, dsn)
	g, r := take(t, bystander, request("bystander")), request("job")
	lost.Store(true)
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Acquire whose reply was lost: %v", err)
	}
	refused(t, bystander, request("job"))
	until(t, "a grant for the same token", func() bool {
		_, err := s.Acquire(t.Context(), r)
		if errors.Is(err, driver.ErrHeld) {
			t.Fatal("the same token is refused because of its own session")
		}
		return err == nil
	})
	if g.Bound.Err() != nil {
		t.Error("another process lost its hold")
	}
	release(t, s, r)
}

// The server frees the locks of a process that was killed. Before that, the server tells other
// callers who the holder is.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	s := mustOpen(t, dsn)
	holder := startChild(t, "hold", dsn)
	held := refused(t, s, request("job"))
	if len(held.Holds) != 1 || held.Holds[0].Label != "report.sh" || held.Holds[0].PID != 4121 || held.Holds[0].Since.IsZero() || held.Foreign() {
		t.Errorf("a child has the lock; the error says %+v", held.Holds)
	}
	noError(t, holder.process.Kill())
	eventually(t, s, "job")
}

// A process that was stopped while it waited is granted the lock by the server, which takes it
// back.
func TestWaiterStopped(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	s, r := mustOpen(t, dsn), request("job")
	take(t, s, r)
	waiter := startChild(t, "wait", dsn)
	queued(t, dsn, 1)
	noError(t, waiter.process.Signal(syscall.SIGSTOP))
	release(t, s, r)
	eventually(t, s, "job")
}

// A process that was stopped while it holds the lock loses it after the SessionTimeout, and learns
// that when it goes on.
func TestHolderStopped(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	s := mustOpen(t, dsn)
	holder := startChild(t, "hold", dsn)
	noError(t, holder.process.Signal(syscall.SIGSTOP))
	refused(t, s, request("job"))
	eventually(t, s, "job")
	noError(t, holder.process.Signal(syscall.SIGCONT))
	holder.says("lost")
}

// A store has as many holds as MaxHolds says, and not more.
func TestMaxHolds(t *testing.T) {
	t.Parallel()
	s := mustOpenURL(t, server.SharedMariaDB(t).URL(), "max-holds=4")
	for i := range 4 {
		take(t, s, request(strconv.Itoa(i)))
	}
	if _, err := s.Acquire(t.Context(), request("one more")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "MaxHolds") {
		t.Errorf("one hold more than MaxHolds: %v", err)
	}
}

// A wait that is cancelled leaves nothing in the server's queue.
func TestCancelledWaits(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	a, b, r := mustOpen(t, dsn), mustOpenURL(t, dsn, ""), request("job")
	take(t, a, r)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := b.Wait(ctx, request("job"), true); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: %v", err)
			}
		})
	}
	queued(t, dsn, 6)
	cancel()
	wg.Wait()
	until(t, "nobody waits", func() bool { return waiting(t, dsn) == 0 })
	release(t, a, r)
	eventually(t, a, "job")
}

// No connection goes back to the pool: neither one that was lost, nor one that waited, nor those of
// a store that is closed. Another user of the pool would get its settings and perhaps its locks.
func TestNotPooled(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	db, err := sql.Open("mysql", dsn)
	noError(t, err)
	defer db.Close()
	s, err := mysqladvisory.Open(t.Context(), db)
	noError(t, err)
	r := request("job")
	g := take(t, s, r)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Wait(ctx, request("job"), true) })
	queued(t, dsn, 1)
	cancel()
	wg.Wait()
	_, session := lockOf(t, dsn, "job")
	run(t, dsn, "KILL "+strconv.FormatInt(session, 10))
	ends(t, g.Bound)
	take(t, s, request("another job"))
	if n := db.Stats().Idle; n != 0 {
		t.Errorf("%d connections went back to the pool", n)
	}
	s.Close()
	until(t, "no connection is left", func() bool { return db.Stats().OpenConnections == 0 })
}

// A pool that is too small for the store is an error, and not a wait for ever.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", server.SharedMariaDB(t).URL())
	noError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(12)
	if _, err := mysqladvisory.Open(t.Context(), db); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "SetMaxOpenConns") {
		t.Errorf("a pool of 12: %v", err)
	}
}
