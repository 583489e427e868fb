package advisory_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

const (
	// age makes the rows of all names look as if they had last been used two days ago.
	age = "UPDATE padlock_fences SET fence = fence - 172800000000 WHERE fence > 172800000000 AND name <> 'last sweep of this table'"
	// names counts the rows of names.
	names = "SELECT COUNT(*) FROM padlock_fences WHERE name NOT IN ('version of this table', 'last sweep of this table')"
	// versions counts the rows with the version.
	versions = "SELECT COUNT(*) FROM padlock_fences WHERE name = 'version of this table'"
)

// Old rows of free names go, in batches. Rows of names that are held, of names with a recent fence
// and of names whose fence is ahead of the clock stay. No fence falls.
func TestPrune(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		at := sys.shared(t).URL()
		s, other, db := sys.mustOpen(t, at, ""), sys.mustOpen(t, at, ""), sys.db(t, at)
		run(t, db, sys.noSweep...) // which begins 10 to 20 s after a store was opened
		fences := map[string]uint64{}
		old := 150
		if server.IsThorough() {
			old = 1200 // several batches
		}
		for i := range old {
			r := request(fmt.Sprint(t.Name(), i))
			fences[r.Name] = take(t, s, r).Fence
			release(t, s, r)
		}
		held, read := request(t.Name()+"held"), request(t.Name()+"read")
		read.Shared = sys == postgres
		take(t, s, held)
		fence := take(t, s, read).Fence
		run(t, db, age)
		ahead := request(t.Name() + "ahead")
		ahead.FenceAbove = 1 << 52
		for _, r := range []driver.Request{ahead, request(t.Name() + "recent")} {
			take(t, s, r)
			release(t, s, r)
		}
		if n, err := other.Prune(t.Context()); n != old || err != nil {
			t.Errorf("%d rows were removed, %v; want %d", n, err, old)
		}
		if n, err := s.Prune(t.Context()); n != 0 || err != nil {
			t.Errorf("%d rows were removed by a second sweep, %v", n, err)
		}
		if n := ask[int](t, db, names); n != 4 {
			t.Errorf("%d names have a row, want 4", n)
		}
		if n := ask[int](t, db, versions); n != 1 {
			t.Errorf("%d rows have the version", n)
		}
		if read.Shared {
			if g := take(t, other, reader(read.Name)); g.Fence != fence-172800000000 {
				t.Errorf("a reader that joins another one has fence %d, the other has %d", g.Fence, fence)
			}
		}
		for name, last := range fences {
			safety.Rises(t, take(t, other, request(name)).Fence, last, name)
		}
	})
}

// Processes take names while others age the rows and prune. Fences never fall and nobody is
// refused by a sweep.
func TestPruneUnderLoad(t *testing.T) { each(t, pruneUnderLoad) }

func pruneUnderLoad(t *testing.T, sys *system) {
	at := sys.shared(t).URL()
	const query = "loss-delay=60s" // a store waits for a row for a fifth of that
	stores := []store{sys.mustOpen(t, at, query), sys.mustOpen(t, at, query)}
	db := sys.db(t, at)
	var working, pruning sync.WaitGroup
	done := make(chan struct{})
	var removed atomic.Int64
	pruning.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			run(t, db, age)
			n, err := stores[i%2].Prune(context.Background())
			if err != nil {
				t.Error(err)
			}
			removed.Add(int64(n))
		}
	})
	var last [4]uint64
	use := func(times int) {
		for i := range last {
			working.Go(func() {
				for range times {
					r := request(fmt.Sprint(t.Name(), i))
					g, err := stores[i%2].Acquire(context.Background(), r)
					if err != nil {
						t.Error(err)
						return
					}
					safety.Rises(t, g.Fence, last[i])
					last[i] = g.Fence
					release(t, stores[i%2], r)
				}
			})
		}
		working.Wait()
	}
	use(100)
	// A sweep passes over the rows of held names, and until now it may have met no others.
	until(t, "a row is removed", func() bool { return removed.Load() > 0 })
	use(10)
	close(done)
	pruning.Wait()
}

// The table has a version. A table of a newer padlock is refused, and the error says what to do. A
// table without a version is that of version 1.
func TestVersions(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		at, job := sys.shared(t).URL(), t.Name()
		u, db := sys.url(at, ""), sys.db(t, at)
		statements, err := sys.scheme.Schema(u)
		if err != nil || len(statements) != 2 || !strings.Contains(statements[0], ".") {
			t.Errorf("Schema: %q, %v", statements, err)
		}
		take(t, sys.mustOpen(t, at, ""), request(job+" makes the table"))
		if n := ask[int](t, db, versions); n != 1 {
			t.Errorf("%d rows have the version", n)
		}
		run(t, db, "DELETE FROM padlock_fences")
		take(t, sys.mustOpen(t, at, ""), request(job))
		run(t, db, statements...)
		if n := ask[int](t, db, versions); n != 1 {
			t.Errorf("%d rows have the version", n)
		}
		run(t, db, "UPDATE padlock_fences SET fence = 2 WHERE name = 'version of this table'")
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "install the newest padlock") {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = sys.open(t.Context(), at, "")
		refused("Open", err)
		_, err = sys.mustOpen(t, at, "lazy=yes").Acquire(t.Context(), request(job+" lazy"))
		refused("the first call of a lazy store", err)
		take(t, sys.mustOpen(t, at, "fences=no"), request(job+" without a fence"))
	})
}

