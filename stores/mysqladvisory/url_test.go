package mysqladvisory

import (
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A DSN of Symfony's becomes a URL.
func TestSymfonyDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"mysql+advisory:host=h;dbname=d":                           "mysql+advisory://h/d",
		"mysql+advisory:host=h;port=7;dbname=d;charset=utf8mb4":    "mysql+advisory://h:7/d",
		"mysql+advisory:unix_socket=/s;dbname=d;user=u;password=p": "mysql+advisory://u:p@/d?socket=%2Fs",
		"mysql+advisory://u:p@h:7/d?serverVersion=8.0":             "mysql+advisory://u:p@h:7/d",
		"mysql2+advisory://localhost/d?unix_socket=/s":             "mysql+advisory:///d?socket=%2Fs",
		"mysql+advisory:host":                                      "NAME=VALUE",
		"mysql+advisory://u:a@b/c@h/d":                             "%2F",
	} {
		u, err := fromSymfony(dsn)
		switch {
		case err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v; want %q", dsn, err, want)
		case err == nil && u.String() != want:
			t.Errorf("%s is %s; want %s", dsn, u, want)
		}
	}
}

// A server that lets a session have one lock only is refused.
func TestVersions(t *testing.T) {
	for version, good := range map[string]bool{
		"10.11.14-MariaDB-0+deb12u2": true, "10.1.2-MariaDB": true, "10.0.38-MariaDB": false, "5.5.68-MariaDB": false, "5.5.5-10.6.1-MariaDB": true,
		"8.0.36": true, "5.7.8-log": true, "5.7.7": false, "5.6.50": false, "8.4.0": true, "11.4.2-MariaDB": true, "unknown": true,
	} {
		if _, err := checkVersion(version); (err == nil) != good {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// If a statement may have been carried out, its error is a NoReply. A refusal is known by its
// number, and so is one that ends the connection.
func TestStatementErrors(t *testing.T) {
	for err, is := range map[error]struct{ noReply, unsent bool }{
		errors.New("reset"): {true, false}, sqldriver.ErrBadConn: {true, true},
		&refusal{1205}: {false, false}, &refusal{1927}: {true, false},
	} {
		if noReply, unsent := storekit.IsNoReply(statementError(err)); noReply != is.noReply || unsent != is.unsent {
			t.Errorf("%v: no reply %v, unsent %v", err, noReply, unsent)
		}
	}
}

// A refusal has the field by which errors of drivers are recognised.
type refusal struct{ Number uint16 }

func (r *refusal) Error() string { return "refused" }
