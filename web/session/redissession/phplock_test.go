package redissession_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// busyWrite has a handler write while its lock is held. It returns the error that the handler gets.
// The handler waits for a second or two.
func busyWrite(t testing.TB, m *session.Manager, cookie *http.Cookie) (said *session.BusyError) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	w := httptest.NewRecorder()
	m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := session.From(r.Context()).Incr(r.Context(), "n", 1)
		if err == nil {
			safety.TwoHold(t, "the handler has written while another one has the lock")
		}
		if !errors.As(err, &said) {
			t.Log(err)
		}
	})).ServeHTTP(w, r)
	if said == nil || w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Fatalf("%d %v, %v", w.Code, w.Header(), said)
	}
	return said
}

// TestLockNames looks at the lock's key while a handler has the lock, and then while another
// program has it.
func TestLockNames(t *testing.T) {
	t.Parallel()
	o := clientOption(startRedis(t).Addr())
	raw := dial(t, o)
	locker := newLocker(t, o, redissession.PHPLocks()...)
	for suffix, php := range map[string]phpsession.Config{"_LOCK": {}, ".lock": {LockSuffix: ".lock"}} {
		blobs := newRedis(t, raw).Blobs()
		m, err := phpsession.New(blobs, locker, php, plain, patient)
		noError(t, err)
		hasty, err := phpsession.New(blobs, locker, php, plain, session.MaxWait(time.Second))
		noError(t, err)
		c := serve(t, load.Handler(m))
		noError(t, c.Start(t.Context()))
		key := "PHPREDIS_SESSION:" + c.Cookie.Value + suffix
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(c.Cookie)
		m.With(session.Exclusive)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := session.Get[int](session.From(r.Context()), "k")
			noError(t, err)
			if askServer(t, raw, "TYPE", key) != "string" || askServer(t, raw, "PTTL", key) == "-1" {
				t.Errorf("%s is not the lock", suffix)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
		if askServer(t, raw, "EXISTS", key) != "0" {
			t.Error("the lock was not given back")
		}
		askServer(t, raw, "SET", key, "host|17", "PX", "60000")
		if said := busyWrite(t, hasty, c.Cookie); said.Foreign { // this lock ends by itself
			t.Errorf("%v", said)
		}
	}
}

// TestPHPOnACluster: the lock and the session are in different slots of the cluster.
func TestPHPOnACluster(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	o := clientOption(server.Redis(t, server.RedisOptions{Cluster: true}).Addr())
	m, err := phpsession.New(newRedis(t, dial(t, o)).Blobs(), newLocker(t, o, redissession.PHPLocks()...),
		phpsession.Config{Prefix: "PHPREDIS_CLUSTER_SESSION:"}, plain, patient)
	noError(t, err)
	for _, mode := range []session.Mode{session.Delta, session.Exclusive} {
		c := serve(t, load.Handler(m, mode))
		noError(t, c.Start(t.Context()))
		load.CheckAll(t, c.Run(t.Context(), load.Set(20, time.Millisecond, 0)), http.StatusOK)
		if n, err := c.Kept(t.Context(), 20); n != 20 || err != nil {
			t.Errorf("%d of 20 kept, %v", n, err)
		}
		if a, err := c.Get(t.Context(), 0, "/logout"); err != nil || a.Status != http.StatusOK {
			t.Errorf("%v %v", a, err)
		}
	}
}
