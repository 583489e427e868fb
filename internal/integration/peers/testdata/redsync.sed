# Makes mutex_test.go of redsync v4.18.1 a test of compat/redsync. redsync_helpers.txt stands for its
# helpers, which read the servers through a pool, and for redsync_test.go, whose one test says less.
/redsync\/v4\/redis"/d
s/redis\.Pool/Pool/
s/mutex\.quorum/len(v.pools)\/2+1/
/^func \(getPoolValues\|getPoolExpiries\|clogPools\|newTestMutexes\|isAcquired\|countAcquiredPools\|assertAcquired\)(/,/^}/d
