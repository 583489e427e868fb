package peers

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/drivertest/server"
	"github.com/padlock-go/padlock/open"
)

// TestPHPsDSN gives PHP's StoreFactory a DSN, and us the same with symfony+
// before it: both keep their locks in the same place.
func TestPHPsDSN(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Password: "c4n4ry"})
	for _, dsn := range []string{
		"redis://c4n4ry@" + srv.Addr() + "/5",
		"redis://c4n4ry@" + srv.Addr() + "?timeout=20",
		"redis:c4n4ry@?host[" + srv.Addr() + "]&dbindex=6",
		"flock://" + t.TempDir(),
	} {
		theirs := runPHP(t, dsn).lock("job")
		store, err := open.Store(t.Context(), "symfony+"+dsn, open.StateDir(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		l := padlock.New(store)
		t.Cleanup(func() { l.Close(context.Background()) })
		lock, err := l.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		theirs.cannot("acquire")
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		theirs.must("acquire")
		_, err = l.TryAcquire(t.Context(), "job")
		wantIs(t, err, padlock.ErrHeld, "TryAcquire of what PHP has by the same DSN")
		theirs.must("release")
	}
}
