// Package bench is the parent of padlock's benchmarks beside its peers:
//
//	make bench           the core: files, the face, memory, idle holds (package core)
//	make bench-redis     Redis, beside redsync, redislock and rueidislock (package redis)
//	make bench-session   web sessions, beside scs, gorilla and PHP (package session)
//	make bench-stampede  a value that many miss, beside singleflight, go-redis/cache and rueidisaside (package stampede)
//
// All rows of a table are measured in one run, round by round, in an order
// that rotates, since a machine is never the same for two runs. What is
// printed are medians over the rounds; a ratio is the median of the ratios of
// the rounds. Each target stands beside its figure. A target that is missed
// never fails anything: timings are for reading. docs/performance.md has the
// figures of a quiet machine.
package bench
