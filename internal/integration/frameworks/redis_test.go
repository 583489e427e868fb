package frameworks

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/gorilla/mux"
	"github.com/gorilla/sessions"

	redisserver "github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/gorillastore"
	"github.com/padlock-go/padlock/web/session/redissession"
)

// gorilla serves notes with gorilla/sessions, as its users write it.
func gorilla(store sessions.Store) http.Handler {
	router := mux.NewRouter()
	handle := func(path string, change func(r *http.Request, s *sessions.Session)) {
		router.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s, err := store.Get(r, "notes")
			if err == nil {
				change(r, s)
				err = s.Save(r, w)
			}
			if err != nil {
				http.Error(w, err.Error(), session.Status(err))
				return
			}
			fmt.Fprint(w, s.Values["text"], s.Flashes())
		})
	}
	handle("/note/{key}", func(r *http.Request, s *sessions.Session) { s.Values[mux.Vars(r)["key"]] = r.FormValue("text") })
	handle("/flash", func(r *http.Request, s *sessions.Session) { s.AddFlash(r.FormValue("text")) })
	handle("/login", func(_ *http.Request, s *sessions.Session) { s.ID = "" })
	handle("/logout", func(_ *http.Request, s *sessions.Session) { s.Options.MaxAge = -1 })
	return router
}

// TestGorillaOnRedis: two servers on one Redis keep all that a crowd of one visitor writes.
func TestGorillaOnRedis(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(redisserver.Redis(t, redisserver.RedisOptions{}).URL())
	noError(t, err)
	serve := func() (*gorillastore.Store, *browser) {
		redis, err := redissession.FromURL(t.Context(), u)
		noError(t, err)
		t.Cleanup(func() { noError(t, redis.Close()) })
		store := gorillastore.New(redis.Sessions())
		return store, open(t, gorilla(store))
	}
	store, one := serve()
	_, two := serve()
	two.Jar = one.Jar // ports do not count
	load := func() *sessions.Session {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		place, err := url.Parse(one.url)
		noError(t, err)
		for _, c := range one.Jar.Cookies(place) {
			r.AddCookie(c)
		}
		s, err := store.New(r, "notes")
		noError(t, err)
		return s
	}

	one.must("/note/first", nil)
	old := load()
	one.must("/login", nil)
	if s := load(); s.IsNew || s.ID == old.ID {
		t.Errorf("the id is %s, as before", s.ID)
	}
	const n, flashes = 20, 8
	one.crowd(n, func(i int) string { return fmt.Sprint("/note/", i) })
	two.crowd(flashes, func(int) string { return "/flash" })
	s := load()
	for i := range n {
		if got := s.Values[fmt.Sprint(i)]; got != fmt.Sprint(i) {
			t.Errorf("note %d is %v", i, got)
		}
	}
	if got := s.Flashes(); len(got) != flashes {
		t.Errorf("%d messages of %d: %v", len(got), flashes, got)
	}
	late := load()
	two.must("/logout", nil)
	late.Values["late"] = 1
	if err := late.Save(httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()); !errors.Is(err, session.ErrDestroyed) {
		t.Error(err)
	}
	if s := load(); !s.IsNew {
		t.Errorf("after the logout: %v", s.Values)
	}
}
