// Package sampler watches the locks of a store from outside: what is held, what is stuck, and what
// many wait for. It reads the store again and again with Locker.List and Locker.Inspect, and
// derives the rest from the differences:
//
// Use it for a view of all locks, as package padlockweb and "padlock top" do. For the figures of
// one program, use package metrics or padlockotel instead: they miss nothing between two samples.
//
//	s := sampler.New(locker)
//	go s.Run(ctx)
//	for snap := s.Snapshot(); ; {
//		show(snap)
//		if snap, err = s.Next(ctx, snap.Number); err != nil {
//			return
//		}
//	}
//
// The holders do not take part. So a Sampler also sees locks that PHP, redsync or flock(1) took,
// and a holder that hangs.
//
// # What a Sampler can know
//
// A Sampler knows the store at the moments of its samples only. A hold that begins and ends between
// two samples is not seen, so counts of grants are lower bounds, and usual hold times leave out
// holds that are much shorter than the interval. If a hold ends between two samples, the time of
// its end may be wrong by half an interval.
//
// An end is reported, and counts for the usual hold time, only if it is certain. The same holder
// with the same fence has the same hold, even if a store that replies late shows another beginning.
//
// If the store cannot tell a state, the snapshot shows the state as unknown, and never as "free":
// see [State] and [Snapshot.Incomplete]. An unknown number of waiters is -1 in [Name.Waiters]. If
// the store cannot be reached, the snapshot keeps the rows of the last sample that succeeded.
// [Snapshot.Err] is then set, and [Snapshot.Age] tells how old the rows are.
//
// # Bounds
//
// A Sampler remembers the names that are held and at most MaxNames others, with a fixed number of
// bytes for each: hold times are kept in histograms of fixed size. It sends nothing while nobody waits
// in Next. Then it spends at most a fiftieth of the time in the store, and reads at most 1,000 names a
// second on average: with more names, it samples less often, down to once a minute. A store that reads
// each name by a request gets two of them a second, or a sample a minute if the names are more. [Cost]
// shows the result.
package sampler
