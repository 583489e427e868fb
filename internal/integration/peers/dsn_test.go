package peers

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// TestPHPsDSN gives PHP's StoreFactory a DSN, and padlock the same one with the prefix symfony+.
// Both keep their locks in the same place.
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
		store, err := all.Store(t.Context(), "symfony+"+dsn, open.StateDir(t.TempDir()))
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
		wantIs(t, err, padlock.ErrHeld, "TryAcquire of a name that PHP holds through the same DSN")
		theirs.must("release")
	}
}

// TestDSNDifferences uses DSNs that PHP 5.4's Symfony and padlock read differently. Each time one
// side fails to open, so the two never use different places for one DSN.
func TestDSNDifferences(t *testing.T) {
	t.Parallel()
	percent := server.Redis(t, server.RedisOptions{Password: "c4%41nary"}).Addr()
	users := server.Redis(t, server.RedisOptions{ACL: "user default on >c4n4ry ~* &* +@all\nuser app on >other ~* &* +@all\n"}).Addr()
	for _, row := range []struct {
		what, dsn    string
		php, padlock bool
	}{
		{"a password with %, which PHP takes as it stands", "redis://c4%41nary@" + percent, true, false},
		{"its % written %25, as in a URL", "redis://c4%2541nary@" + percent, false, true},
		{"a user, which PHP drops", "redis://app:other@" + users, false, true},
		{"a parameter that neither knows", "redis://c4n4ry@" + users + "?compression=lz4", true, false},
	} {
		store, err := all.Store(t.Context(), "symfony+"+row.dsn, open.StateDir(t.TempDir()))
		if (err == nil) != row.padlock {
			t.Errorf("%s: padlock says %v", row.what, err)
		}
		if err == nil {
			store.Close()
		}
		php := runPHP(t, row.dsn).lock("job")
		php.begin(phpRequest{Do: "acquire"}) // it connects only now
		select {
		case a := <-php.p.out:
			if a.OK != row.php {
				t.Errorf("%s: PHP says %+v", row.what, a)
			}
		case <-time.After(patience):
			t.Fatalf("%s: PHP says nothing", row.what)
		}
		if row.php {
			php.must("release")
		}
	}
}
