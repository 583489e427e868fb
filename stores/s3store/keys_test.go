package s3store_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// TestKeyIsRefused: the service says that the access key has ended, before its time. The next request
// has the new key.
func TestKeyIsRefused(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_CONFIG_FILE": missing, "AWS_SHARED_CREDENTIALS_FILE": missing, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/role",
	} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		id, found := "OLD", 0
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Endpoint: "http://memory", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host != "memory":
				found++
				return reply(200, fmt.Sprintf(`{"AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`, id, time.Now().Add(time.Hour).Format(time.RFC3339))), nil
			case !strings.Contains(r.Header.Get("Authorization"), "Credential="+id+"/"):
				return reply(400, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"), nil
			}
			return reply(404, "<Error><Code>NoSuchKey</Code></Error>"), nil
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inspect := inspecting(t, store, &found)
		inspect(0, 1, true)
		id = "NEW"
		inspect(10*time.Second, 1, false)
		inspect(0, 2, true)
	})
}

// The access key of a role serves until its end if no new one can be had: a metadata service that
// is down for a while ends no hold.
func TestAWSKeysAreKept(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_CONFIG_FILE": missing, "AWS_SHARED_CREDENTIALS_FILE": missing, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/role",
	} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		found, down := 0, false
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Endpoint: "http://memory", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host == "memory":
				return reply(404, "<Error><Code>NoSuchKey</Code></Error>"), nil
			case down:
				return nil, errors.New("the metadata service is down")
			}
			found++
			return reply(200, fmt.Sprintf(`{"AccessKeyId":"AKID","SecretAccessKey":"s","Token":"t","Expiration":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))), nil
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inspect := inspecting(t, store, &found)
		inspect(0, 1, true)
		inspect(40*time.Minute, 1, true)
		inspect(10*time.Minute, 2, true) // four fifths of the hour are over
		down = true
		inspect(50*time.Minute, 2, true)
		inspect(9*time.Minute, 2, true)
		inspect(2*time.Minute, 2, false)
		down = false
		inspect(0, 3, true)
	})
}
