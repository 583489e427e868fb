package remote

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Ready returns the handler of /readyz, which tells load balancers and monitors with status 200 or
// 503 whether the store can be read. It calls read once a second at most, for 2 seconds at most.
func Ready(read func(context.Context) error) http.HandlerFunc {
	var (
		look   sync.Mutex // guards looked and ready
		looked time.Time
		ready  bool
	)
	return func(rw http.ResponseWriter, r *http.Request) {
		look.Lock()
		defer look.Unlock()
		if time.Since(looked) >= time.Second {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Second)
			defer cancel()
			ready, looked = read(ctx) == nil, time.Now()
		}
		status, text := http.StatusOK, "ok\n"
		if !ready {
			status, text = http.StatusServiceUnavailable, "the store cannot be read\n"
		}
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.WriteHeader(status)
		rw.Write([]byte(text))
	}
}
