// Package sqlite connects package sqlstore to an SQLite file, with a driver written in Go.
//
// Use it to open a store from a URL. If your program uses another driver or has a *sql.DB already,
// call sqlstore.Open instead.
package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// Opener opens URLs of the form
//
//	sqlite:///PATH
//
// If the file does not exist, it is created for its owner alone (mode 0600), and so is its
// directory (0700). The file gets a write-ahead log (WAL), and each commit is written to disk
// (synchronous=FULL). The URL may have the parameter _pragma of modernc.org/sqlite, as in
// _pragma=synchronous(NORMAL). Such a pragma replaces padlock's own.
func Opener() sqlstore.Opener {
	return sqlstore.Opener{
		Engine:     sqlstore.SQLite,
		Names:      []string{"sqlite"},
		Parameters: []string{"_pragma"},
		Open:       open,
	}
}

// Scheme describes the URLs, for package open.
func Scheme() storeurl.Scheme { return symfony.Scheme(Opener()) }

// Open returns a pool for the file that a URL names. Use it if your program keeps its own data in
// the file of the locks. The returned Listener is nil.
func Open(rawURL string) (*sql.DB, sqlstore.Listener, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the URL cannot be read", driver.ErrInvalid)
	}
	return open(u, nil)
}

func open(u *url.URL, _ func() (string, error)) (*sql.DB, sqlstore.Listener, error) {
	path, err := pathOf(u)
	if err != nil {
		return nil, nil, err
	}
	if err := create(path); err != nil {
		return nil, nil, err
	}
	query := url.Values{"_pragma": pragmas(u.Query()["_pragma"])}
	file := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/"), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", file.String())
	return db, nil, err
}

// pragmas returns the pragmas of a URL, and padlock's own pragmas for the settings that the URL
// does not name. A setting has one pragma only: two journal modes would switch the whole file to
// and fro with each new connection, and that fails while another program uses the file.
func pragmas(given []string) []string {
	var all []string
	for _, own := range []string{"busy_timeout(1000)", "journal_mode(WAL)", "synchronous(FULL)"} {
		if !slices.ContainsFunc(given, func(p string) bool { return setting(p) == setting(own) }) {
			all = append(all, own)
		}
	}
	return append(all, given...)
}

// setting returns the name of the setting in a pragma, such as main.synchronous=NORMAL.
func setting(pragma string) string {
	name, _, _ := strings.Cut(pragma, "(")
	name, _, _ = strings.Cut(name, "=")
	return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "main.")
}

// pathOf returns the path of the file that a URL names.
func pathOf(u *url.URL) (string, error) {
	wrong := func(why string) (string, error) {
		return "", fmt.Errorf("%w: %s; write sqlite:///PATH, with three slashes and a path from the root", driver.ErrInvalid, why)
	}
	switch {
	case u.User != nil:
		return wrong("a file has no user")
	case u.Host != "" && u.Host != "localhost":
		return wrong("a file has no host")
	case u.Opaque != "" || strings.TrimPrefix(u.Path, "/") == "" || strings.HasSuffix(u.Path, "/"):
		return wrong("the URL names no file")
	}
	path := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, `\`)
	}
	if !filepath.IsAbs(path) {
		return wrong("the path does not begin at the root")
	}
	return path, nil
}

// creating is held from the look for the file to its creation.
var creating sync.Mutex

// create creates the directory and the database file, so that both have the right mode. Later,
// SQLite creates further files in the directory, such as the log. They get the mode of the database
// file. A file that exists is not opened: when a process closes a file, the kernel ends all of its
// locks on that file, also those of the connections that this process has. Another process would
// then remove the log that they write to.
func create(path string) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: the directory of the file cannot be made: %w", driver.ErrUnavailable, err)
	}
	if kind := networkKind(dir); kind != "" {
		return fmt.Errorf("%w: %s is on a network file system (%s), on which SQLite cannot lock; put the file on a disk of this machine, or use a server", driver.ErrInvalid, path, kind)
	}
	creating.Lock()
	defer creating.Unlock()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: the file cannot be opened: %w", driver.ErrUnavailable, err)
	}
	return f.Close()
}
