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
// own, so that one rule can be checked with -run TestContract/extend/never-shortens.
// It ends with a log (go test -v) of what was found, and of each promise that
// could not be checked. The hooks of [Harness] let it check more: with a hook
// that restarts the server, for example, it asks for the fences afterwards.
//
// A failure names the rule that was broken, then what was seen, and where:
//
//	extend/never-shortens: Extend never shortens a lease.
//		seen: Acquire by another process, after Extend by less than was left was granted 300ms too early
//		at:   cases_extend.go:33
//
// A store that tells time by Go's own clock is checked in no time at all:
//
//	synctest.Test(t, func(t *testing.T) {
//		for _, f := range drivertest.Check(harness) {
//			t.Error(f)
//		}
//	})
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
// leases. A case that fails while the process did not get to run for longer
// than 30 ms is run again, too, at most four times, and the log says so. No case
// fails because a machine is slow, unless it is slower than the time after
// which an answer counts as missing (10 s).
//
// What holds for every answer, such as that no error shows a token, is checked
// on the results in all other cases, and reported under a name of its own.
//
// A rule that a store cannot break any more once it has broken another is
// reported once, where it is the subject: a case that cannot be set up, since
// readers are not let in together for example, ends in silence.
package drivertest
