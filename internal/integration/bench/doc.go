// Package bench is the parent of the benchmarks that compare padlock with other libraries:
//
//	make bench           the core: files, package padlock, memory, idle holds (package core)
//	make bench-redis     Redis: redsync, redislock and rueidislock (package redis)
//	make bench-session   web sessions: scs, gorilla and PHP (package session)
//	make bench-stampede  a value that many miss: singleflight, go-redis/cache and rueidisaside (package stampede)
//
// All rows of a table are measured in one run, round by round, in an order that rotates, because a
// machine is never the same for two runs. The figures are medians over the rounds, and a ratio is
// the median of the ratios of the rounds. The table shows each target next to its figure. A target
// that is missed never fails anything: timings are for reading. docs/performance.md has the figures
// of a quiet machine.
package bench
