// Package election chooses one leader among many processes. The leader holds a lock, so the
// election promises what the store of the lock promises:
//
//	e := election.New(locker, "scheduler")
//	err := e.Run(ctx, func(ctx context.Context) error {
//		return schedule(ctx) // runs in one process at a time
//	})
//
// Each process calls [Election.Run]. Run waits until the process is the leader, and then calls the
// function. After a loss of the lead, Run campaigns again. The context of the function ends before
// the lease can have ended. The lead is given up only when the function has returned. If a leader
// dies, another candidate leads when its lease has ended: after 30 s, unless [LockOptions] sets
// another TTL. [OnError] gets the errors that do not end Run.
//
// Use it if one of many processes should work and the others stand by, as a scheduler does. For a
// job that starts at a time of day and should run once, use padlock.HoldAtLeast instead.
//
// As with any lock, a process may be paused between a check of its context and a write. Then it may
// write after another process has become the leader. To prevent that, send the fence with each
// write (padlock.FenceFrom) and check it where the data is.
package election
