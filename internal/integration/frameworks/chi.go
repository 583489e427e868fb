package frameworks

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/padlock-go/padlock/web/session"
)

func withChi(router *chi.Mux, sessions *session.Manager) http.Handler {
	router.Use(sessions.Middleware, middleware.Recoverer)
	router.Post("/visit", func(w http.ResponseWriter, r *http.Request) {
		n, err := session.From(r.Context()).Incr(r.Context(), "visits", 1)
		if err != nil {
			return // the answer is 503
		}
		fmt.Fprintln(w, n)
	})
	router.Post("/note/{key}", func(w http.ResponseWriter, r *http.Request) {
		session.From(r.Context()).Put(chi.URLParam(r, "key"), r.FormValue("text"))
	})
	router.With(sessions.With(session.Exclusive)).Post("/order", order)
	return router
}
