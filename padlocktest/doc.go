// Package padlocktest helps to test programs that take locks. Use it to see how a program behaves
// when a lock is lost or cannot be had. If a test needs only a working lock, use package memstore
// instead. Authors of stores use package drivertest.
//
// A [Script] is a store in memory that does what the test needs: it loses a lock in the middle of
// the work, lets another client hold the name, loses a reply, or becomes unreachable. [New] makes a
// Locker on a Script:
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
// A test that depends on time can run in a testing/synctest bubble. There, leases, renewals and
// waits follow the time of the bubble, and hours take milliseconds.
package padlocktest
