package padlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A message queue delivers some messages twice. Each is handled once.
func ExampleLocker_Claim() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)

	for _, message := range []string{"welcome 7", "invoice 42", "welcome 7"} {
		first, err := locker.Claim(ctx, "handled:"+message, time.Hour)
		switch {
		case err != nil:
			fmt.Println(err) // the store is away: let the queue deliver the message again
		case first:
			fmt.Println("handled", message)
		default:
			fmt.Println(message, "was handled before")
		}
	}
	// Output:
	// handled welcome 7
	// handled invoice 42
	// welcome 7 was handled before
}

// Several machines have the same timer. One of them does the work.
func ExampleLocker_TryDo() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)

	err := locker.TryDo(ctx, "cleanup", func(ctx context.Context) error {
		fmt.Println("cleaning up")
		other := locker.TryDo(context.Background(), "cleanup", func(context.Context) error { return nil })
		fmt.Println("another machine has nothing to do:", errors.Is(other, padlock.ErrHeld))
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// cleaning up
	// another machine has nothing to do: true
	// <nil>
}

// The work of a handler stops if the client goes away, or if the lock is lost. Other requests learn
// when to come again.
func ExampleLock_Join() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)
	working, done := make(chan struct{}), make(chan struct{})
	export := func(w http.ResponseWriter, r *http.Request) {
		lock, err := locker.TryAcquire(r.Context(), "export")
		var held *padlock.HeldError
		switch {
		case errors.As(err, &held):
			w.Header().Set("Retry-After", fmt.Sprintf("%.0f", held.RetryAfter(5*time.Second).Seconds()))
			w.WriteHeader(http.StatusConflict)
			return
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer lock.Release()
		ctx, cancel := lock.Join(r.Context())
		defer cancel()

		close(working)
		<-ctx.Done() // long work
		close(done)
	}

	request, goAway := context.WithCancel(ctx)
	go export(httptest.NewRecorder(), httptest.NewRequestWithContext(request, "POST", "/export", nil))
	<-working
	answer := httptest.NewRecorder()
	export(answer, httptest.NewRequest("POST", "/export", nil))
	fmt.Println(answer.Code, "again after", answer.Header().Get("Retry-After"), "s")
	goAway()
	<-done
	fmt.Println("the work has stopped")
	// Output:
	// 409 again after 5 s
	// the work has stopped
}
