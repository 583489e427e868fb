package election

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// probeTime bounds how long Ready waits for the store.
const probeTime = 2 * time.Second

// Ready returns a handler for a readiness probe. It replies 200 if this candidate leads or could
// become the leader: Run is under way, the store replies, and the last campaign did not fail.
// Otherwise it replies 503 and the reason. A candidate that waits for the lead is ready, so a
// rolling deployment can continue while the old leader still leads.
func (e *Election) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		running, trouble, leads := e.running, e.trouble, e.term != nil
		e.mu.Unlock()
		ctx, cancel := context.WithTimeout(r.Context(), probeTime)
		defer cancel()
		switch {
		case !running:
			answer(w, http.StatusServiceUnavailable, "Run is not under way")
			return
		case trouble != nil:
			answer(w, http.StatusServiceUnavailable, "the last campaign failed: "+trouble.Error())
			return
		}
		if _, err := e.Leader(ctx); err != nil && !errors.Is(err, ErrNoLeader) && !errors.Is(err, errors.ErrUnsupported) {
			answer(w, http.StatusServiceUnavailable, "the store does not reply: "+err.Error())
			return
		}
		if leads {
			answer(w, http.StatusOK, "leads")
			return
		}
		answer(w, http.StatusOK, "waits for the lead")
	})
}

// Leading returns a handler that replies 200 if this candidate leads, and 503 otherwise. It sends
// no request to the store. It is for a load balancer that sends requests only to the leader. Do not
// use it as the readiness probe of a rolling deployment: the new process does not become ready
// while the old one leads, so the deployment stops there.
func (e *Election) Leading() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !e.Leads() {
			answer(w, http.StatusServiceUnavailable, "does not lead")
			return
		}
		answer(w, http.StatusOK, "leads")
	})
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
