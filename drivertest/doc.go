// Package drivertest checks that a store keeps the contract of package driver. It is for authors of
// stores.
//
// The test of a store is this long:
//
//	func TestContract(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{
//			Open: func(ctx context.Context) (driver.Store, error) {
//				return mystore.Open(ctx, address)
//			},
//		})
//	}
//
// The example of this package is a whole store together with its test.
//
// Run asks the store for its Guarantees, finds out which optional interfaces it has, and runs every
// case that applies. Each is a subtest, so one rule can be checked alone:
//
//	go test -run TestContract/extend/never-shortens
//
// Run ends with a log (go test -v) that names the abilities of the store and each promise that
// could not be checked. The hooks of [Harness] let Run check more: if one restarts the server, for
// example, Run compares the fences before and after.
//
// A failure names the rule that was broken, then what was seen, and where:
//
//	extend/never-shortens: Extend never shortens a lease.
//		seen: Acquire by another process, after Extend by less than was left: granted 300ms too early
//		at:   cases_extend.go:33
//
// If a store tells time by Go's own clock, the suite takes no time at all in a bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		for _, f := range drivertest.Check(harness) {
//			t.Error(f)
//		}
//	})
//
// # How the cases work
//
// Two stores are opened at the start and stand for two processes; most cases share them. Every case
// uses names of its own, so cases run in parallel, and several suites may run on one server.
//
// Leases that have to run out are as short as the store allows. If a case was held up for so long
// that its lease may have ended in the meantime, it proves nothing about the store: the case runs
// again with longer leases. A case that fails while the process did not get to run for longer than
// 30 ms runs again too, at most four times, and the log says so. No case fails because a machine is
// slow, unless a result takes longer than 10 s, after which it counts as missing.
//
// Some rules hold for every result, for example that no error shows a token. They are checked on
// the results in all other cases, and reported under a name of their own.
//
// If a store that breaks one rule cannot help breaking another, only the case about the first one
// fails. A case that cannot be set up, for example because readers are not let in together, ends in
// silence.
package drivertest
