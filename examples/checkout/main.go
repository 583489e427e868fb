// Checkout is a web server that charges a card once for each Idempotency-Key, and lets one request
// at a time work on a cart. Start it twice, with LISTEN=localhost:8081 for the second one: carts
// are locked for both, because they share the locks in a directory.
//
//	go run ./examples/checkout
//	curl -i -X POST -H 'Idempotency-Key: "k1"' localhost:8080/carts/7/checkout
//
// The same curl again gets the same answer, with the header Idempotent-Replayed. While the first
// one is at work, it gets 409. See docs/adapters.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/padlockhttp"
	"github.com/padlock-go/padlock/stores/filestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, err := filestore.Open(filepath.Join(os.TempDir(), "checkout-locks")) // a lasting directory in real use
	if err != nil {
		return err
	}
	locker := padlock.New(store)
	srv := &http.Server{
		Addr: cmp.Or(os.Getenv("LISTEN"), "localhost:8080"), Handler: routes(locker, charge), WriteTimeout: 30 * time.Second,
	}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		srv.Shutdown(ctx) // waits for the handlers
		locker.Close(ctx) // ends the contexts of those that are left; it has a second even if ctx has ended
	})
	log.Printf("listening on http://%s", srv.Addr)
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// routes returns the handlers. Answers are kept in the memory of this server: with several servers,
// keep them in Redis or SQL.
func routes(locker *padlock.Locker, charge http.HandlerFunc) http.Handler {
	once := padlockhttp.Idempotency{
		Locker:   locker,
		Results:  &padlockhttp.Memory{},
		Scope:    func(*http.Request) string { return "the only user" },
		Required: true,
		OnError:  func(_ *http.Request, err error) { slog.Error("idempotency", "err", err) },
	}
	perCart := padlockhttp.OneAtATime{
		Locker: locker,
		Key:    func(r *http.Request) string { return "cart:" + r.PathValue("cart") },
	}
	mux := http.NewServeMux()
	mux.Handle("POST /carts/{cart}/checkout", once.Wrap(perCart.Wrap(charge)))
	return mux
}

var charges atomic.Int64

// charge takes five seconds, as a slow bank does.
func charge(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(5 * time.Second):
	case <-r.Context().Done(): // the client has gone, or the lock is lost
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "charge %d for cart %s\n", charges.Add(1), r.PathValue("cart"))
}
