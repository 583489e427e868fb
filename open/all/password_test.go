package all_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// withPasswords are the URLs of the stores that read a password from a file.
var withPasswords = []string{
	"redis://u@127.0.0.1:1?", "postgres://u@127.0.0.1:1/db?sslmode=disable&", "postgres+advisory://u@127.0.0.1:1/db?sslmode=disable&",
	"mysql://u@127.0.0.1:1/db?", "mysql+advisory://u@127.0.0.1:1/db?", "etcd://u@127.0.0.1:1?", "zookeeper://u@127.0.0.1:1?",
	"memcached://u@127.0.0.1:1?", "mongodb://u@127.0.0.1:1/db?",
}

// A password file is read at each connect, so a store that is opened lazily does not need it yet.
// Only MongoDB's client needs the password when it is made.
func TestPasswordFileIsReadAtConnect(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, rawURL := range withPasswords {
		s, err := all.Store(t.Context(), rawURL+"lazy=yes&password-file="+missing, open.StateDir(t.TempDir()))
		if err == nil {
			s.Close()
		}
		if mongo := strings.HasPrefix(rawURL, "mongodb:"); (err != nil) != mongo {
			t.Errorf("%s with a file that is missing: %v", rawURL, err)
		}
	}
}

// The same mistake has the same message in all stores.
func TestOneMessage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for wrong, want := range map[string]string{
		"lazy=yes&lazy=no":                          "the parameter lazy is given more than once",
		"password-file=a&password-file=b":           "the parameter password-file is given more than once",
		"no-such-parameter=1":                       `there is no parameter "no-such-parameter"`,
		"lazy=perhaps":                              "lazy: it is yes or no",
		"password-file=" + file + "&password-file=": "the parameter password-file is given more than once",
	} {
		for _, rawURL := range withPasswords {
			s, err := all.Store(t.Context(), rawURL+wrong)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s%s: %v; want %q", rawURL, wrong, err, want)
			}
		}
	}
}