// A user without any rights can take locks without fences. With fences, the error tells the user
// what to do. With a table that an administrator made, the user needs no right to delete: only its
// own sweep fails.
func TestRights(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		at, job := sys.shared(t).URL(), t.Name()
		db, user := sys.db(t, at), "u"+strings.ToLower(rand.Text())[:20]
		run(t, db, fmt.Sprintf(sys.user, user))
		as := func(query string) *url.URL {
			u := sys.url(at, query)
			u.User = url.User(user)
			return u
		}
		poor := func(query string) *url.URL {
			u := as(query)
			if sys == mariadb { // a user needs a right on a database to connect to it
				u.RawQuery += "&schema=" + strings.Trim(u.Path, "/")
				u.Path = "/"
			}
			return u
		}
		if _, err := sys.openURL(t.Context(), poor("")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "fences=no") {
			t.Errorf("a user who may not make the table: %v", err)
		}
		s, err := sys.openURL(t.Context(), poor("fences=no"))
		noError(t, err)
		defer s.Close()
		r := request(job)
		if g := take(t, s, r); g.Fence != 0 {
			t.Errorf("fence %d", g.Fence)
		}
		statements, err := sys.scheme.Schema(sys.url(at, ""))
		noError(t, err)
		run(t, db, append(statements, "GRANT SELECT, INSERT, UPDATE ON padlock_fences TO "+user, "DELETE FROM padlock_fences")...)
		fenced, err := sys.openURL(t.Context(), as(sys.patient))
		noError(t, err)
		defer fenced.Close()
		refused(t, fenced, request(job)) // the same lock, with fences and without
		release(t, s, r)
		r = request(job)
		if g := take(t, fenced, r); g.Fence < uint64(time.Now().Add(-time.Hour).UnixMicro()) {
			t.Errorf("fence %d", g.Fence)
		}
		release(t, fenced, r)
		run(t, db, age)
		if _, err := fenced.Prune(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Prune: %v", err)
		}
		take(t, fenced, request(job))

		// The server may grant a lock before it refuses to write the fence. The store gives it
		// back.
		run(t, db, "DROP TABLE padlock_fences")
		if _, err := fenced.Acquire(t.Context(), request(job+" again")); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Acquire without the table: %v", err)
		}
		take(t, s, request(job+" again"))
	})
}

// A password is used, from the URL or a file that is read for each connection, and no error shows
// it.
func TestPassword(t *testing.T) {
	const secret = "canary-in-a-password"
	each(t, func(t *testing.T, sys *system) {
		srv := sys.own(t)
		if db := sys.db(t, srv.URL()); sys == mariadb {
			run(t, db, "CREATE USER app IDENTIFIED BY '"+secret+"'")
		} else {
			hba := srv.Place().Path("hba.conf")
			run(t, db, "CREATE ROLE app LOGIN PASSWORD '"+secret+"'", "CREATE TABLE hba (line text)",
				"COPY hba FROM PROGRAM 'echo host all app 127.0.0.1/32 scram-sha-256 > "+hba+"; echo host all all 127.0.0.1/32 trust >> "+hba+"'",
				"ALTER SYSTEM SET hba_file = '"+hba+"'")
			srv.Stop()
			srv.Restart(true)
		}
		file := filepath.Join(t.TempDir(), "password")
		at := func(user *url.Userinfo, query string) *url.URL {
			u := sys.url(srv.URL(), "fences=no"+query)
			if u.User = user; sys == mariadb {
				u.Path = "/" // this user may use no database
			}
			return u
		}
		for _, word := range []string{secret, "wrong-" + secret} {
			noError(t, os.WriteFile(file, []byte(word+"\n"), 0o600))
			for i, u := range []*url.URL{at(url.UserPassword("app", word), ""), at(url.User("app"), "&password-file="+url.QueryEscape(file))} {
				s, err := sys.openURL(t.Context(), u)
				switch {
				case word == secret:
					noError(t, err)
					take(t, s, request(fmt.Sprint(t.Name(), i))) // the server may not notice at once that a session has ended
					s.Close()
				case !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), secret):
					t.Errorf("a wrong password: %v", err)
				case !strings.Contains(err.Error(), "password authentication failed") && !strings.Contains(err.Error(), "Access denied"):
					t.Errorf("a wrong password: %v", err)
				}
			}
		}
	})
}

// The row of a held name is gone, as after a restore of the table. A fence that is raised is
// remembered all the same.
func TestRaiseFenceWithoutARow(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		at, r := sys.shared(t).URL(), request(t.Name())
		s := sys.mustOpen(t, at, "")
		raised := take(t, s, r).Fence + 1_000_000_000_000 // eleven days ahead of the clock
		run(t, sys.db(t, at), "DELETE FROM padlock_fences")
		noError(t, s.RaiseFence(t.Context(), r.Name, r.Token.Text(), raised))
		release(t, s, r)
		safety.Rises(t, take(t, s, request(r.Name)).Fence, raised)
	})
}

// The server loses the table of fences while a waiter is in its queue. The waiter gets the lock and
// a fence all the same, because the store makes the table again.
func TestTableLostWhileWaiting(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		at := sys.shared(t).URL()
		a, b, first, second := sys.mustOpen(t, at, ""), sys.mustOpen(t, at, ""), request(t.Name()), request(t.Name())
		g := take(t, a, first)
		var later driver.Grant
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			later, err = b.Wait(t.Context(), second, true)
		}()
		admin := sys.db(t, at)
		sys.queued(t, admin, 1)
		run(t, admin, "DROP TABLE padlock_fences")
		release(t, a, first)
		if <-done; err != nil || !safety.Rises(t, later.Fence, g.Fence) {
			t.Errorf("Wait: %+v, %v; want a reservation with a fence above %d", later, err, g.Fence)
		}
	})
}
