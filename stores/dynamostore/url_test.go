package dynamostore_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

func parse(t *testing.T, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// noEnvironment lets the store find nothing in the environment.
func noEnvironment(t *testing.T) {
	t.Helper()
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "missing"))
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "FROMENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_SESSION_TOKEN", "for-a-while")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request goes to the service of the region, and is signed with the key of the environment.
func TestSigned(t *testing.T) {
	noEnvironment(t)
	for _, c := range []struct {
		c            dynamostore.Config
		host, region string
	}{
		{dynamostore.Config{Table: "locks", Region: "eu-west-1"}, "dynamodb.eu-west-1.amazonaws.com", "eu-west-1"},
		{dynamostore.Config{Table: "locks", Endpoint: "http://localhost:8000"}, "localhost:8000", "us-east-1"},
	} {
		var seen *http.Request
		ctx, cancel := context.WithCancel(t.Context())
		c.c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			seen = r
			cancel()
			return nil, errors.New("the test answers nothing")
		})
		if _, err := dynamostore.Open(ctx, c.c); err == nil {
			t.Fatal("opened without a service")
		}
		if seen == nil || seen.URL.Host != c.host || seen.URL.Path != "/" {
			t.Fatalf("asked %+v", seen)
		}
		auth := seen.Header.Get("Authorization")
		if !strings.Contains(auth, "Credential=FROMENV/") || !strings.Contains(auth, "/"+c.region+"/dynamodb/") || !strings.Contains(auth, ";x-amz-target,") || seen.Header.Get("X-Amz-Security-Token") != "for-a-while" {
			t.Errorf("signed %q", auth)
		}
	}
}

// A URL that is wrong is driver.ErrInvalid, and the message says what to write.
func TestWrongURLs(t *testing.T) {
	noEnvironment(t)
	for rawURL, want := range map[string]string{
		"dynamodb://locks":                                            "write region=",
		"dynamodb://ab?region=r":                                      "the table",
		"dynamodb:///locks?region=r":                                  "the form",
		"dynamodb://key:secret@locks?region=r":                        "AWS_ACCESS_KEY_ID",
		"dynamodb://locks?region=r&skew=-1s":                          "skew",
		"dynamodb://locks?region=r&skew=2m":                           "skew",
		"dynamodb://locks?region=":                                    "needs a value",
		"dynamodb://locks?endpoint=http://x/path":                     "the endpoint",
		"dynamodb://locks?region=r&readonly=yes":                      "no parameter",
		"dynamodb://locks/" + strings.Repeat("a", 1500) + "?region=r": "the prefix",
	} {
		u := parse(t, rawURL)
		q := u.Query()
		q.Set("lazy", "yes")
		u.RawQuery = q.Encode()
		store, err := dynamostore.FromURL(t.Context(), u)
		if err == nil {
			store.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", rawURL, err, want)
		}
	}
}

// The statements of padlock schema are commands of the AWS tools. Without a table, the error names
// them.
func TestSchema(t *testing.T) {
	noEnvironment(t)
	scheme := dynamostore.Scheme()
	statements, err := scheme.Schema(parse(t, "dynamodb://locks/shop?region=eu-west-1"))
	if err != nil || len(statements) != 3 || !strings.Contains(statements[0], "create-table --table-name locks ") || !strings.Contains(statements[2], "AttributeName=expires --region eu-west-1") {
		t.Errorf("%q, %v", statements, err)
	}
	f := fakes.NewDynamoDB("locks-table")
	f.Made = false
	u := parse(t, "dynamodb://locks-table/shop?endpoint="+serve(t, f))
	if _, err := dynamostore.FromURL(t.Context(), u); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "padlock schema") {
		t.Errorf("without a table: %v", err)
	}
}

// The findings tell the clock and the place.
func TestStatus(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		store, front := open(t, s)
		front.Ahead = time.Hour
		found, err := store.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]driver.Finding{}
		for _, one := range found {
			all[one.Name] = one
		}
		if !strings.Contains(all["clock"].Advice, "clock") || !strings.Contains(all["place"].Value, "locks-table") {
			t.Errorf("%+v", found)
		}
	})
}

// An item lives for a week longer than any lease, by the clock of the service. The record of the
// store has the store's id, and lives for ever.
func TestExpiry(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		store, front := open(t, s)
		front.Ahead = 1000 * time.Hour
		if _, err := store.Acquire(t.Context(), request("job")); err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.ParseInt(f.Items["locks/job"]["expires"]["N"], 10, 64)
		if left := time.Until(time.Unix(seconds, 0)) - front.Ahead; err != nil || left < 7*24*time.Hour+driver.MaxTTL-2*time.Second || left > 9*24*time.Hour {
			t.Errorf("the item expires after %v: %v", left, err)
		}
		if _, err := store.StoreID(t.Context()); err != nil {
			t.Fatal(err)
		}
		if own := f.Items["locks/%padlock"]; own["record"]["S"] == "" || len(own["expires"]) > 0 {
			t.Errorf("the record of the store: %v", own)
		}
	})
}

// A prefix in a Config names the same items as in a URL, with a slash at its end or without one.
func TestPrefix(t *testing.T) {
	noEnvironment(t)
	f := fakes.NewDynamoDB("locks-table")
	server := serve(t, f)
	use := func(store *register.Store, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.Release(t.Context(), "job", "token", 0); err != nil {
			t.Error(err)
		}
	}
	for _, prefix := range []string{"locks", "locks/"} {
		use(dynamostore.FromURL(t.Context(), parse(t, "dynamodb://locks-table/"+prefix+"?endpoint="+server)))
		use(dynamostore.Open(t.Context(), dynamostore.Config{Table: "locks-table", Prefix: prefix, Endpoint: server}))
	}
	if len(f.Items) != 1 {
		t.Errorf("one name has the items %v", f.Items)
	}
}

// If the access key cannot be found now, nothing is sent, and another try may find it.
func TestKeyNotFound(t *testing.T) {
	noEnvironment(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "missing"))
	for _, disabled := range []string{"", "true"} {
		t.Setenv("AWS_EC2_METADATA_DISABLED", disabled)
		synctest.Test(t, func(t *testing.T) { // the time limit must not end before the first try
			sent, metadata := 0, 0
			store, err := dynamostore.Open(t.Context(), dynamostore.Config{Table: "locks", Endpoint: "http://memory", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "memory" {
					sent++
				} else {
					metadata++
				}
				return nil, errors.New("the metadata service does not answer")
			})}, register.Lazy())
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := store.Release(ctx, "job", "token", 0); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "no access key") || sent > 0 || (metadata > 0) == (disabled == "true") {
				t.Errorf("AWS_EC2_METADATA_DISABLED=%s: Release: %v, after %d requests and %d for the key", disabled, err, sent, metadata)
			}
		})
	}
}

// Two prefixes of a table fail together: they are no two members of a quorum.
func TestSamePlace(t *testing.T) {
	lazily := func(table, prefix string) *register.Store {
		store, err := dynamostore.Open(t.Context(), dynamostore.Config{Table: table, Prefix: prefix, Region: "r", Endpoint: "http://memory"}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	if one := lazily("shop", "a"); !driver.SamePlace(one, lazily("shop", "b")) || driver.SamePlace(one, lazily("stock", "a")) {
		t.Error("two prefixes are two places, or two tables are one")
	}
}
