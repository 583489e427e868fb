// Package padlocktest helps to test programs that take locks.
//
// A [Script] is a store in memory that does what the test needs: a lock is lost in the middle of
// the work, another client holds the name, a reply is lost, or the store is out of reach. [New]
// makes a Locker on one:
//
//	func TestImportStopsWhenTheLockIsLost(t *testing.T) {
//		locker, script := padlocktest.New(t)
//		err := locker.Do(t.Context(), "import", func(ctx context.Context) error {
//			script.Lose("import")
//			return Import(ctx, rows) // must stop soon, and must write nothing more
//		})
//		if !errors.Is(err, padlock.ErrLost) {
//			t.Error(err)
//		}
//	}
//
// Time needs no help of this package: in a testing/synctest bubble leases, renewals and waits
// follow the time of the bubble, and hours take milliseconds. A [Clock] is for the suspend of a
// machine, and for tests outside of bubbles.
package padlocktest
