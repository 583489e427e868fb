package redissession_test

import (
	"net/http"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
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
			go func() {
				done <- b.php.Run(t.Context(), load.Plan{Requests: 1, Path: func(int) string { return "/set?key=late&work=5s" }})
			}()
			eventually(t, "PHP has its lock and loses it", func() bool { return askServer(t, b.raw, "DEL", lock) == "1" })
			load.CheckAll(t, <-done, http.StatusOK)
			b.want(b.php, "/json?key=late", c.want)
		})
	}
}
