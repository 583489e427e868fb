// Package server starts real servers for tests. Each test gets its own server process on a free
// port of 127.0.0.1, with its own data directory. The server is killed at the end of its test. On
// Linux, it is killed even if the test's process is killed. The package uses the standard library
// only, so the tests of any module may import it.
//
//	srv := server.Redis(t, server.RedisOptions{})
//	client := dial(srv.Addr())
//	srv.Kill()         // as a crash would
//	srv.Restart(true)  // same port, same data
//
// Functions such as [Redis] and [Postgres] start one kind of server. [Start] starts any server that
// a [Spec] describes. If the program is not installed, the test is skipped with that reason. If the
// environment has CI=true, the test fails instead.
package server
