package sqlstore_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// reaches reports whether a lock can be taken and given back in the store of a URL. An error must
// be ErrUnavailable and contain no password; that of a table must not contain the user either.
func reaches(t *testing.T, rawURL string) bool {
	t.Helper()
	s, err := all.Store(t.Context(), rawURL)
	if err == nil {
		defer s.Close()
		r := driver.Request{Name: "tls", Token: driver.TokenOf("token of " + rawURL[:8]), TTL: time.Minute}
		if _, err = s.Acquire(t.Context(), r); err == nil {
			_, err = s.Release(t.Context(), r.Name, r.Token.Text(), 0)
		}
	}
	secret := "canary"
	if strings.Contains(rawURL, "advisory") {
		secret = "canaryword"
	}
	if err != nil && (!errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), secret)) {
		t.Errorf("%s: %v", rawURL, err)
	}
	return err == nil
}

// file writes a file that the server's user can read, and returns its path.
func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	noError(t, os.WriteFile(path, content, 0o600))
	return path
}

// TestTLSPostgres: the server accepts its user over TLS only, and padlock accepts only a server
// whose certificate it trusts.
func TestTLSPostgres(t *testing.T) {
	t.Parallel()
	srv, cert := server.Postgres(t, server.PostgresOptions{}), server.NewTLS(t)
	place := srv.Place()
	noError(t, place.Write("server.crt", cert.Cert))
	noError(t, place.Write("server.key", cert.Key))
	noError(t, place.Write("hba", []byte("hostssl all canary 127.0.0.1/32 password\nhost all postgres 127.0.0.1/32 trust\n")))
	run(t, "pgx", srv.URL(), "CREATE USER canary SUPERUSER PASSWORD 'canaryword'",
		"ALTER SYSTEM SET ssl_cert_file = '"+place.Path("server.crt")+"'", "ALTER SYSTEM SET ssl_key_file = '"+place.Path("server.key")+"'",
		"ALTER SYSTEM SET ssl = on", "ALTER SYSTEM SET hba_file = '"+place.Path("hba")+"'")
	srv.Kill()
	srv.Restart(true)
	good, other := url.QueryEscape(file(t, "ca", cert.CA)), url.QueryEscape(file(t, "other", server.NewTLS(t).CA))
	at := strings.Replace(srv.Addr(), "127.0.0.1", "localhost", 1)
	for query, want := range map[string]bool{
		"sslmode=verify-full&sslrootcert=" + good:  true,
		"sslmode=verify-ca&sslrootcert=" + good:    true,
		"sslmode=require":                          true,
		"sslmode=verify-full&sslrootcert=" + other: false,
		"sslmode=verify-ca&sslrootcert=" + other:   false,
		"sslmode=verify-full":                      false, // the certificate is not one of the system's authorities
		"sslmode=disable":                          false, // the server wants TLS
	} {
		for _, kind := range []string{"postgres://", "postgres+advisory://"} {
			rawURL := kind + "canary:canaryword@" + at + "/postgres?" + query
			if got := reaches(t, rawURL); got != want {
				t.Errorf("%s with %s: reached %v, want %v", kind, query, got, want)
			}
		}
	}
}

// TestTLSMariaDB: the same for MariaDB. A certificate of an own authority needs a configuration
// that the program registers with the driver.
func TestTLSMariaDB(t *testing.T) {
	t.Parallel()
	cert, other := server.NewTLS(t), server.NewTLS(t)
	srv := server.MariaDBWith(t, server.MariaDBOptions{Args: []string{
		"--ssl-cert=" + file(t, "cert", cert.Cert), "--ssl-key=" + file(t, "key", cert.Key), "--ssl-ca=" + file(t, "ca", cert.CA),
	}})
	run(t, "mysql", srv.URL(), "CREATE USER canary IDENTIFIED BY 'canaryword' REQUIRE SSL", "GRANT ALL ON *.* TO canary")
	noError(t, mysqldriver.RegisterTLSConfig("padlock-good", cert.Client()))
	noError(t, mysqldriver.RegisterTLSConfig("padlock-other", other.Client()))
	at := strings.Replace(srv.Addr(), "127.0.0.1", "localhost", 1)
	for query, want := range map[string]bool{
		"tls=padlock-good":  true,
		"tls=skip-verify":   true,
		"tls=padlock-other": false,
		"tls=true":          false, // the certificate is not one of the system's authorities
		"tls=false":         false, // the server wants TLS
		"":                  false,
	} {
		for _, kind := range []string{"mysql://", "mysql+advisory://"} {
			rawURL := kind + "canary:canaryword@" + at + "/mysql?" + query
			if got := reaches(t, rawURL); got != want {
				t.Errorf("%s with %q: reached %v, want %v", kind, query, got, want)
			}
		}
	}
}
