package server

import "testing"

// Needs skips the test if a server is not installed, or fails it in CI. A test that starts servers
// by functions for programs, which cannot skip it, calls Needs first. The names are "redis",
// "postgres" and "zookeeper".
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
			t.Fatalf("Needs does not know %q", name)
		}
		if err != nil {
			missing(t, err)
		}
	}
}
