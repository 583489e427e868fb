package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/stampede"
)

//go:embed web
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{"money": money}).ParseFS(files, "web/*.html"))

func money(cents int) string { return fmt.Sprintf("€ %d.%02d", cents/100, cents%100) }

// shop serves the pages.
type shop struct {
	server     string // its address, shown on the page
	sessions   *session.Manager
	catalogues *stampede.Cache[Catalogue]
	supplier   supplier
}

func newShop(locker *padlock.Locker, store sessionstore.Store, values stampede.Values) (*shop, error) {
	sessions, err := session.New(store, session.Locker(locker),
		session.Cookie{Insecure: true}) // the example uses plain HTTP
	if err != nil {
		return nil, err
	}
	s := &shop{sessions: sessions, supplier: supplier{delay: 400 * time.Millisecond}}
	s.catalogues, err = newCatalogues(locker, values, &s.supplier)
	return s, err
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.Handle("GET /cart", s.sessions.With(session.ReadOnly)(http.HandlerFunc(s.cart)))
	mux.HandleFunc("POST /cart/{sku}", s.add)
	mux.Handle("POST /order", s.sessions.With(session.Exclusive)(http.HandlerFunc(s.order)))
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("POST /logout-everywhere", s.logoutEverywhere)
	mux.HandleFunc("POST /rush", s.rush)
	mux.Handle("GET /web/", http.FileServerFS(files))
	// Browsers report which site a request comes from. Requests from other sites are refused.
	return http.NewCrossOriginProtection().Handler(s.sessions.Middleware(mux))
}

// view is the data for the templates.
type view struct {
	Catalogue
	Lines        []line
	Count, Total int
	User         string
	Notices      []string
	Server       string
	Asked        int64
	Age          time.Duration
}

type line struct {
	Product
	Count int
}

// page serves the page of the shop. It also stores a value in the session, so that the session
// begins. Otherwise two tabs that add their first things at the same time would begin two sessions.
func (s *shop) page(w http.ResponseWriter, r *http.Request) {
	ses := session.From(r.Context())
	if err := ses.Put("visited", true); err != nil {
		return // the middleware answers 503
	}
	v, err := s.view(r.Context())
	if err == nil {
		v.Notices, err = session.Flashes[string](r.Context(), ses, "notice")
	}
	show(w, "page", v, err)
}

// cart serves the part of the page that scripts fetch.
func (s *shop) cart(w http.ResponseWriter, r *http.Request) {
	v, err := s.view(r.Context())
	w.Header().Set("Cache-Control", "no-store")
	show(w, "cart", v, err)
}

func show(w http.ResponseWriter, name string, v *view, err error) {
	var text strings.Builder // once the page has begun, an error can no longer be reported
	if err == nil {
		err = pages.ExecuteTemplate(&text, name, v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, text.String())
}

// view returns what the visitor sees: the catalogue, and the cart in the session.
func (s *shop) view(ctx context.Context) (*view, error) {
	catalogue, err := s.catalogues.Get(ctx, catalogueKey)
	if err != nil {
		return nil, err
	}
	v := &view{Catalogue: catalogue, Server: s.server, Asked: s.supplier.asked.Load()}
	v.Age = time.Since(v.At).Round(100 * time.Millisecond)
	ses := session.From(ctx)
	if v.User, err = ses.User(); err != nil {
		return nil, err
	}
	for _, p := range catalogue.Products {
		n, err := session.Get[int](ses, cartKey(p.SKU))
		if err != nil {
			return nil, err
		}
		if n > 0 {
			v.Lines = append(v.Lines, line{p, n})
			v.Count, v.Total = v.Count+n, v.Total+n*p.Cents
		}
	}
	return v, nil
}

func cartKey(sku string) string { return "cart:" + sku }

// add increments a number in the store. However many requests come at once, none waits and no count
// is lost.
func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	sku := r.PathValue("sku")
	if !sells(sku) {
		http.NotFound(w, r)
		return
	}
	if _, err := session.From(r.Context()).Incr(r.Context(), cartKey(sku), 1); err == nil {
		home(w, r)
	}
}

// order runs under the session's lock. If another request adds an article to the cart meanwhile,
// that request waits for the lock. Its article goes into the next cart. A second click finds an
// empty cart. If the session cannot be saved, the cart stays full and the answer is an error.
func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	v, err := s.view(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	ses := session.From(r.Context())
	notice := "The cart is empty. Nothing was ordered."
	if v.Count > 0 {
		time.Sleep(300 * time.Millisecond) // stands for the bank
		number, err := ses.Incr(r.Context(), "orders", 1)
		for _, l := range v.Lines {
			err = errors.Join(err, ses.Delete(cartKey(l.SKU)))
		}
		if err != nil {
			return
		}
		notice = fmt.Sprintf("Order %d is placed: %d things for %s. Thank you!", number, v.Count, money(v.Total))
	}
	if err := ses.Flash("notice", notice); err == nil {
		home(w, r)
	}
}

// login gives the session a new id. So a person who knew the old id is not logged in.
func (s *shop) login(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSpace(r.FormValue("name"))
	if name == "" || len(name) > 40 {
		http.Error(w, "What is your name? In 40 letters, please.", http.StatusBadRequest)
		return
	}
	ses := session.From(r.Context())
	if err := ses.Regenerate(r.Context()); err != nil {
		return
	}
	ses.SetUser(name) // an account would have a number and a password
	home(w, r)
}

// logout ends the session. A request that is still running cannot bring the session back. A script
// in the other tabs notices the logout.
func (s *shop) logout(w http.ResponseWriter, r *http.Request) {
	if err := session.From(r.Context()).Destroy(r.Context()); err == nil {
		home(w, r)
	}
}

// logoutEverywhere ends all sessions of the visitor, in all browsers.
func (s *shop) logoutEverywhere(w http.ResponseWriter, r *http.Request) {
	name, err := session.From(r.Context()).User()
	if err != nil {
		return
	}
	if _, err := s.sessions.EndUserSessions(r.Context(), name); err != nil {
		http.Error(w, "Not all sessions could be ended. Please try again.", http.StatusServiceUnavailable)
		return
	}
	s.logout(w, r) // also deletes the cookie
}

// rush lets 200 visitors come at once when there is no catalogue.
func (s *shop) rush(w http.ResponseWriter, r *http.Request) {
	if err := s.catalogues.Invalidate(r.Context(), catalogueKey); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	before, start := s.supplier.asked.Load(), time.Now()
	var all sync.WaitGroup
	var served atomic.Int64
	for range 200 {
		all.Go(func() {
			if _, err := s.catalogues.Get(r.Context(), catalogueKey); err == nil {
				served.Add(1)
			}
		})
	}
	all.Wait()
	err := session.From(r.Context()).Flash("notice", fmt.Sprintf("200 visitors came at once. Served within %v: %d. Questions to the supplier: %d.",
		time.Since(start).Round(time.Millisecond), served.Load(), s.supplier.asked.Load()-before))
	if err == nil {
		home(w, r)
	}
}

// home sends the browser back to the page of the shop after a form.
func home(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusSeeOther) }
