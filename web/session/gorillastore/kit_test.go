package gorillastore_test

import (
	"context"
	"encoding/gob"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/sessions"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

type (
	number int
	point  struct{ X, Y int }
	shape  struct{ Sides int }
)

func init() {
	for _, v := range []any{number(0), point{}, &shape{}, map[string]int{}} {
		gob.Register(v)
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// visitor is a browser with one cookie.
type visitor struct {
	t      *testing.T
	store  sessions.Store
	cookie *http.Cookie
}

// visit is a request that has loaded the visitor's session.
type visit struct {
	*sessions.Session
	v *visitor
	r *http.Request
}

func (v *visitor) request() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if v.cookie != nil && v.cookie.MaxAge >= 0 {
		r.AddCookie(v.cookie)
	}
	return r
}

// load begins a request.
func (v *visitor) load() visit {
	v.t.Helper()
	r := v.request()
	s, err := v.store.Get(r, "shop")
	noError(v.t, err)
	return visit{s, v, r}
}

// save ends the request. The browser then has the cookie of the answer, if there is one.
func (o visit) save() error {
	w := httptest.NewRecorder()
	err := o.Session.Save(o.r, w)
	for _, c := range w.Result().Cookies() {
		o.v.cookie = c
	}
	return err
}

func (o visit) mustSave() {
	o.v.t.Helper()
	noError(o.v.t, o.save())
}

// begin returns a visitor who has a session with a value.
func begin(t *testing.T, store sessions.Store) *visitor {
	t.Helper()
	v := &visitor{t: t, store: store}
	first := v.load()
	if !first.IsNew {
		t.Fatal("the first session is not new")
	}
	first.Values["started"] = true
	first.mustSave()
	return v
}

// failing is a store whose methods return an error.
type failing struct {
	sessionstore.Store
	load, commit error
}

func (f *failing) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	if f.load != nil {
		return sessionstore.Record{}, f.load
	}
	return f.Store.Load(ctx, key)
}

func (f *failing) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if f.commit != nil {
		return sessionstore.Result{}, f.commit
	}
	return f.Store.Commit(ctx, key, c)
}
