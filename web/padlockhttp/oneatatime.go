// Package padlockhttp puts locks around handlers of net/http.
//
// Use it if two requests must not work on the same cart, account or file at the same time, or if
// clients repeat requests. A handler whose work is one transaction in a database does not need it:
// the database orders the transactions.
//
// [OneAtATime] lets one request at a time work on a thing, on all servers:
//
//	perCart := padlockhttp.OneAtATime{
//		Locker: locker,
//		Key:    func(r *http.Request) string { return "cart:" + r.PathValue("cart") },
//	}
//	mux.Handle("POST /carts/{cart}/checkout", perCart.Wrap(checkout))
//
// [Idempotency] answers a request that a client repeats, with the answer to the first one. The
// client marks the repeat with the header Idempotency-Key.
//
// The context of a request ends when its lock is lost, and padlock.FenceFrom finds the fence of the
// lock in it. Handlers may stream, with http.Flusher or http.ResponseController.
package padlockhttp

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
)

// OneAtATime is a middleware: of all requests with the same key, on all servers that share the lock
// store, one at a time is at work.
//
// A request that does not get the lock gets the answer of [Refuse]: mostly 409 Conflict with
// Retry-After. If a handler has not begun its answer when it returns, and the lock did not last
// until then, the answer is 500, because the work may be done in part. Locker.Close ends the locks
// of requests that are at work, too. If the answer has begun, it stays as it is.
//
// Set the fields before the first use.
type OneAtATime struct {
	// Locker takes the locks. It must not be nil.
	Locker *padlock.Locker

	// Key returns the name of the lock of a request. If it returns "", the request needs no lock.
	// It must not be nil. The name may come from the client: begin it with a text of your own, such
	// as "cart:".
	Key func(*http.Request) string

	// Options are those of the lock. Without padlock.Wait among them, a request does not wait. With
	// it, a request waits as long as the option says, but no longer than until its context ends, or
	// until 70 % of the server's WriteTimeout are over. That time begins with the outermost
	// middleware of this package, and all locks of the request share it.
	Options []padlock.Option
}

// Wrap returns a handler that calls next under the lock of each request. It panics if a field is
// missing, or next is nil.
func (o OneAtATime) Wrap(next http.Handler) http.Handler {
	if o.Locker == nil || o.Key == nil || next == nil {
		panic("padlockhttp: OneAtATime needs a Locker, a Key and a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := o.Key(r)
		if name == "" {
			next.ServeHTTP(w, r)
			return
		}
		r = withWaitEnd(r)
		lock, err := acquire(r, o.Locker, name, o.Options)
		if err != nil {
			Refuse(w, err)
			return
		}
		defer lock.Release() // even if the handler panics
		ctx, cancel := lock.Join(r.Context())
		defer cancel()
		a := &answer{ResponseWriter: w}
		next.ServeHTTP(a, r.WithContext(ctx))
		over := lock.Context().Err() != nil // lost, or released by Locker.Close
		if err := lock.Release(); over || isLoss(err) {
			noteLoss(r)
			if !a.begun {
				refuseLost(w)
			}
		}
	})
}

// acquire takes the lock of a request. The wait ends early enough for an answer within the server's
// WriteTimeout; see withWaitEnd.
func acquire(r *http.Request, l *padlock.Locker, name string, opts []padlock.Option) (*padlock.Lock, error) {
	ctx := r.Context()
	if end, ok := ctx.Value(waitEndKey{}).(time.Time); ok {
		if time.Until(end) <= 0 { // no time to wait, but a lock that is free may be taken
			return l.TryAcquire(ctx, name, opts...)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	return l.Acquire(ctx, name, append([]padlock.Option{padlock.Wait(0)}, opts...)...)
}

type waitEndKey struct{}

// withWaitEnd returns r with the time at which its waits for locks end: when 70 % of the server's
// WriteTimeout are over. If a middleware outside has set that time already, it stays.
func withWaitEnd(r *http.Request) *http.Request {
	ctx := r.Context()
	srv, ok := ctx.Value(http.ServerContextKey).(*http.Server)
	if !ok || srv.WriteTimeout <= 0 || ctx.Value(waitEndKey{}) != nil {
		return r
	}
	return r.WithContext(context.WithValue(ctx, waitEndKey{}, time.Now().Add(srv.WriteTimeout*7/10)))
}

type lossKey struct{}

// noteLoss tells the Idempotency around r, if there is one, that a lock inside was lost.
func noteLoss(r *http.Request) {
	if lost, ok := r.Context().Value(lossKey{}).(*atomic.Bool); ok {
		lost.Store(true)
	}
}
