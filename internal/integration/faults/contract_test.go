package faults

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// The whole suite on a quorum of five real servers. The other tests of this package show its
// promises with some servers dead, frozen or cut off: there an answer may be "unavailable" for a
// moment, where the suite expects a plain one.
func TestContractOnFive(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	checkMajority(t, drivertest.Harness{Slow: true, Parallel: 4}, r.open)
}

// open opens all servers, without proxies.
func (r *rack) open(ctx context.Context) (stores []driver.Store, err error) {
	ids := redisstore.RememberRunIDs(&runIDs{})
	for _, srv := range r.servers {
		s, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{srv.Addr()}}, ids, redisstore.Lazy())
		if err != nil {
			return nil, err
		}
		stores = append(stores, s)
	}
	return stores, nil
}
