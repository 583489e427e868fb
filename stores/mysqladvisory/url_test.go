package mysqladvisory

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// nowhere is an Opener for a server that receives no request.
var nowhere = Opener{
	Parameters: []string{"tls"},
	Open: func(*url.URL, func() (string, error)) (*sql.DB, error) {
		return nil, errors.New("the server was asked")
	},
}

func TestURLErrors(t *testing.T) {
	const at = "mysql+advisory://user:canary@"
	for raw, want := range map[string]string{
		at + "h/d?colour=red":                   `there is no parameter "colour"; there are fences, layout`,
		at + "h/d?layout=canary":                "hash or symfony",
		at + "h/d?fences=maybe":                 "yes or no",
		at + "h/d?lazy=maybe":                   "yes or no",
		at + "h/d?fences=no&fences=no":          "more than once",
		at + "h/d?loss-delay=soon":              "a duration",
		at + "h/d?session-timeout=soon":         "a duration",
		at + "h/d?max-holds=x":                  "a number",
		at + "h/d?schema=a%60b":                 "letters, digits",
		at + "h/d?password-file=f":              "leave one of them out",
		at + "h/d#x":                            "%23",
		"mysql://h/d":                           "mysql+advisory:",
		"mysql+advisory://h/d?password-file=":   "path of a file",
		"mysql+advisory://user@h/d?tls=x%zz;":   "cannot be read",
		"mysql2+advisory://user@h/d?readonly=1": "there is no parameter",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = FromURL(t.Context(), u, nowhere)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v; want it to be ErrInvalid and to say %q", raw, err, want)
		}
	}
}

func TestOptionErrors(t *testing.T) {
	for raw, want := range map[string]string{
		"loss-delay=1ms":               "2 s to 1 h",
		"session-timeout=9s":           "at least twice the LossDelay",
		"session-timeout=30500ms":      "whole seconds",
		"max-holds=0":                  "at least 1",
		"layout=symfony&namespace=x":   "Namespace",
		"loss-delay=20s":               "at least twice the LossDelay",
		"schema=x&session-timeout=48h": "at most 24 h",
	} {
		u, err := url.Parse("mysql+advisory://h/d?" + raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nowhere.Scheme().Schema(u); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want it to be ErrInvalid and to say %q", raw, err, want)
		}
	}
}

// A DSN of Symfony's becomes a URL in Symfony's layout.
func TestSymfonyDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"mysql+advisory:host=h;dbname=d":                           "mysql+advisory://h/d?layout=symfony",
		"mysql+advisory:host=h;port=7;dbname=d;charset=utf8mb4":    "mysql+advisory://h:7/d?layout=symfony",
		"mysql+advisory:unix_socket=/s;dbname=d;user=u;password=p": "mysql+advisory://u:p@/d?layout=symfony&socket=%2Fs",
		"mysql+advisory://u:p@h:7/d?serverVersion=8.0":             "mysql+advisory://u:p@h:7/d?layout=symfony",
		"mysql2+advisory://localhost/d?unix_socket=/s":             "mysql+advisory:///d?layout=symfony&socket=%2Fs",
		"mysql+advisory:host":                                      "NAME=VALUE",
		"mysql+advisory:host=h;layout=x":                           "layout",
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

// The names of locks must stay as they are, because older and newer versions of the store share
// them.
func TestNamesOfLocks(t *testing.T) {
	for want, k := range map[string]keyring{
		"ea3fd43be1e57d62e163dae19fc740bd6d660eec497235fd0ef859e2bd9fa328": {symfony: true},
		"padlock:9bebf90c9837c004f8a4ef41015ea1a6d08689fc60c2bbb431bf2f89": {},
		"padlock:64acbfb671d1171d91fe95d3f0ebb29757348cd9a11896e3637b921c": {database: "shop", namespace: "test"},
	} {
		if got := k.lockName("user:42"); got != want || len(got) != 64 {
			t.Errorf("the lock of %+v is %s; want %s", k, got, want)
		}
	}
	seen := map[string]keyring{}
	for _, k := range []keyring{
		{symfony: true}, {}, {database: "d"}, {namespace: "d"}, {database: "dn"}, {database: "d", namespace: "n"}, {namespace: "dn"},
	} {
		lock := k.lockName("user:42")
		if other, same := seen[lock]; same {
			t.Errorf("%+v and %+v have one lock", k, other)
		}
		seen[lock] = k
	}
	if a, b := (&keyring{database: "Shop"}).lockName("x"), (&keyring{database: "shop"}).lockName("x"); a != b {
		t.Error("a server that does not tell Shop from shop would have two locks")
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

// If a statement may have been carried out, no error says that nothing was changed. A missing table
// is explained.
func TestFailures(t *testing.T) {
	lost := &storekit.NoReply{Err: errors.New("reset")}
	for err, want := range map[error]error{
		lost: driver.ErrUncertain, errReadOnly: driver.ErrUnavailable, errGalera: driver.ErrInvalid,
		&refusal{1146}: driver.ErrUnavailable, &refusal{1205}: driver.ErrUnavailable,
	} {
		got := storekit.Failure(needsTable(err))
		if !errors.Is(got, want) || strings.Contains(got.Error(), "Schema") != hasNumber(err, noTable) {
			t.Errorf("%v becomes %v; want %v", err, got, want)
		}
	}
}

// A refusal has the field by which errors of drivers are recognised.
type refusal struct{ Number uint16 }

func (r *refusal) Error() string { return "refused" }
