package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/filestore"
)

func main() {
	store, err := filestore.Open(os.Getenv("LOCKS"))
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store, padlock.Wait(2*time.Second))
	server := &http.Server{Addr: os.Getenv("LISTEN"), WriteTimeout: 10 * time.Second, Handler: handler(locker)}

	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	broken := make(chan error, 1)
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			broken <- err
			cancel()
		}
	}()
	<-stop.Done()

	// Fresh contexts, because stop has ended already, and one for each step, because slow handlers
	// may use up the first. Kubernetes and systemd kill what takes longer than their own limit, so
	// stay below that with the sum.
	serving, served := context.WithTimeout(context.Background(), 15*time.Second)
	defer served()
	if err := server.Shutdown(serving); err != nil { // 1. no new requests; those that run may end
		log.Print("some requests are still running: ", err)
	}
	closing, closed := context.WithTimeout(context.Background(), 5*time.Second)
	defer closed()
	if err := locker.Close(closing); err != nil { // 2. releases what is still held, and closes the store
		log.Print("some locks were not released; they end with this process or with their lease: ", err)
	}
	// 3. close the database and everything else that the work used
	select {
	case err := <-broken:
		log.Fatal(err) // exit status 1, so that systemd or Kubernetes starts it again
	default:
	}
}

// handler is short here. docs/http-handler.md shows what it tells a client in each case.
func handler(locker *padlock.Locker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := locker.Do(r.Context(), "invoice:42", work)
		if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	})
}

// work stops when ctx ends.
func work(ctx context.Context) error { return ctx.Err() }
