package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/stampede"
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
	served     atomic.Int64 // number of pages
	placed     atomic.Int64 // number of orders
}

func (s *shop) handler() http.Handler {
	router := chi.NewRouter()
	// Browsers report which site a request comes from. Requests from other sites are refused.
	router.Use(http.NewCrossOriginProtection().Handler, s.sessions.Middleware)
	router.Get("/", s.page)
	router.With(s.sessions.With(session.ReadOnly)).Get("/cart", s.cart)
	router.Post("/cart/{sku}", s.add)
	router.Post("/cart/{sku}/remove", s.remove)
	router.With(s.sessions.With(session.LastWriteWins)).Post("/careless/{sku}", s.addCarelessly)
	router.With(s.sessions.With(session.Exclusive)).Post("/order", s.order)
	router.Post("/login", s.login)
	router.Post("/logout", s.logout)
	router.Post("/logout-everywhere", s.logoutEverywhere)
	router.Post("/rush", s.rushHour)
	router.Get("/web/*", http.FileServerFS(files).ServeHTTP)
	return router
}

// view is the data for the templates.
type view struct {
	Catalogue
	Lines        []line
	Count, Total int
	User         string
	Away         bool // the session cannot be reached
	Notices      []string
	Server       string
	Served       int64
	Placed       int64
	Asked        int64
	Age          time.Duration
}

type line struct {
	Product
	Count int
}

// shownKey is the key of the catalogue that was last shown to the visitor. An order is charged at
// the prices of that catalogue.
const shownKey = "shown"

// notices are the messages that a page can show. The form value "note" selects one of them.
var notices = map[string]string{
	"empty":   "The cart is empty. Nothing was ordered.",
	"changed": "The cart or its prices have changed since you saw them. Nothing was ordered: please look again.",
}

