package scsstore_test

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/padlock-go/padlock/web/session/scsstore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

func init() { gob.Register(map[string]int{}) }

// late has the channels of the requests to /late. Each request has read its session when it sends
// to inside, and writes to it when goOn is closed.
type late struct{ inside, goOn chan bool }

// serve answers the paths of package load with scs.
func serve(t *testing.T, store scs.Store, opts ...func(*scs.SessionManager)) *load.Client {
	t.Helper()
	c, _ := serveLate(t, store, opts...)
	return c
}

// serveLate answers the same paths, and /late.
func serveLate(t *testing.T, store scs.Store, opts ...func(*scs.SessionManager)) (*load.Client, late) {
	t.Helper()
	m := scs.New()
	m.Store, m.ErrorFunc, m.Cookie.Secure = store, scsstore.ErrorFunc, false
	for _, o := range opts {
		o(m)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/start", func(w http.ResponseWriter, r *http.Request) { m.Put(r.Context(), "started", 1) })
	mux.HandleFunc("/set", func(w http.ResponseWriter, r *http.Request) {
		m.GetInt(r.Context(), "started")
		work(r)
		m.Put(r.Context(), r.FormValue("key"), 1)
	})
	l := late{make(chan bool), make(chan bool)}
	mux.HandleFunc("/late", func(_ http.ResponseWriter, r *http.Request) {
		m.GetInt(r.Context(), "started")
		l.inside <- true
		<-l.goOn
		m.Put(r.Context(), "late", 1)
	})
	mux.HandleFunc("/add", func(w http.ResponseWriter, r *http.Request) {
		key := r.FormValue("key")
		n := m.GetInt(r.Context(), key)
		work(r)
		m.Put(r.Context(), key, n+1)
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) { m.GetInt(r.Context(), "started"); work(r) })
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, strings.Join(m.Keys(r.Context()), "\n"))
	})
	mux.HandleFunc("/value", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, m.GetInt(r.Context(), r.FormValue("key")))
	})
	mux.HandleFunc("/logout", func(w http.ResponseWriter, r *http.Request) { m.Destroy(r.Context()) })
	mux.HandleFunc("/renew", func(w http.ResponseWriter, r *http.Request) { m.RenewToken(r.Context()) })
	mux.HandleFunc("/map", func(w http.ResponseWriter, r *http.Request) {
		if v, ok := m.Get(r.Context(), "map").(map[string]int); ok {
			v["n"]++ // changed in place: scs saves such changes, so the store must too
			m.Put(r.Context(), "touched", 1)
			fmt.Fprint(w, v["n"])
			return
		}
		m.Put(r.Context(), "map", map[string]int{"n": 1})
	})
	srv := httptest.NewServer(scsstore.Middleware(m.LoadAndSave(mux)))
	c := load.NewClient(srv.URL, 100)
	t.Cleanup(func() { c.Close(); srv.Close() })
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c, l
}

func work(r *http.Request) {
	if d, _ := time.ParseDuration(r.FormValue("work")); d > 0 {
		<-time.After(d)
	}
}

func get(t *testing.T, c *load.Client, path string) load.Answer {
	t.Helper()
	a, err := c.Get(t.Context(), 0, path)
	if err != nil {
		t.Fatal(err)
	}
	if a.Cookie != nil {
		c.Cookie = a.Cookie
	}
	return a
}

var stores = map[string]func() sessionstore.Store{"memory": func() sessionstore.Store { return sessionstore.NewMemory() }}

func TestCrowdKeepsAll(t *testing.T) {
	for name, open := range stores {
		for _, idle := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(name, idle), func(t *testing.T) {
				t.Parallel()
				c := serve(t, scsstore.New(open()), func(m *scs.SessionManager) { m.IdleTimeout = idle })
				load.CheckKept(t, c, load.Set(load.CrowdSize, 25*time.Millisecond, 0))
			})
		}
	}
}

// TestScsAloneLosesThem shows the loss that this package prevents, and that the test above can
// fail.
func TestScsAloneLosesThem(t *testing.T) {
	c := serve(t, scs.New().Store)
	c.Run(t.Context(), load.Set(100, 25*time.Millisecond, 0))
	if n, err := c.Kept(t.Context(), 100); n == 100 || err != nil {
		t.Errorf("%d of 100 kept: %v", n, err)
	}
}

func TestCountersAreKeptOrRefused(t *testing.T) {
	t.Parallel()
	c := serve(t, scsstore.New(sessionstore.NewMemory()))
	load.CheckCount(t, c, load.Add(load.CrowdSize, 5*time.Millisecond), true)
}

func TestLogoutHolds(t *testing.T) {
	t.Parallel()
	for range 5 {
		c, late := serveLate(t, scsstore.New(sessionstore.NewMemory()))
		load.CheckLogout(t, c, "/late", late.inside, late.goOn)
	}
}

// TestReaderErasesNothing: with an idle timeout, scs saves the session even after a request that
// only reads.
func TestReaderErasesNothing(t *testing.T) {
	t.Parallel()
	c := serve(t, scsstore.New(sessionstore.NewMemory()), func(m *scs.SessionManager) { m.IdleTimeout = time.Hour })
	done := make(chan bool)
	go func() { c.Get(t.Context(), 0, "/read?work=100ms"); close(done) }()
	<-time.After(20 * time.Millisecond)
	get(t, c, "/set?key=k0")
	<-done
	if n, err := c.Kept(t.Context(), 1); n != 1 || err != nil {
		t.Error("the reader erased it", err)
	}
}

func TestRenewAndInPlace(t *testing.T) {
	t.Parallel()
	c := serve(t, scsstore.New(sessionstore.NewMemory()))
	old := c.Cookie
	get(t, c, "/set?key=k0")
	get(t, c, "/renew")
	if c.Cookie.Value == old.Value {
		t.Error("the token is the same")
	}
	if n, err := c.Kept(t.Context(), 1); n != 1 || err != nil {
		t.Errorf("%d kept: %v", n, err)
	}
	for i, want := range []string{"", "2", "3"} {
		if a := get(t, c, "/map"); a.Body != want {
			t.Errorf("%d: %q, want %q", i, a.Body, want)
		}
	}
	c.Cookie = old
	if a := get(t, c, "/keys"); strings.TrimSpace(a.Body) != "" {
		t.Errorf("the old token shows %q", a.Body)
	}
}

func TestWithoutTracking(t *testing.T) {
	m := scs.New()
	m.Store = scsstore.New(sessionstore.NewMemory())
	ctx, err := m.Load(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	m.Put(ctx, "k", 1)
	if _, _, err := m.Commit(ctx); !errors.Is(err, scsstore.ErrNoTracking) {
		t.Errorf("%v", err)
	}
	ctx, err = m.Load(scsstore.Track(t.Context()), "")
	if err != nil {
		t.Fatal(err)
	}
	m.Put(ctx, "k", 1)
	for range 2 { // the second commit has nothing to save
		if _, _, err := m.Commit(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := m.Store.Commit("x", nil, time.Now()); !errors.Is(err, scsstore.ErrNoTracking) {
		t.Error(err)
	}
}

// shared is a store whose sessions belong to another program, too.
type shared struct{ sessionstore.Store }

func (shared) Traits() sessionstore.Traits { return sessionstore.Traits{CommitsNeedLock: true} }

func TestSharedWithPHP(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New accepts a store that needs a lock")
		}
	}()
	scsstore.New(shared{})
}
