package advisory_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// A URL is read before a server is asked, and no error shows its password. An empty text stands for
// a URL without an error. The comments of the options say these ranges.
func TestURLErrors(t *testing.T) {
	for _, sys := range []*system{postgres, mariadb} {
		at := sys.scheme.Names[0] + "://user:canary@localhost/shop?"
		for query, want := range map[string]string{
			"colour=red":          `there is no parameter "colour"; there are `,
			"fences=maybe":        "yes or no",
			"fences=no&fences=no": "more than once",
			"lazy=maybe":          "yes or no",
			"loss-delay=soon":     "a duration",
			"loss-delay=1ms":      " s to 1 h",
			"loss-delay=61m":      " s to 1 h",
			"password-file=f":     "leave one of them out",
			"x=%zz;":              "cannot be read",
			"#x":                  "%23",
			"schema=Locks_2":      "",
			"schema=a.b":          "letters, digits",
			"schema=locks%60":     "letters, digits",
			"loss-delay=2s":       "",
		} {
			refuses(t, sys, at+query, want)
		}
		refuses(t, sys, sys.scheme.Names[0]+"://localhost/shop?password-file=", "path of a file")
		refuses(t, sys, "redis://localhost/shop", sys.scheme.Names[0]+":")
	}
	const pg, my = "postgres+advisory://user:canary@", "mysql+advisory://user:canary@localhost/shop?"
	for raw, want := range map[string]string{
		pg + "db.example/shop":                           "sslmode=verify-full",
		pg + "db.example/shop?sslmode=prefer":            "sslmode=verify-full",
		pg + "db.example/shop?sslmode=allow":             "sslmode=verify-full",
		pg + "localhost/shop?sslmode=canary":             "look at sslmode",
		pg + "localhost/shop?layout=canary":              "hash, symfony or number",
		pg + "localhost/shop?layout=symfony&namespace=x": "Namespace",
		pg + "localhost/shop?layout=number&namespace=x":  "Namespace",
		pg + "localhost/shop?namespace=a%00+%C3%A9":      "",
		pg + "localhost/shop?loss-delay=1h":              "",
		pg + "localhost/shop?schema=":                    "is empty",
		pg + "localhost/shop?schema=a-b":                 "letters, digits and _",
		pg + "localhost/shop?loss-delay=999ms":           "1 s to 1 h",
		pg + "localhost/shop?loss-delay=1s":              "",
	} {
		refuses(t, postgres, raw, want)
	}
	for query, want := range map[string]string{
		"layout=hash":       `there is no parameter "layout"`,
		"schema=Locks_2-$":  "",
		"loss-delay=1999ms": "2 s to 1 h",
	} {
		refuses(t, mariadb, my+query, want)
	}
	refuses(t, mariadb, "mysql+advisory://localhost", "names no database")
}

func refuses(t *testing.T, sys *system, raw, want string) {
	t.Helper()
	u, err := url.Parse(raw)
	noError(t, err)
	_, err = sys.scheme.Schema(u)
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", raw, err)
	case want != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary")):
		t.Errorf("%s: %v; want it to be ErrInvalid and to say %q", raw, err, want)
	}
}
