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
	"github.com/padlock-go/padlock/filestore"
)

// The environment variables that name the store.
const (
	EnvStore     = "PADLOCK_STORE"      // the URL
	EnvStoreFile = "PADLOCK_STORE_FILE" // a file that holds the URL, such as a mounted secret
)

// FromEnv opens the store that the environment names, as the command padlock does: the URL in
// PADLOCK_STORE, or the URL in the file that PADLOCK_STORE_FILE names, or else DefaultURL. It sets
// StateDir to DefaultDir, unless opts set another one. The errors are those of Store, and those
// about the URL name the variable.
func FromEnv(ctx context.Context, opts ...Option) (driver.Store, error) {
	rawURL, from, err := EnvURL()
	if err != nil {
		return nil, err
	}
	if dir, err := DefaultDir(); err == nil { // else the store remembers nothing
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

// EnvURL returns the URL that FromEnv opens and the variable that it comes from, "" for DefaultURL.
// It is driver.ErrInvalid if both variables are set or the file cannot be read. Newlines at the end
// of the file are not part of the URL. The URL may hold a password: see Redacted.
func EnvURL() (rawURL, from string, err error) {
	rawURL, file := os.Getenv(EnvStore), os.Getenv(EnvStoreFile)
	switch {
	case rawURL != "" && file != "":
		return "", "", invalid("%s and %s are both set; unset one of them", EnvStore, EnvStoreFile)
	case rawURL != "":
		return rawURL, EnvStore, nil
	case file != "":
		rawURL, err = urlInFile(file)
		return rawURL, EnvStoreFile, err
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
		return "", invalid("%s: the file %q is empty", EnvStoreFile, file)
	case len(text) > maxFile || strings.ContainsAny(rawURL, "\r\n"):
		return "", invalid("%s: the file %q must hold one line, the URL of the store", EnvStoreFile, file)
	}
	return rawURL, nil
}

func unreadable(file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return invalid("%s: the file %q cannot be read: %w", EnvStoreFile, file, err)
}

// DefaultURL names the store of this user on this machine: lock files in DefaultDir.
func DefaultURL() (string, error) {
	dir, err := DefaultDir()
	if err != nil {
		return "", err
	}
	return filestore.URL(dir), nil
}

// DefaultDir is the private directory of this user on this machine, for lock files and for
// StateDir. It depends on the user id alone, so that cron, a shell and sudo -u find the same
// directory. Two users never share it. DefaultDir makes the directory if necessary.
func DefaultDir() (string, error) { return filestore.DefaultDir() }
