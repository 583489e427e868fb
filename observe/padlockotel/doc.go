// Package padlockotel reports the locks of a program to OpenTelemetry: metrics, and spans around
// acquires, holds and releases.
//
// Use it if your program uses OpenTelemetry already. For figures in Prometheus alone, use package
// metrics instead, which links no other library.
//
//	observer, err := padlockotel.New()
//	locker := padlock.New(store,
//		padlock.Observe(observer),
//		padlock.TraceHolders(padlockotel.Traceparent)) // optional: links to the holder
//
// # Metrics
//
// All times are in seconds. The attribute padlock.group is the group of the name: by default the
// text before its first ':' or '/'. A store has at most 100 groups, and the names of all further
// groups count as "_other". A name itself is never an attribute of a metric, because the number of
// names has no bound.
//
//	padlock.lock.wait_time            histogram  how long an acquire took: padlock.store, padlock.group, padlock.mode,
//	                                             padlock.outcome (acquired, held, timeout, canceled, error), error.type
//	padlock.lock.use_time             histogram  how long a lock was held: padlock.outcome (released, expired, lost, max_hold, closed)
//	padlock.lock.count                up-down    locks that are held
//	padlock.lock.pending_requests     up-down    acquires that wait, or ask the store
//	padlock.lock.lost                 counter    locks that were lost while they were held: padlock.reason (lost, expired)
//	padlock.lock.renewal_slack        histogram  how much of a lease was left when a renewal was confirmed
//	padlock.election.leading          gauge      1 if the candidate of Observer.Election leads
//	padlock.stampede.gets             counter    calls of Get of the Cache of Observer.Stampede: padlock.cache,
//	                                             padlock.result (hit, stale, miss)
//	padlock.stampede.runs             counter    calls of the Cache's function: padlock.cache
//	padlock.stampede.errors           counter    calls of the Cache's function that failed: padlock.cache
//
// # Spans
//
// An acquire has a span "padlock acquire" with the events "contended" and "granted". The time from
// the grant to the release has a span "padlock hold"; with Do, that is the run of the function, and
// its status is Error if the function returned an error or panicked. The release has a span
// "padlock release". All three are children of the span in the caller's context. Each span has the
// full name of the lock in the attribute padlock.lock.name. Lock.Context contains the span "padlock
// hold".
//
// If an acquire finds the lock held, its span gets a link to the trace of the holder, if the holder
// gave padlock.TraceHolders and the store keeps the trace. So the trace of a slow request leads to
// the job that held the lock.
package padlockotel
