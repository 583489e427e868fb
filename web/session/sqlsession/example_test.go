package sqlsession_test

import (
	"context"
	"database/sql"
	"log"
	"net/http"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// The program imports the driver of its database.
func Example() {
	db, err := sql.Open("pgx", "postgres://app@db.internal/shop?sslmode=verify-full")
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlsession.New(db, sqlsession.Postgres)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.CreateTable(context.Background()); err != nil {
		log.Fatal(err)
	}
	sessions, err := session.New(store)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", sessions.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := session.From(r.Context()).Incr(r.Context(), "visits", 1); err != nil {
			return // the Manager answers 503
		}
		w.WriteHeader(http.StatusNoContent)
	})))
}
