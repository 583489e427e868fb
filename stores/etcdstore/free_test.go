package etcdstore_test

import (
	"fmt"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// TestFreeName: to take a free name costs one transaction, and its Release another one, whether the
// name was held before or not, and whether by this store or another one. A fence ahead of the clock
// costs one more, and no fence is granted twice.
func TestFreeName(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s, other := mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()})
	take(t, s, request("first", "first")) // makes the lease
	take(t, other, request("second", "second"))
	last := uint64(0)
	for i, c := range []struct {
		name  string
		other bool
		ahead uint64
		want  int
	}{
		{"new", false, 0, 2},
		{"new", false, 0, 2},
		{"new", true, 0, 2},
		{"new again", true, 0, 2},
		{"new", false, 1 << 52, 2},
		{"new", false, 0, 3},
		{"new", true, 0, 3},
	} {
		from := s
		if c.other {
			from = other
		}
		r := request(c.name, fmt.Sprint("token ", i))
		r.FenceAbove = c.ahead
		before := callCount(t, srv.Addr(), "Txn")
		g := take(t, from, r)
		if o, err := from.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil || o != driver.OutcomeReleased {
			t.Fatalf("%d: Release: %v, %v", i, o, err)
		}
		if n := callCount(t, srv.Addr(), "Txn") - before; n != c.want {
			t.Errorf("%d: %d transactions, want %d", i, n, c.want)
		}
		safety.Rises(t, g.Fence, max(last, c.ahead), "grant", i)
		last = g.Fence
	}
}
