package postgres

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// A connection that may fall back to plain text is refused, except to this machine.
func TestFallingBackIsRefused(t *testing.T) {
	clearEnvironment(t)
	for rawURL, refused := range map[string]bool{
		"postgres://h/d":                                  true, // prefer is the default
		"postgres://h/d?sslmode=prefer":                   true,
		"postgres://h/d?sslmode=allow":                    true,
		"postgres://127.0.0.1,h/d?sslmode=prefer":         true,
		"postgres://h/d?sslmode=disable":                  false,
		"postgres://h/d?sslmode=require":                  false,
		"postgres://h/d?sslmode=verify-full":              false,
		"postgres://localhost/d":                          false,
		"postgres://[::1]:1/d?sslmode=prefer":             false,
		"postgres:///d?host=/run/postgresql":              false,
		"postgres://h/d?sslmode=maybe":                    true,
		"postgres://h/d?sslmode=require&sslrootcert=/no!": true,
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		db, _, err := open(u, nil)
		if errors.Is(err, driver.ErrInvalid) != refused || !refused && err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
		if refused && err != nil && !strings.Contains(err.Error(), "sslmode") {
			t.Errorf("%s: %v does not say what to write", rawURL, err)
		}
		if db != nil {
			db.Close()
		}
	}
}

func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, text := range os.Environ() {
		if name, _, _ := strings.Cut(text, "="); strings.HasPrefix(name, "PG") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("PGPASSFILE", filepath.Join(t.TempDir(), "none"))
}

// The variables of libpq stand in for the parts that the URL leaves out, and only for those.
func TestEnvironment(t *testing.T) {
	clearEnvironment(t)
	for name, value := range map[string]string{
		"PGHOST": "envhost", "PGPORT": "77", "PGUSER": "envuser", "PGPASSWORD": "envword", "PGDATABASE": "envbase", "PGSSLMODE": "disable",
	} {
		t.Setenv(name, value)
	}
	for rawURL, want := range map[string][5]string{
		"postgres://":                {"envhost", "77", "envuser", "envword", "envbase"},
		"postgres://u:p@h:5/d":       {"h", "5", "u", "p", "d"},
		"postgres:///d?host=/run/pg": {"/run/pg", "77", "envuser", "envword", "d"},
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := configure(u)
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		port := ""
		if cfg.Port == 77 {
			port = "77"
		} else if cfg.Port == 5 {
			port = "5"
		}
		if got := [5]string{cfg.Host, port, cfg.User, cfg.Password, cfg.Database}; got != want {
			t.Errorf("%s: %v, want %v", rawURL, got, want)
		}
	}
	t.Setenv("PGSSLMODE", "prefer")
	u, _ := url.Parse("postgres://h/d")
	if _, err := configure(u); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("PGSSLMODE=prefer off this machine: %v", err)
	}
}

func TestServers(t *testing.T) {
	clearEnvironment(t)
	for rawURL, want := range map[string]struct {
		servers   string
		encrypted bool
	}{
		"postgres://u:p@h/d?sslmode=require":   {"h:5432", true},
		"postgres://h:1,i:2/d?sslmode=disable": {"h:1 i:2", false},
		"postgres://h/d?sslmode=verify-full":   {"h:5432", true},
		"postgres://localhost/d":               {"localhost:5432", false}, // prefer
		"postgres:///d?host=/run/pg":           {"", false},
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		got, encrypted := servers(u)
		if strings.Join(got, " ") != want.servers || encrypted != want.encrypted {
			t.Errorf("%s: %v, %v", rawURL, got, encrypted)
		}
	}
}
