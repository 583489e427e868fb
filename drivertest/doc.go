// Package drivertest checks that a store keeps the contract of package driver. It is for authors of
// stores.
//
// The test of a store can be as short as this:
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
// case that applies. Each case is a subtest, so one rule can be checked alone:
//
//	go test -run TestContract/extend/never-shortens
//
// Run ends with a log (go test -v) that lists the abilities of the store and every promise that
// could not be checked. With the hooks of [Harness], Run checks more. For example, if a hook can
// restart the server, Run compares the fences before and after the restart.
//
// A failure names the rule that was broken. Then it says what the case saw, and where it saw this.
// In this example, Extend was called with a time shorter than the rest of the lease:
//
//	extend/never-shortens: Extend never shortens a lease.
//		seen: Acquire by another process, after Extend by less than was left: granted 300ms too early
//		at:   cases_extend.go:33
//
// If a store tells time by Go's own clock, the suite takes no time at all in a testing/synctest
// bubble:
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
// uses its own names, so cases run in parallel, and several suites may run on one server.
//
// If a case needs a lease to run out, the lease is as short as the store allows. A case may be
// delayed for so long that its lease could have ended in the meantime. Then it proves nothing about
// the store, and runs again with longer leases. A case also runs again if it failed and the process
// stood still for more than 30 ms during the case. A case runs at most five times, and the log
// reports repetitions. So a slow machine makes no case fail, unless a result takes longer than 10
// s; then it counts as missing.
//
// Some rules hold for every result, for example that no error shows a token. Such a rule is checked
// on the results in all cases, and a failure names this rule.
//
// If a store breaks one rule and therefore also breaks another, only the case about the first rule
// fails. If a case cannot be set up, for example because readers are not let in together, it ends
// without a failure.
package drivertest
