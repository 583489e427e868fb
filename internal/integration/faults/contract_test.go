package faults

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/quorum"
	"github.com/padlock-go/padlock/redisstore"
)

// The whole suite on a quorum of five real servers. The other tests of this package show its
// promises with some servers dead, frozen or cut off: there an answer may be "unavailable" for a
// moment, where the suite expects a plain one.
func TestContractOnFive(t *testing.T) {
	t.Parallel()
	r := newRack(t, 5)
	runPatiently(t, drivertest.Harness{Open: r.open, Slow: true, Parallel: 4})
}

// open makes a patient quorum of all servers, without proxies. It is patient because the machine
// may be busy.
func (r *rack) open(ctx context.Context) (driver.Store, error) {
	ids := redisstore.RememberRunIDs(&runIDs{})
	var stores []driver.Store
	for _, srv := range r.servers {
		s, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{srv.Addr()}}, ids, redisstore.Lazy())
		if err != nil {
			return nil, err
		}
		stores = append(stores, s)
	}
	return quorum.New(quorum.Majority, stores, quorum.MemberTimeout(time.Second))
}
