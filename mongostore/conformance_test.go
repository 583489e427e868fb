package mongostore_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/mongostore"
)

// server returns the URL that an environment variable names, without the database, or skips the
// test. No server for it can be installed, so the test is skipped under CI too.
func server(t *testing.T, variable string) *url.URL {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		t.Skipf("%s is not set: give the URL of a server whose database padlock_test may be filled", variable)
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/padlock_test"
	return u
}

// with returns u with a parameter.
func with(u *url.URL, name, value string) *url.URL {
	there, query := *u, u.Query()
	query.Set(name, value)
	there.RawQuery = query.Encode()
	return &there
}

func opener(u *url.URL) func(ctx context.Context) (driver.Store, error) {
	return func(ctx context.Context) (driver.Store, error) {
		s, err := mongostore.FromURL(ctx, u)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func TestContract(t *testing.T) {
	u := with(server(t, "MONGODB_URL"), "collection", "contract-"+rand.Text())
	drivertest.Run(t, drivertest.Harness{Open: opener(u), Slow: true})
}

func TestContractInSymfonysLayout(t *testing.T) {
	u := with(with(server(t, "MONGODB_URL"), "collection", "symfony-"+rand.Text()), "layout", "symfony")
	drivertest.Run(t, drivertest.Harness{Open: opener(u), Slow: true, Anonymous: true})
}
