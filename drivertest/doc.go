// Package drivertest checks that a store keeps the contract of package driver. It is for authors of
// stores. To test a program that takes locks, use package padlocktest instead.
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
//	extend/never-shortens: Extend never shortens a lease, and neither does a repeat of Acquire or Convert.
//		seen: Acquire by another process, after Extend: want a *HeldError, got a grant with fence 7
//		at:   cases_extend.go:22
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
// Run opens two stores at the start. They stand for two processes, and most cases share them. Every
// case uses its own names. So cases run in parallel, and several suites may run on one server.
//
// A store that breaks a rule about safety fails at once, however busy the machine is: a name that has
// two holders before the lease of the first can have ended, a lease that ends too early, a fence that falls, or a wrong answer. Such a case
// never runs again.
//
// On a slow machine, some failures prove nothing about the store. There are three kinds:
//
//   - A lease ended before the case had checked the hold. The case uses the shortest lease that the
//     store allows, and runs again with a longer one.
//   - Something came too late, or waiters lost their turn, and meanwhile this process stood still,
//     or waited for replies, for at least a quarter of the time that is allowed. Then the case runs
//     again.
//   - The store had no answer (ErrUnavailable or ErrUncertain), or gave a hold up because its
//     connection did not answer, although the case does not disturb it. Meanwhile this process stood
//     still, or waited for replies, for at least a quarter of driver.MaxSilence or of
//     Guarantees.LossDelay. Then, too, the case runs again.
//
// The suite cannot see every delay: the process of the server, or a single goroutine, may have
// stood still. So a case also runs again if something took longer than a limit of less than
// driver.MaxSilence. It also runs again if the store waited for a twentieth of MaxSilence or more
// before it gave a call up, or if it had no answer while calls of other cases were late. If that
// happens in three attempts, the case fails.
//
// The log has each of these failures, and the summary counts them. If all of eight attempts fail,
// the case fails. So a slow machine makes a case fail only after several attempts, or if a result
// takes longer than 10 s.
//
// If a method has not returned after twice driver.MaxSilence, its case fails. After three such
// cases the run ends.
//
// Some rules hold for every result, for example that no error shows a token. The suite checks these
// rules in all cases. A failure then names the rule, and the case that got the result.
//
// If a store breaks one rule and therefore also another, only the case about the first rule fails.
// For example, many cases need two readers. If a store does not let readers in together, these
// cases end without a failure, and the case shared/together fails.
package drivertest
