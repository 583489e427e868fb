// Package padlocktest helps to test programs that take locks.
//
// A [Script] is a store in memory in which the test says what happens: a lock is lost in the middle
// of the work, somebody else holds the name, a reply does not come, the store is out of reach.
// [New] makes a Locker on one:
//
//	func TestImportStopsWhenTheLockIsLost(t *testing.T) {
//		locker, script := padlocktest.New(t)
//		err := locker.Do(t.Context(), "import", func(ctx context.Context) error {
//			script.Lose("import")
//			return Import(ctx, rows) // is to stop soon, and to write nothing more
//		})
//		if !errors.Is(err, padlock.ErrLost) {
//			t.Error(err)
//		}
//	}
//
// Time needs nothing of this package: in a testing/synctest bubble leases, renewals and waits
// follow the bubble's clock, and hours take milliseconds. A [Clock] is for what a bubble cannot do,
// such as a machine that was suspended.
package padlocktest
