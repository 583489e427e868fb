package server

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// NeedsRoot skips the test if this process is not root's, or fails it in CI.
func NeedsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, errors.New("only root can run this test"))
	}
}

// Needs skips the test if a server or a program is not installed, or fails it in CI. A test that
// starts servers by functions for programs, which cannot skip it, calls Needs first. The names are
// "redis", "postgres", "zookeeper", and those of programs.
func Needs(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		var err error
		switch name {
		case "redis":
			_, err = redisSpec(RedisOptions{}).find()
		case "postgres":
			_, err = postgresSpec(PostgresOptions{}).find()
		case "zookeeper":
			err = findZooKeeper()
		default:
			_, err = exec.LookPath(name)
		}
		if err != nil {
			missing(t, err)
		}
	}
}
