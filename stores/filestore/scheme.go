package filestore

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Scheme describes the URLs file:///DIRECTORY for package open.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:       []string{"file"},
		Help:        "lock files in a directory of one machine",
		Example:     "file:///var/lib/locks",
		Guarantees:  usualGuarantees,
		Open:        openURL,
		Symfony:     []string{"flock"},
		FromSymfony: fromSymfony,
		Instead:     urlForDSN,
	}
}

// usualGuarantees returns the promises of a store in a private directory.
func usualGuarantees() driver.Guarantees { return promise(&config{}) }

func openURL(ctx context.Context, u *url.URL, _ storeurl.Opening) (driver.Store, error) {
	s, err := FromURL(ctx, u)
	if err != nil {
		return nil, err // not s, because a nil *Store is not a nil driver.Store
	}
	return s, nil
}

// URL returns the URL of a directory. The path of the directory begins at the root or, on Windows,
// with a drive.
func URL(dir string) string {
	dir = strings.ReplaceAll(dir, `\`, "/")
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: dir}).String()
}

// fromSymfony translates flock or flock:///DIRECTORY to the URL of the directory that PHP uses.
// Unless the DSN sets group or world, the URL has world=yes, so that everybody may open the lock
// files.
func fromSymfony(dsn string) (*url.URL, error) {
	path, found := strings.CutPrefix(dsn, "flock://")
	switch {
	case dsn == "flock":
		path = filepath.ToSlash(os.TempDir())
	case !found:
		return nil, storekit.Invalidf("write symfony+flock:///DIRECTORY")
	}
	// PHP takes the whole text after flock:// as the path. padlock also accepts parameters after
	// the path.
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	switch {
	case !strings.HasPrefix(path, "/") && !filepath.IsAbs(path):
		return nil, storekit.Invalidf("the directory must begin at the root, as in symfony+flock:///var/lib/locks")
	case err != nil:
		return nil, storekit.Invalidf("the parameters cannot be read")
	}
	if !values.Has("group") && !values.Has("world") {
		values.Set("world", "yes")
	}
	u, err := url.Parse(URL(path))
	if err != nil {
		return nil, storekit.Invalidf("the directory cannot be read")
	}
	u.RawQuery = values.Encode()
	return u, nil
}

// urlForDSN returns the URL to use instead of a DSN of PHP's Symfony Lock. It returns "" if the
// text is not a DSN.
func urlForDSN(text string) string {
	path, found := strings.CutPrefix(text, "flock://")
	path, _, _ = strings.Cut(path, "?")
	switch {
	case !found && text != "flock" && !strings.HasPrefix(text, "flock:"):
		return ""
	case !found:
		return URL(os.TempDir()) + "?world=yes"
	case strings.Contains(path, "@"): // the @ may follow a password
		return "file:///DIRECTORY"
	}
	return URL(path)
}
