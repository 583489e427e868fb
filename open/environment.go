package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/filestore"
)

// The environment variables that name the store.
const (
	EnvStore     = "PADLOCK_STORE"      // the URL, or "required"
	EnvStoreFile = "PADLOCK_STORE_FILE" // a file that holds the URL, such as a mounted secret
)

// FromEnv opens the store that the environment names, as the command padlock does. The URL is in
// PADLOCK_STORE, or in the file that PADLOCK_STORE_FILE names. If neither is set, the URL is
// DefaultURL: files of this machine. A program that needs a store for several machines refuses that
// case itself: EnvURL then returns no name of a variable. FromEnv sets StateDir to DefaultDir,
// unless opts set another directory. The errors are those of Store. An error about the URL also
// names the variable.
func FromEnv(ctx context.Context, opts ...Option) (driver.Store, error) {
	rawURL, from, err := EnvURL()
	if err != nil {
		return nil, err
	}
	if dir, err := DefaultDir(); err == nil { // otherwise the store remembers nothing
		opts = append([]Option{StateDir(dir)}, opts...)
	}
	store, err := Store(ctx, rawURL, opts...)
	if from != "" && errors.Is(err, driver.ErrInvalid) {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return store, err
}

// maxFile bounds the size of a file with a URL, in bytes.
const maxFile = 64 << 10

// required is the value of PADLOCK_STORE with which a crontab refuses the default store.
const required = "required"

// EnvURL returns the URL that FromEnv opens, and the name of the environment variable that led to
// it. If no variable is set, the URL is that of DefaultURL, and the name is "". If PADLOCK_STORE is
// "required", there is no default: the URL must be in the file of PADLOCK_STORE_FILE. Newlines at
// the end of the file are not part of the URL. The URL may contain a password: see Redacted.
//
// If both variables are set, if one is set but empty, if the file cannot be read, or if a required
// URL is missing, the error is driver.ErrInvalid.
func EnvURL() (rawURL, from string, err error) {
	rawURL, named := os.LookupEnv(EnvStore)
	file, inFile := os.LookupEnv(EnvStoreFile)
	switch {
	case named && rawURL == "":
		return "", "", storekit.Invalidf("%s is set but empty; set it to the URL of a store, or unset it for files of this user", EnvStore)
	case inFile && file == "":
		return "", "", storekit.Invalidf("%s is set but empty; set it to a file with the URL of a store, or unset it", EnvStoreFile)
	case rawURL == required && !inFile:
		return "", "", storekit.Invalidf("%s is %q, and no store is named; set %s to its URL, or %s to a file with the URL", EnvStore, required, EnvStore, EnvStoreFile)
	case named && rawURL != required && inFile:
		return "", "", storekit.Invalidf("%s and %s are both set; unset one of them", EnvStore, EnvStoreFile)
	case inFile:
		rawURL, err = urlInFile(file)
		return rawURL, EnvStoreFile, err
	case named:
		return rawURL, EnvStore, nil
	}
	rawURL, err = DefaultURL()
	return rawURL, "", err
}

func urlInFile(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", unreadable(file, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	rawURL := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", unreadable(file, err)
	case rawURL == "":
		return "", storekit.Invalidf("%s: the file %q is empty", EnvStoreFile, file)
	case len(text) > maxFile || strings.ContainsAny(rawURL, "\r\n"):
		return "", storekit.Invalidf("%s: the file %q must hold one line, the URL of the store", EnvStoreFile, file)
	}
	return rawURL, nil
}

func unreadable(file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return storekit.Invalidf("%s: the file %q cannot be read: %w", EnvStoreFile, file, err)
}

// DefaultURL returns the URL of this user's store on this machine: lock files in DefaultDir.
func DefaultURL() (string, error) {
	dir, err := DefaultDir()
	if err != nil {
		return "", err
	}
	return filestore.URL(dir), nil
}

// DefaultDir returns this user's private directory on this machine, for lock files and for
// StateDir. It depends only on the user id, so that cron, a shell and sudo -u use the same
// directory. Two users never share it. DefaultDir makes the directory if it does not exist.
func DefaultDir() (string, error) { return filestore.DefaultDir() }
