package adapters

import (
	"log/slog"
	"net/http"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/padlockhttp"
)

func shop(locker *padlock.Locker, results padlockhttp.Results, checkout http.Handler) http.Handler {
	once := padlockhttp.Idempotency{
		Locker:  locker,
		Results: results,
		Scope:   func(r *http.Request) string { return r.Header.Get("X-User") }, // set by your login
		OnError: func(r *http.Request, err error) { slog.ErrorContext(r.Context(), "idempotency", "err", err) },
	}
	perCart := padlockhttp.OneAtATime{
		Locker: locker,
		Key:    func(r *http.Request) string { return "cart:" + r.PathValue("cart") },
	}
	mux := http.NewServeMux()
	mux.Handle("POST /carts/{cart}/checkout", once.Wrap(perCart.Wrap(checkout)))
	return mux
}
