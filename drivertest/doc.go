// Package drivertest checks that a store keeps the contract of package driver.
// It is for those who write a store.
//
// A store's test is this long:
//
//	func TestContract(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{
//			Open: func(ctx context.Context) (driver.Store, error) {
//				return redisstore.Open(ctx, address)
//			},
//		})
//	}
//
// Run asks the store for its Guarantees, finds out which optional methods it
// has, and runs every case that applies, each as a subtest with a name of its
// own, so that one case can be run with -run TestContract/extend/never-shortens.
// It ends with a log of what was found, and of each promise that could not be
// checked. The hooks of [Harness] let it check more: a store whose harness can
// restart its server is also asked for its fences afterwards.
//
// A store that tells time by Go's own clock is checked in no time at all:
//
//	synctest.Test(t, func(t *testing.T) {
//		for _, f := range drivertest.Check(harness) {
//			t.Error(f)
//		}
//	})
//
// A failure names the rule that was broken, in the words of the contract, and
// then what was seen and where it was checked:
//
//	extend/never-revives: Extend never revives a lease that has run out, …
//		seen: Extend after the lease had run out was granted; it must answer ErrExpired or ErrLost
//		at:   cases_extend.go:64
//
// # How the cases work
//
// Two stores are opened at the start and stand for two processes; most cases
// share them. Every case uses names of its own, so cases run side by side, and
// several suites may run on one server.
//
// Leases that have to run out are as short as the store allows. When a case
// was held up for so long that its lease may have ended in the meantime,
// nothing can be said about the store: the case is run again with longer
// leases. No case fails because a machine is slow, unless it is slower than
// the deadline after which an answer counts as missing (10 s).
package drivertest
