// Package election chooses one leader among many processes. The leader holds a lock, so a leader is
// what the lock's store promises:
//
//	e := election.New(locker, "scheduler")
//	err := e.Run(ctx, func(ctx context.Context) error {
//		return schedule(ctx) // runs in one process at a time
//	})
//
// Each process calls [Election.Run]. It waits for the lead, calls the function while it leads, and
// campaigns again after a loss. The context of the function ends before the lease can have ended.
// The lead is given up only when the function has returned.
//
// As with any lock, a process that is paused between a look at its context and a write may write
// after another process has become the leader. Against that, send the fence with each write
// (padlock.FenceFrom) and check it where the data is.
package election
