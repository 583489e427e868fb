package frameworks

import (
	"fmt"
	"net/http"

	"github.com/padlock-go/padlock/web/session"
)

func withNetHTTP(mux *http.ServeMux, sessions *session.Manager) http.Handler {
	mux.HandleFunc("POST /visit", func(w http.ResponseWriter, r *http.Request) {
		n, err := session.From(r.Context()).Incr(r.Context(), "visits", 1)
		if err != nil {
			return // the answer is 503
		}
		fmt.Fprintln(w, n)
	})
	mux.HandleFunc("POST /note/{key}", func(w http.ResponseWriter, r *http.Request) {
		session.From(r.Context()).Put(r.PathValue("key"), r.FormValue("text"))
	})
	exclusive := sessions.With(session.Exclusive)
	mux.Handle("POST /order", exclusive(http.HandlerFunc(order)))
	return sessions.Middleware(mux)
}

func order(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	n := session.GetOr(s, "orders", 0) + 1
	s.Put("orders", n)
	fmt.Fprintln(w, n)
}