// page serves the page of the shop. It also stores a value in the session, so that the session
// begins. Otherwise two tabs that add their first things at the same time would begin two sessions.
func (s *shop) page(w http.ResponseWriter, r *http.Request) {
	ses := session.From(r.Context())
	catalogue, err := s.catalogue(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	err = ses.Put(shownKey, catalogue)
	if errors.Is(err, session.ErrUnavailable) {
		s.pageWithoutSession(w, ses, catalogue)
		return
	}
	if err != nil {
		return // the middleware answers 503
	}
	messages, err := session.Flashes[string](r.Context(), ses, "notice")
	if err != nil {
		return
	}
	if text := notices[r.FormValue("note")]; messages == nil && text != "" {
		messages = []string{text}
	}
	v, err := viewOf(ses, catalogue)
	if err != nil {
		return
	}
	v.Notices = messages
	s.showPage(w, v)
}

func (s *shop) showPage(w http.ResponseWriter, v *view) {
	v.Server, v.Served, v.Placed, v.Asked = s.server, s.served.Add(1), s.placed.Load(), s.supplier.asked.Load()
	v.Age = time.Since(v.At).Round(100 * time.Millisecond)
	show(w, "page", v)
}

// pageWithoutSession serves the page while the sessions cannot be reached: visitors can still look
// at the shop. The session stays as it is, and the browser asks again after a while.
func (s *shop) pageWithoutSession(w http.ResponseWriter, ses *session.Session, catalogue Catalogue) {
	ses.Abandon() // otherwise the middleware would answer 503
	w.Header().Set("Cache-Control", "no-store")
	s.showPage(w, &view{Catalogue: catalogue, Away: true})
}

// cart serves the part of the page that scripts fetch.
func (s *shop) cart(w http.ResponseWriter, r *http.Request) {
	v, err := s.shownCart(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	show(w, "cart", v)
}

func show(w http.ResponseWriter, name string, v *view) {
	var text strings.Builder // once the page has begun, an error can no longer be reported
	if err := pages.ExecuteTemplate(&text, name, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, text.String())
}

// shownCart returns the cart at the prices that the visitor has seen.
func (s *shop) shownCart(ctx context.Context) (*view, error) {
	ses := session.From(ctx)
	catalogue, found, err := session.Lookup[Catalogue](ses, shownKey)
	if err == nil && !found {
		catalogue, err = s.catalogue(ctx)
	}
	if err != nil {
		return nil, err
	}
	return viewOf(ses, catalogue)
}

func viewOf(ses *session.Session, catalogue Catalogue) (_ *view, err error) {
	v := &view{Catalogue: catalogue}
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

// sells reports whether the product exists. If not, it writes the answer.
func sells(w http.ResponseWriter, r *http.Request) (sku string, ok bool) {
	sku = r.PathValue("sku")
	for _, p := range products {
		if p.SKU == sku {
			return sku, true
		}
	}
	http.NotFound(w, r)
	return sku, false
}

// add increments a number in the store. However many requests come at once, none waits and no count
// is lost.
func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	if sku, ok := sells(w, r); ok {
		if _, err := session.From(r.Context()).Incr(r.Context(), cartKey(sku), 1); err == nil {
			home(w, r)
		}
	}
}

// addCarelessly writes the cart as many shops do: it reads everything, works for a while, and
// writes everything. If several requests come at once, the last one wins and the additions of the
// others are lost.
func (s *shop) addCarelessly(w http.ResponseWriter, r *http.Request) {
	sku, ok := sells(w, r)
	if !ok {
		return
	}
	ses := session.From(r.Context())
	counts := map[string]int{}
	for _, p := range products {
		n, err := session.Get[int](ses, cartKey(p.SKU))
		if err != nil {
			return
		}
		counts[p.SKU] = n
	}
	time.Sleep(50 * time.Millisecond) // stands for work
	counts[sku]++
	for sku, n := range counts {
		if err := ses.Put(cartKey(sku), n); err != nil {
			return
		}
	}
	home(w, r)
}

func (s *shop) remove(w http.ResponseWriter, r *http.Request) {
	if sku, ok := sells(w, r); ok {
		if err := session.From(r.Context()).Delete(cartKey(sku)); err == nil {
			home(w, r)
		}
	}
}

// order runs under the session's lock. If another request adds an article to the cart meanwhile,
// that request waits for the lock. Its article goes into the next cart. The form contains the total
// that the visitor saw.
func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	v, err := s.shownCart(r.Context())
	switch {
	case err != nil:
		return
	case v.Count == 0:
		http.Redirect(w, r, "/?note=empty", http.StatusSeeOther)
		return
	case r.FormValue("total") != strconv.Itoa(v.Total):
		http.Redirect(w, r, "/?note=changed", http.StatusSeeOther)
		return
	}
	time.Sleep(300 * time.Millisecond) // stands for the bank
	ses := session.From(r.Context())
	number, err := ses.Incr(r.Context(), "orders", 1)
	if err != nil {
		return
	}
	for _, l := range v.Lines {
		err = errors.Join(err, ses.Delete(cartKey(l.SKU)))
	}
	err = errors.Join(err, ses.Flash("notice", fmt.Sprintf("Order %d is placed: %d things for %s. Thank you!", number, v.Count, money(v.Total))))
	// If the session cannot be saved, the cart stays full and the order does not count.
	if errors.Join(err, ses.Commit(r.Context())) == nil {
		s.placed.Add(1)
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
	ses := session.From(r.Context())
	name, err := ses.User()
	if err != nil {
		return
	}
	if _, err := s.sessions.EndUserSessions(r.Context(), name); err != nil {
		http.Error(w, "Not all sessions could be ended. Please try again.", http.StatusServiceUnavailable)
		return
	}
	if err := ses.Destroy(r.Context()); err == nil { // also deletes the cookie
		home(w, r)
	}
}

func (s *shop) rushHour(w http.ResponseWriter, r *http.Request) {
	result, err := s.rush(r.Context(), 200)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	session.From(r.Context()).Flash("notice", fmt.Sprintf("%d visitors came at once. The supplier was asked %s; the slowest visitor waited %v.",
		result.Visitors, times(result.Asked), result.Slowest))
	home(w, r)
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// home sends the browser back to the page of the shop after a form.
func home(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusSeeOther) }
