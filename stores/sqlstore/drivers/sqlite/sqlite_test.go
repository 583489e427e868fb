package sqlite

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

func parsed(t *testing.T, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The file belongs to its owner alone, and has the settings that locks need.
func TestNewFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "a b%?#.db")
	db, _, err := open(&url.URL{Scheme: "sqlite", Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "1000"} {
		var got string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, want %s, %v", pragma, got, want, err)
		}
	}
	if _, err := db.Exec("CREATE TABLE x (y)"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

// TestOpenAgain opens a file that this process has open already. The locks of the first connection
// must last: without them, another process that closes the file removes the log, and what the first
// connection writes afterwards is lost.
func TestOpenAgain(t *testing.T) {
	server.Needs(t, "sqlite3")
	path := filepath.Join(t.TempDir(), "db")
	another := func(statement string) string {
		out, err := exec.Command("sqlite3", path, statement).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	first, _, err := open(&url.URL{Scheme: "sqlite", Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := first.Exec("CREATE TABLE x (y)"); err != nil {
		t.Fatal(err)
	}
	second, _, err := open(&url.URL{Scheme: "sqlite", Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	another("INSERT INTO x VALUES (1)")
	if _, err := first.Exec("INSERT INTO x VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if n := another("SELECT count(*) FROM x"); n != "2" {
		t.Errorf("another process sees %s rows of 2", n)
	}
}

// TestJournalMode: a URL that asks for a journal mode gets it from the start. So two programs can
// use the file at the same time, and the file does not change its mode with each connection.
func TestJournalMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	for _, pragma := range []string{"journal_mode(DELETE)", "Main.Journal_Mode = delete"} {
		u := &url.URL{Scheme: "sqlite", Path: path, RawQuery: url.Values{"_pragma": {pragma}}.Encode()}
		one, _, err := open(u, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		if _, err := one.Exec("CREATE TABLE IF NOT EXISTS x (y)"); err != nil {
			t.Fatal(pragma, err)
		}
		reader, err := one.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		rows, err := reader.QueryContext(t.Context(), "SELECT count(*) FROM x") // the first program reads
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		two, _, err := open(u, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer two.Close()
		var mode string
		if err := two.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "delete" {
			t.Errorf("%s: the second program: mode %q, %v", pragma, mode, err)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := two.Exec("INSERT INTO x VALUES (1)"); err != nil {
			t.Errorf("%s: the second program writes: %v", pragma, err)
		}
	}
}

func TestURLsRefused(t *testing.T) {
	for _, rawURL := range []string{"sqlite://", "sqlite:///", "sqlite:x.db", "sqlite://h/x", "sqlite://u@/x", "sqlite:///dir/"} {
		if _, err := pathOf(parsed(t, rawURL)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "write sqlite:///") {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	if _, _, err := open(parsed(t, "sqlite:///does/not/exist/x"), nil); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
