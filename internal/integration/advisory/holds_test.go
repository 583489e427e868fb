package advisory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// The end of a session ends its holds, and the holders learn it, however the store was opened.
func TestSessionKilled(t *testing.T) {
	on(t, func(t *testing.T, sys *system) {
		url, job := sys.shared(t).URL(), t.Name()
		a, b, r := sys.mustOpen(t, url, sys.short), sys.mustOpen(t, url, ""), request(job)
		g := take(t, a, r)
		db := sys.db(t, url)
		session := ask[int64](t, db, sys.session(job))
		bound := take(t, a, request(job+" other")).Bound
		run(t, db, fmt.Sprintf(sys.kill, session))
		ends(t, g.Bound)
		ends(t, bound) // all holds of a connection end with it
		if _, err := a.Extend(t.Context(), job, r.Token.Text(), 0); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Extend: %v", err)
		}
		_, later := eventually(t, b, job)
		safety.Rises(t, later.Fence, g.Fence)
		if out, err := a.Release(t.Context(), job, r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
			t.Errorf("Release: %v, %v", out, err)
		}
	}, postgres, mariadb, pool)
}

// The server frees the locks of a process that was killed. Until then, other callers learn who
// the holder is.
func TestHolderKilled(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		url, job := sys.shared(t).URL(), t.Name()
		s := sys.mustOpen(t, url, "")
		holder := startChild(t, sys, "hold", url, job)
		held := refused(t, s, request(job))
		if len(held.Holds) != 1 || held.Foreign() {
			t.Fatalf("a child has the lock; the error says %+v", held.Holds)
		}
		switch h := held.Holds[0]; {
		case sys == postgres && h.PID != holder.process.Pid: // the server knows the process
			t.Errorf("process %d has the lock; the error says %+v", holder.process.Pid, h)
		case sys == mariadb && (h.Label != "report.sh" || h.PID != 4121 || h.Since.IsZero()): // the table knows the holder
			t.Errorf("a child has the lock; the error says %+v", h)
		}
		noError(t, holder.process.Kill())
		eventually(t, s, job)
	})
}

// A process that was stopped while it waited is granted the lock by the server, which takes it
// back.
func TestWaiterStopped(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		url, job := sys.shared(t).URL(), t.Name()
		s, r := sys.mustOpen(t, url, ""), request(job)
		take(t, s, r)
		waiter := startChild(t, sys, "wait", url, job)
		sys.queued(t, sys.db(t, url), 1)
		server.StopProcess(t, waiter.process.Pid)
		release(t, s, r)
		eventually(t, s, job)
	})
}

// A process that was stopped while it holds the lock loses it, and learns that when it goes on.
func TestHolderStopped(t *testing.T) {
	server.Thorough(t)
	each(t, func(t *testing.T, sys *system) {
		url, job := sys.shared(t).URL(), t.Name()
		s := sys.mustOpen(t, url, "")
		holder := startChild(t, sys, "hold", url, job)
		server.StopProcess(t, holder.process.Pid)
		refused(t, s, request(job))
		eventually(t, s, job)
		noError(t, holder.process.Signal(syscall.SIGCONT))
		holder.says("lost")
	})
}

// Waits that are cancelled, in the queue or on their way to it, leave nothing in the server.
func TestCancelledWaits(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		url, job := sys.shared(t).URL(), t.Name()
		a, b, r := sys.mustOpen(t, url, ""), sys.mustOpen(t, url, ""), request(job)
		take(t, a, r)
		db := sys.db(t, url)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if _, err := b.Wait(ctx, request(job), true); !errors.Is(err, context.Canceled) {
					t.Errorf("Wait: %v", err)
				}
			})
		}
		sys.queued(t, db, 6)
		cancel()
		wg.Wait()
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
			if _, err := b.Wait(ctx, request(job), true); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait: %v", err)
			}
			cancel()
		}
		release(t, a, r)
		until(t, "no lock is left", func() bool { return ask[int](t, db, sys.locks) == 0 })
		eventually(t, a, job)
	})
}
