package redisstore_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestOpeningSaysWhatToDo: if a server cannot be used, the error says what to do.
func TestOpeningSaysWhatToDo(t *testing.T) {
	t.Parallel()
	plain := server.Redis(t, server.RedisOptions{}).Addr()
	secret := server.Redis(t, server.RedisOptions{Password: "x"}).Addr()
	cert := server.NewTLS(t)
	secure := server.Redis(t, server.RedisOptions{TLS: cert}).Addr()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, cert.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	watch := server.Sentinel(t, server.Redis(t, server.RedisOptions{})).Addr()
	dead := server.Redis(t, server.RedisOptions{})
	deadWatch := server.Sentinel(t, dead).Addr()
	dead.Kill()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for address, says := range map[string]string{
		"rediss://" + plain:  "it does not answer; if it does not speak TLS, write redis://",
		"redis://" + secure:  "if it wants TLS, write rediss://",
		"rediss://" + secure: "its certificate is not trusted; name its authority with ca=FILE",
		"rediss://" + secure + "?server-name=other.example&ca=" + ca: "its certificate is for another name than the address; write that name with server-name=HOST",
		"redis://" + secret:                        "it wants a password; write redis://:PASSWORD@HOST",
		"redis://:no@" + secret:                    "it does not accept the user or the password",
		"redis://" + plain + "/99":                 "db: the server has no database of that number",
		"redis://" + web.Listener.Addr().String():  "does not speak Redis' protocol",
		"rediss://" + web.Listener.Addr().String(): "it does not speak TLS; write redis://",
		"redis://" + watch:                         "it is a sentinel; write redis+sentinel://",
		"redis+sentinel://" + plain + "/main":      "it is no sentinel; write redis:// for a server",
		"redis://127.0.0.1:1":                      "connection refused",
		"redis+sentinel://" + deadWatch + "/main":  "the sentinels name the address " + dead.Addr() + "; if that server runs, set its replica-announce-ip",
	} {
		t.Run(strings.ReplaceAll(address, "/", "|"), func(t *testing.T) {
			_, err := redisstore.FromURL(t.Context(), mustParse(t, address))
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Fatalf("want %q, got: %v", says, err)
			}
			for _, twice := range []string{"redis: ", "unavailable", "invalid"} {
				if strings.Count(err.Error(), twice) > 1 {
					t.Errorf("it says %q twice: %v", twice, err)
				}
			}
			if strings.Contains(err.Error(), driver.ErrUncertain.Error()) {
				t.Errorf("nothing was asked, and the outcome is uncertain: %v", err)
			}
		})
	}
}
