package redissession_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/stampede"
)

// The locks, the sessions and the cached pages of a site are on one Redis server.
func Example() {
	ctx := context.Background()
	server := redisstore.Config{Addrs: []string{"localhost:6379"}}
	store, err := redisstore.Open(ctx, server, redissession.Locks()...)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)
	redis, err := redissession.Open(ctx, server)
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()

	sessions, err := session.New(redis.Sessions(), session.Locker(locker))
	if err != nil {
		log.Fatal(err)
	}
	render := func(ctx context.Context, path string) (string, error) { return "the page " + path, nil }
	pages, err := stampede.New(locker, redis.Values(), "pages", render, stampede.Fresh(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close(ctx)
	http.Handle("/", sessions.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, err := pages.Get(r.Context(), r.URL.Path)
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte(page))
	})))
}
