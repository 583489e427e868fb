package frameworks

import (
	"fmt"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/padlock-go/padlock/web/session"
)

func withGorillaMux(router *mux.Router, sessions *session.Manager) http.Handler {
	router.HandleFunc("/visit", func(w http.ResponseWriter, r *http.Request) {
		n, err := session.From(r.Context()).Incr(r.Context(), "visits", 1)
		if err != nil {
			return // the answer is 503
		}
		fmt.Fprintln(w, n)
	}).Methods("POST")
	router.HandleFunc("/note/{key}", func(w http.ResponseWriter, r *http.Request) {
		session.From(r.Context()).Put(mux.Vars(r)["key"], r.FormValue("text"))
	}).Methods("POST")
	exclusive := sessions.With(session.Exclusive)
	router.Handle("/order", exclusive(http.HandlerFunc(order))).Methods("POST")
	return sessions.Middleware(router)
}
