package redissession_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/phpcodec"
	"github.com/padlock-go/padlock/session/phpsession"
	"github.com/padlock-go/padlock/session/sessiontest/load"
)

// TestPHPLooksAtItsLock has PHP's lock disappear while PHP works, as in a restart that loses it.
// With lock_expire, PHP checks its lock before it writes, and so it writes nothing. Without
// lock_expire, PHP writes the whole session.
func TestPHPLooksAtItsLock(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for name, c := range map[string]struct{ locks, want string }{
		"lock_expire":            {patientLocks, "null"},
		"without an expiry time": {"redis.session.lock_retries = -1\n", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoth(t, clientOption(startRedis(t).Addr()), phpSetup{"", phpcodec.PHP, c.locks}, phpsession.Config{}, session.Delta)
			b.getPage(b.php, "/login")
			lock := "PHPREDIS_SESSION:" + b.php.Cookie.Value + "_LOCK"
			done := make(chan load.Report, 1)
			key := ""
			for try, lost := 1, false; !lost; try++ { // on a busy machine, PHP may be done before it loses its lock
				if try > 5 {
					t.Fatal("PHP was done 5 times before it lost its lock")
				}
				key = fmt.Sprint("late", try)
				go func() {
					done <- b.php.Run(t.Context(), load.Plan{Requests: 1, Path: func(int) string { return "/set?key=" + key + "&work=5s" }})
				}()
				eventually(t, "PHP has its lock and loses it, or is done", func() bool {
					lost = askServer(t, b.raw, "DEL", lock) == "1"
					return lost || len(done) > 0
				})
				onlyStatus(t, <-done, http.StatusOK)
			}
			b.want(b.php, "/json?key="+key, c.want)
		})
	}
}
