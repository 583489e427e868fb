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

func handler(locker *padlock.Locker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Less than WriteTimeout, which cuts off the answer but ends neither the handler nor its
		// context. A client without an answer sends the request again, and the work is done twice.
		ctx, cancel := context.WithTimeout(r.Context(), 8*time.Second)
		defer cancel()
		begun, done := false, false
		err := locker.Do(ctx, "invoice:42", func(ctx context.Context) error {
			begun = true
			err := work(ctx)
			done = err == nil
			return err
		})
		switch {
		case done:
			if err != nil {
				log.Print("the work is done, and its lock had trouble: ", err)
			}
		case begun:
			log.Print(err)
			http.Error(w, "it may be done in part; look before you repeat it", http.StatusInternalServerError)
		case errors.Is(err, padlock.ErrHeld):
			http.Error(w, "somebody else is at work on it", http.StatusConflict)
		default:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	})
}

// work stops when ctx ends.
func work(ctx context.Context) error { return ctx.Err() }
