// Package metrics counts and times the locks of a program, and shows the figures in the text format
// of Prometheus. It also shows the figures of elections (Metrics.Election) and of caches of package
// stampede (Metrics.Stampede). It needs the standard library only. Use it if Prometheus reads your
// program. If your program uses OpenTelemetry, use package padlockotel instead.
//
//	m := metrics.New()
//	locker := padlock.New(store, padlock.Observe(m))
//	http.Handle("/metrics", m)
//
// All durations are in seconds. The metrics of locks and stores have the labels store and group.
// Further labels of a metric stand in parentheses:
//
//	padlock_lock_wait_seconds               histogram  time of acquires (mode, outcome)
//	padlock_lock_use_seconds                histogram  time of holds (mode, outcome)
//	padlock_locks                           gauge      locks that are held now
//	padlock_lock_pending_requests           gauge      acquires that are under way now
//	padlock_lock_contended_total            counter    acquires that found the name held
//	padlock_lock_hand_overs_total           counter    locks that came directly from the previous holder (way)
//	padlock_lock_lost_total                 counter    locks that were lost (reason)
//	padlock_lock_forgotten_total            counter    locks that the program dropped without Release
//	padlock_lock_renewal_slack_seconds      histogram  rest of the lease when a renewal was confirmed
//	padlock_lock_renewal_failures_total     counter    renewals that were not confirmed
//	padlock_store_operation_seconds         histogram  requests to the store (operation)
//	padlock_store_uncertain_total           counter    requests without a reply
//	padlock_store_cleanups_total            counter    finished clean-ups after such requests (outcome)
//	padlock_election_leading                gauge      1 if this process leads (election)
//	padlock_stampede_gets_total             counter    calls of Cache.Get (cache, result: hit, stale, miss)
//	padlock_stampede_runs_total             counter    calls of the Cache's function (cache)
//	padlock_stampede_errors_total           counter    calls of the Cache's function that failed (cache)
//	padlock_build_info                      gauge      1 (version, goversion)
//
// There is no label for the name of a lock, because the number of names has no limit. A name
// belongs to a group, by default the text before the first ':' or '/'. There are at most 100 groups
// for each store; further names belong to the group "_other".
package metrics
