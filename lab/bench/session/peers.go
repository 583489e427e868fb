//go:build linux

package main

import (
	"fmt"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/alexedwards/scs/goredisstore"
	"github.com/alexedwards/scs/v2"
	"github.com/boj/redistore"
	"github.com/gorilla/sessions"
	"github.com/redis/go-redis/v9"
)

func (b *builder) peers() {
	b.add("scs, goredisstore", peer, func() ([]string, error) {
		client := redis.NewClient(&redis.Options{Addr: b.redis, PoolSize: 100})
		b.t.Cleanup(func() { client.Close() })
		m := scs.New()
		m.Store = goredisstore.New(client)
		return []string{b.serve(m.LoadAndSave(handler(scsView{m})))}, nil
	})
	b.add("gorilla, redistore", peer, func() ([]string, error) {
		store, err := redistore.NewRediStore(100, "tcp", b.redis, "", "", []byte(strings.Repeat("k", 32)))
		if err != nil {
			return nil, err
		}
		b.t.Cleanup(func() { store.Close() })
		return []string{b.serve(handler(gorillaView{store}))}, nil
	})
}

// A view gives the handlers of a peer access to sessions.
type view interface {
	// open returns the request's session.
	open(*http.Request) (visit, error)
}

// A visit is one request's use of a session.
type visit interface {
	get(key string) int
	put(key string, n int)
	keys() []string
	// end saves the changes or, if destroy is set, ends the session.
	end(w http.ResponseWriter, destroy bool) error
}

// handler serves the paths that the package sessiontest/load requests. It reads the session before
// it works, as applications do.
func handler(v view) http.Handler {
	mux := http.NewServeMux()
	route := func(path string, h func(visit, *http.Request) (text string, save bool)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			s, err := v.open(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			text, save := h(s, r)
			if save {
				if err := s.end(w, path == "/logout"); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
			}
			fmt.Fprintln(w, text)
		})
	}
	route("/start", func(s visit, _ *http.Request) (string, bool) { s.put("started", 1); return "", true })
	route("/set", func(s visit, r *http.Request) (string, bool) {
		s.get("started")
		work(r)
		s.put(r.FormValue("key"), 1)
		return "", true
	})
	route("/add", func(s visit, r *http.Request) (string, bool) {
		n := s.get(r.FormValue("key"))
		work(r)
		s.put(r.FormValue("key"), n+1)
		return "", true
	})
	route("/read", func(s visit, r *http.Request) (string, bool) { s.get("started"); work(r); return "", false })
	route("/keys", func(s visit, _ *http.Request) (string, bool) { return strings.Join(s.keys(), "\n"), false })
	route("/value", func(s visit, r *http.Request) (string, bool) { return fmt.Sprint(s.get(r.FormValue("key"))), false })
	route("/logout", func(visit, *http.Request) (string, bool) { return "", true })
	return mux
}

func work(r *http.Request) {
	if d, err := time.ParseDuration(r.FormValue("work")); err == nil {
		time.Sleep(d)
	}
}

type scsView struct{ m *scs.SessionManager }

type scsVisit struct {
	m *scs.SessionManager
	r *http.Request
}

func (v scsView) open(r *http.Request) (visit, error) { return scsVisit{v.m, r}, nil }

func (v scsVisit) get(key string) int    { return v.m.GetInt(v.r.Context(), key) }
func (v scsVisit) put(key string, n int) { v.m.Put(v.r.Context(), key, n) }
func (v scsVisit) keys() []string        { return v.m.Keys(v.r.Context()) }

func (v scsVisit) end(_ http.ResponseWriter, destroy bool) error {
	if destroy {
		return v.m.Destroy(v.r.Context())
	}
	return nil // LoadAndSave saves the session
}

type gorillaView struct{ store sessions.Store }

type gorillaVisit struct {
	*sessions.Session
	r *http.Request
}

func (v gorillaView) open(r *http.Request) (visit, error) {
	s, err := v.store.Get(r, "session")
	return gorillaVisit{s, r}, err
}

func (v gorillaVisit) get(key string) int {
	n, _ := v.Values[key].(int) // 0 if there is none
	return n
}

func (v gorillaVisit) put(key string, n int) { v.Values[key] = n }

func (v gorillaVisit) keys() (all []string) {
	for key := range v.Values {
		all = append(all, fmt.Sprint(key))
	}
	sort.Strings(all)
	return all
}

func (v gorillaVisit) end(w http.ResponseWriter, destroy bool) error {
	if destroy {
		v.Options.MaxAge = -1
	}
	return v.Save(v.r, w)
}
