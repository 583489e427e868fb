package pgadvisory_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

func fromURL(t *testing.T, raw string) (*pgadvisory.Store, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return pgadvisory.FromURL(t.Context(), u)
}

func TestURLErrors(t *testing.T) {
	t.Parallel()
	const at = "postgres+advisory://user:canary@"
	for raw, want := range map[string]string{
		at + "db.example/shop":                                  "sslmode=verify-full",
		at + "db.example/shop?sslmode=prefer":                   "sslmode=verify-full",
		at + "db.example/shop?sslmode=allow":                    "sslmode=verify-full",
		at + "localhost/shop?colour=red":                        `there is no parameter "colour"; there are channel_binding`,
		at + "localhost/shop?layout=canary":                     "hash, symfony or number",
		at + "localhost/shop?fences=maybe":                      "yes or no",
		at + "localhost/shop?fences=no&fences=no":               "more than once",
		at + "localhost/shop?loss-delay=soon":                   "a duration",
		at + "localhost/shop?loss-delay=1ms":                    "1 s to 1 h",
		at + "localhost/shop?max-holds=0":                       "at least 1",
		at + "localhost/shop?schema=a-b":                        "letters, digits and _",
		at + "localhost/shop?password-file=f":                   "leave one of them out",
		at + "localhost/shop?layout=symfony&namespace=x":        "Namespace",
		at + "localhost/shop?sslmode=canary":                    "look at sslmode",
		at + "localhost/shop#x":                                 "%23",
		"postgres://localhost/shop":                             "postgres+advisory:",
		"postgres+advisory://localhost/shop?password-file=":     "path of a file",
		"postgres+advisory://user@localhost/shop?sslmode=x%zz;": "cannot be read",
	} {
		s, err := fromURL(t, raw)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v; want it to be ErrInvalid and to say %q", raw, err, want)
		}
	}
}

// A password is used, from the URL or a file that is read for each connection, and no error shows
// it.
func TestPassword(t *testing.T) {
	t.Parallel()
	const secret = "canary-in-a-password"
	srv := server.Postgres(t, server.PostgresOptions{})
	conn := connect(t, srv.URL())
	for _, sql := range []string{
		"CREATE ROLE app LOGIN PASSWORD '" + secret + "'",
		"CREATE TABLE hba (line text)",
		"COPY hba FROM PROGRAM 'echo host all app 127.0.0.1/32 scram-sha-256 > " + srv.Place().Path("hba.conf") + "; echo host all all 127.0.0.1/32 trust >> " + srv.Place().Path("hba.conf") + "'",
		"ALTER SYSTEM SET hba_file = '" + srv.Place().Path("hba.conf") + "'",
		"GRANT CREATE ON SCHEMA public TO app",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	srv.Stop()
	srv.Restart(true)
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret)
	place := "@" + srv.Addr() + "/postgres?sslmode=disable"
	for i, raw := range []string{"app:" + secret + place, "app" + place + "&password-file=" + url.QueryEscape(file)} {
		s, err := fromURL(t, "postgres+advisory://"+raw)
		if err != nil {
			t.Fatal(err)
		}
		take(t, s, request(strings.Repeat("job", i+1))) // the server may not notice at once that a session has ended
		s.Close()
	}
	for _, raw := range []string{"app:wrong-" + secret + place, "app" + place + "&password-file=" + url.QueryEscape(file)} {
		write("wrong-" + secret)
		_, err := fromURL(t, "postgres+advisory://"+raw)
		if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "app") || !strings.Contains(err.Error(), "password authentication failed") {
			t.Errorf("a wrong password: %v", err)
		}
	}
}

// No error of a connection shows the user or the password, whatever the server does.
func TestErrorsWithoutLogin(t *testing.T) {
	t.Parallel()
	replies := map[string]string{
		"closes the connection": "",
		"is no PostgreSQL":      "HTTP/1.1 400 Bad Request\r\n\r\n",
		"repeats the user":      "E\x00\x00\x00\x34SFATAL\x00C28000\x00Mno login for 'canary-user'.....\x00\x00",
	}
	for what, reply := range replies {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				c.Read(make([]byte, 1024))
				io.WriteString(c, reply)
				c.Close()
			}
		}()
		_, err = fromURL(t, "postgres+advisory://canary-user:canary-password@"+ln.Addr().String()+"/shop?sslmode=disable")
		if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "canary") {
			t.Errorf("a server that %s: %v", what, err)
		}
	}
}

// A user without any rights can take locks without fences. With fences, the error tells the user
// what to do.
func TestRights(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	user, poor := newUser(t, srv, "")
	if _, err := open(t.Context(), poor); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "fences=no") {
		t.Errorf("a user who may not make the table: %v", err)
	}
	s := mustOpen(t, poor, pgadvisory.NoFences())
	r := request("job")
	if g := take(t, s, r); g.Fence != 0 {
		t.Errorf("fence %d", g.Fence)
	}
	if held := refused(t, mustOpen(t, srv.URL(), pgadvisory.NoFences()), request("job")); held.Foreign() {
		t.Errorf("%+v", held.Holds)
	}
	statements, err := pgadvisory.Schema("")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, srv.URL())
	for _, sql := range append(statements, "GRANT SELECT, INSERT, UPDATE ON padlock_fences TO "+user) {
		execute(t, conn, sql)
	}
	fenced := mustOpen(t, poor)
	refused(t, fenced, request("job"))
	release(t, s, r)
	if g := take(t, fenced, request("job")); g.Fence < uint64(time.Now().Add(-time.Hour).UnixMicro()) {
		t.Errorf("fence %d", g.Fence)
	}
}

// Two users whose search paths differ share the table of fences.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	conn := connect(t, srv.URL())
	a, asA := newUser(t, srv, "SUPERUSER")
	b, asB := newUser(t, srv, "SUPERUSER")
	for _, sql := range []string{
		"CREATE SCHEMA a", "CREATE SCHEMA b", "ALTER ROLE " + a + " SET search_path = a, public", "ALTER ROLE " + b + " SET search_path = b",
	} {
		execute(t, conn, sql)
	}
	last := uint64(0)
	for _, url := range []string{asA, asB, asA} {
		s, r := mustOpen(t, url), request("job")
		if last == 0 {
			r.FenceAbove = uint64(time.Now().Add(time.Hour).UnixMicro()) // a second table would give a lower fence
		}
		g := take(t, s, r)
		if last > 0 && g.Fence <= last {
			t.Errorf("SAFETY: %s: fence %d after %d", url, g.Fence, last)
		}
		last = g.Fence
		release(t, s, r)
	}
	if n := readValue[int](t, conn, "SELECT count(*) FROM pg_class WHERE relname = 'padlock_fences'"); n != 1 {
		t.Errorf("there are %d tables of fences", n)
	}
}

// A name of another namespace, and of another database, is another lock.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	for _, pair := range [][2]string{{"", "a"}, {"a", "b"}} {
		a := mustOpen(t, srv.URL(), pgadvisory.Namespace(pair[0]))
		b := mustOpen(t, srv.URL(), pgadvisory.Namespace(pair[1]))
		r, o := request("job"), request("job")
		take(t, a, r)
		take(t, b, o)
		release(t, a, r)
		release(t, b, o)
	}
}
