// Package server starts real servers for tests: a process of its own for each
// test, on a free port of 127.0.0.1, with a data directory of its own, killed
// with its test even when the test's process is killed. It uses the standard
// library only, so any module's tests may import it.
//
//	srv := server.Redis(t, server.RedisOptions{})
//	client := dial(srv.Addr())
//	srv.Kill()         // as a crash would
//	srv.Restart(true)  // same port, same data
//
// [Redis] and [Postgres] are ready-made; [Start] starts anything that a [Spec]
// describes. A program that is not installed skips the test with its reason on
// a developer's machine and fails it when the environment says CI=true.
package server
