// Package bench is the parent of the benchmarks that compare padlock with other libraries:
//
//	make bench           the core: files, package padlock, memory (package core)
//	make bench-redis     Redis, one and three: redsync, redislock and rueidislock (package redis)
//	make bench-sql       PostgreSQL and SQLite: bare statements, advisory locks (package sql)
//	make bench-command   the command: flock(1), an empty program (package command)
//	make bench-coord     etcd and ZooKeeper: the locks of their clients, bare requests (package coord)
//
// All rows of a table are measured in the same run, because a machine changes between two runs. A
// run has several rounds, and each round starts with another row. The figures are medians over the
// rounds. A ratio is calculated for each round, and the table shows the median of these ratios. The
// table shows each target next to its figure. A missed target is shown, but nothing fails because
// of it.
//
// Package measure is the frame of all benches: flags, rounds, tables and JSON. Package trial
// measures pairs, drains, crowds and contests for any lock. A library or a server joins as a
// trial.Peer: a name, the tables that it is in, and a function that opens a client in about ten
// lines.
//
// docs/internals/performance-rows.md has the figures of a quiet machine.
package bench
