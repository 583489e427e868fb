package etcdstore_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// TestReleaseAfterDemote: a waiter that was granted the name, and knows the waiters behind it, is
// demoted to a reader. Its Release ends the shared hold and passes nothing on, because the next
// waiter takes the name itself.
func TestReleaseAfterDemote(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	first := mustOpen(t, []string{srv.Addr()})
	for _, passedOn := range []bool{false, true} {
		name := map[bool]string{false: "claimed", true: "passed on"}[passedOn]
		t.Run(name, func(t *testing.T) {
			stores := []*etcdstore.Store{mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()})}
			take(t, first, request(name, "first"))
			results := queueUp(t, name, stores...)
			if _, err := first.Release(t.Context(), name, "first", 0); err != nil {
				t.Fatal(err)
			}
			w := <-results
			if passedOn {
				w.s.Release(t.Context(), name, w.r.Token.Text(), 0)
				w = <-results
			}
			if w.err != nil || w.g.TTL == 0 {
				t.Fatal(w.g, w.err)
			}
			w.r.Shared = true
			if _, err := w.s.Convert(t.Context(), w.r); err != nil {
				t.Fatal(err)
			}
			if o, err := w.s.Release(t.Context(), name, w.r.Token.Text(), 0); err != nil || o != driver.OutcomeReleased {
				t.Errorf("Release of a demoted hold: %v, %v", o, err)
			}
			if next := <-results; next.err != nil || !safety.Rises(t, next.g.Fence, w.g.Fence) {
				t.Errorf("the next waiter: %+v, %v", next.g, next.err)
			}
		})
	}
}
