package dynamostore_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

// The access key of a role serves until its end if no new one can be had: a metadata service that
// is down for a while ends no hold.
func TestAWSKeysAreKept(t *testing.T) {
	noEnvironment(t)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "missing"), "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/role",
	} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		down := false
		store, err := dynamostore.Open(t.Context(), dynamostore.Config{Table: "locks", Endpoint: "http://memory", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body := fmt.Sprintf(`{"AccessKeyId":"AKID","SecretAccessKey":"s","Token":"t","Expiration":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
			switch {
			case r.URL.Host == "memory":
				body = "{}"
			case down:
				return nil, errors.New("the metadata service is down")
			}
			date := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
			return &http.Response{StatusCode: http.StatusOK, Header: date, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inspect := func(after time.Duration, works bool) {
			t.Helper()
			<-time.After(after)
			if _, err := store.Inspect(t.Context(), "job"); (err == nil) != works {
				t.Error(err)
			}
		}
		inspect(0, true)
		down = true
		inspect(50*time.Minute, true) // four fifths of the hour are over
		inspect(9*time.Minute, true)
		inspect(2*time.Minute, false)
		down = false
		inspect(0, true)
	})
}

// TestKeyIsRefused: the service says that the access key has ended, before its time. The next request
// has the new key.
func TestKeyIsRefused(t *testing.T) {
	noEnvironment(t)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "missing"), "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/role",
	} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		id, known, found := "OLD", "OLD", 0
		store, err := dynamostore.Open(t.Context(), dynamostore.Config{Table: "locks", Endpoint: "http://memory", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			status, body := http.StatusOK, "{}"
			switch {
			case r.URL.Host != "memory":
				found++
				body = fmt.Sprintf(`{"AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`, id, time.Now().Add(time.Hour).Format(time.RFC3339))
			case !strings.Contains(r.Header.Get("Authorization"), "Credential="+known+"/"):
				status, body = http.StatusBadRequest, `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"The security token included in the request is expired"}`
			}
			date := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
			return &http.Response{StatusCode: status, Header: date, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inspect := func(after time.Duration, works bool) {
			t.Helper()
			<-time.After(after)
			if _, err := store.Inspect(t.Context(), "job"); (err == nil) != works {
				t.Error(err)
			}
		}
		inspect(0, true)
		id, known = "NEW", "NEW"
		inspect(10*time.Second, false)
		inspect(0, true)
		known = "NONE"
		for range 10 {
			inspect(time.Second, false)
		}
		if found > 5 {
			t.Errorf("%d keys were asked for, want one in 5 s", found)
		}
	})
}
