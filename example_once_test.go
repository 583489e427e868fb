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

// A message queue delivers some messages twice. Each is handled once, and again after a failure.
func ExampleHeldError_cooling() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)

	handle := func(message string, work error) {
		lock, err := locker.TryAcquire(ctx, "message:"+message)
		var held *padlock.HeldError
		switch {
		case errors.As(err, &held) && held.Cooling():
			fmt.Println(message, "was handled before")
		case err != nil:
			fmt.Println(err) // another worker is at it, or the store is away: let the message come again
		case work != nil:
			fmt.Println(message, "has failed:", work)
			lock.Release() // the next delivery may begin at once
		default:
			fmt.Println(message, "is handled")
			lock.Release(padlock.CoolDown(time.Hour)) // for an hour, nobody handles it again
		}
	}
	handle("welcome 7", errors.New("no network"))
	handle("welcome 7", nil)
	handle("welcome 7", nil)
	// Output:
	// welcome 7 has failed: no network
	// welcome 7 is handled
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
