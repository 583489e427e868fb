package main

import (
	"context"
	"crypto/subtle"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/open"
)

func main() {
	store, err := open.FromEnv(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(context.Background())

	password := os.Getenv("LOCKS_PASSWORD")
	if password == "" {
		log.Fatal("LOCKS_PASSWORD is not set")
	}
	visitor := func(r *http.Request) padlockweb.Visitor { // put your server's own check here
		user, given, _ := r.BasicAuth()
		if user != "ann" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) != 1 {
			return padlockweb.Visitor{}
		}
		return padlockweb.Visitor{Name: user, Right: padlockweb.RightRead}
	}
	web := padlockweb.Handler(locker, padlockweb.Authorize(visitor), padlockweb.Logger(slog.Default()))
	defer web.Close()
	locks := http.StripPrefix("/locks", web)
	http.HandleFunc("/locks/", func(w http.ResponseWriter, r *http.Request) {
		if visitor(r).Right == padlockweb.RightNone {
			w.Header().Set("WWW-Authenticate", `Basic realm="locks"`) // the browser asks for a password
			http.Error(w, "a password is needed", http.StatusUnauthorized)
			return
		}
		locks.ServeHTTP(w, r)
	})
	server := &http.Server{
		Addr: os.Getenv("LISTEN"), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
	log.Print(server.ListenAndServe()) // docs/shutdown.md shows SIGTERM
}
