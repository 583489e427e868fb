package s3store_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// checkSharedKey signs a request as it has arrived, as the page of Shared Key says, and
// compares the signatures.
func checkSharedKey(t *testing.T, r *http.Request) {
	t.Helper()
	length := ""
	if r.ContentLength > 0 {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	text := r.Method + "\n" +
		r.Header.Get("Content-Encoding") + "\n" +
		r.Header.Get("Content-Language") + "\n" +
		length + "\n" +
		r.Header.Get("Content-Md5") + "\n" +
		r.Header.Get("Content-Type") + "\n" +
		r.Header.Get("Date") + "\n" +
		r.Header.Get("If-Modified-Since") + "\n" +
		r.Header.Get("If-Match") + "\n" +
		r.Header.Get("If-None-Match") + "\n" +
		r.Header.Get("If-Unmodified-Since") + "\n" +
		r.Header.Get("Range") + "\n"
	for _, name := range []string{"x-ms-blob-cache-control", "x-ms-blob-type", "x-ms-date", "x-ms-version"} {
		if v := r.Header.Get(name); v != "" {
			text += name + ":" + v + "\n"
		}
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	text += "/" + theAccount + path
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		text += "\n" + name + ":" + query.Get(name)
	}
	key, err := base64.StdEncoding.DecodeString(theKey)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	if got, want := r.Header.Get("Authorization"), "SharedKey "+theAccount+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
		t.Errorf("%s %s: signed %s, want %s", r.Method, r.RequestURI, got, want)
	}
}

// withoutAzure takes all credentials away.
func withoutAzure(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_TENANT_ID", "AZURE_CLIENT_ID",
		"AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "IDENTITY_HEADER",
	} {
		t.Setenv(name, "")
	}
}

// askAzure sends a request of the store of a URL. It returns the request for the object and the one
// for a token, which wire answers, or the error.
func askAzure(t *testing.T, rawURL string, wire roundTrip) (object, token *http.Request, err error) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s3store.Through(t.Context(), u, roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Ms-Version") != "" {
			object = r
			return reply(404, "<Error><Code>BlobNotFound</Code></Error>"), nil
		}
		token = r
		return wire(r)
	}))
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	_, err = store.Inspect(t.Context(), "job.sh")
	return object, token, err
}

// The account, its key and its signature are found where the tools of Azure look. A URL wins over
// the environment.
func TestAzureKeys(t *testing.T) {
	const usual = "https://shop.blob.core.windows.net/locks/a/job%252Esh"
	for name, c := range map[string]struct {
		url, asked, signed string
		env                map[string]string
	}{
		"key": {"az://locks/a", usual, "SharedKey shop:", map[string]string{"ACCOUNT": "shop", "KEY": theKey}},
		"signature": {
			"az://locks/a?account=shop", usual + "?sv=1&sig=abc%3D", "",
			map[string]string{"SAS_TOKEN": "?sv=1&sig=abc%3D"},
		},
		"connection string": {
			"az://locks/a", "https://shop.blob.core.chinacloudapi.cn/locks/a/job%252Esh", "SharedKey shop:",
			map[string]string{"CONNECTION_STRING": "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=" + theKey + ";EndpointSuffix=core.chinacloudapi.cn", "ACCOUNT": "another"},
		},
		"connection string with a signature": {
			"az://locks/a", usual + "?sv=1&sig=abc%3D", "",
			map[string]string{"CONNECTION_STRING": "BlobEndpoint=https://shop.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=abc%3D"},
		},
		"connection string of a stand-in": {
			"az://locks/a", "http://127.0.0.1:10000/shop/locks/a/job%252Esh", "SharedKey shop:",
			map[string]string{"CONNECTION_STRING": "AccountName=shop;AccountKey=" + theKey + ";BlobEndpoint=http://127.0.0.1:10000/shop;"},
		},
		"connection string of another account": {
			"az://locks/a?account=shop", usual, "SharedKey shop:",
			map[string]string{"CONNECTION_STRING": "AccountName=stock;SharedAccessSignature=sig=x;BlobEndpoint=https://stock.example.com", "KEY": theKey},
		},
		"endpoint":   {"az://locks/a?account=shop&endpoint=http://x:1", "http://x:1/shop/locks/a/job%252Esh", "SharedKey shop:", map[string]string{"KEY": theKey}},
		"host style": {"az://locks/a?account=shop&endpoint=https://x&path-style=no", "https://shop.x/locks/a/job%252Esh", "SharedKey shop:", map[string]string{"KEY": theKey}},
	} {
		t.Run(name, func(t *testing.T) {
			withoutAzure(t)
			for name, value := range c.env {
				t.Setenv("AZURE_STORAGE_"+name, value)
			}
			object, token, err := askAzure(t, c.url, nil)
			if err != nil || token != nil || object.URL.String() != c.asked || !strings.HasPrefix(object.Header.Get("Authorization"), c.signed) {
				t.Fatalf("%v; asked %+v, and %+v for a token", err, object, token)
			}
		})
	}
}

// Without a key, the store gets a token for the identity in the environment.
func TestAzureIdentities(t *testing.T) {
	withoutAzure(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-kubernetes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const resource = "resource=https%3A%2F%2Fstorage.azure.com%2F"
	const form = "client_id=me&grant_type=client_credentials&scope=https%3A%2F%2Fstorage.azure.com%2F.default"
	const pod = "client_assertion=from-kubernetes&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&"
	for _, c := range []struct {
		env, value        string // set for this case and the next ones
		asked, sent, body string
	}{
		{"AZURE_STORAGE_ACCOUNT", "shop", "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&" + resource, "true", ""},
		{"AZURE_CLIENT_ID", "me", "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&client_id=me&" + resource, "true", ""},
		{"IDENTITY_HEADER", "proof", "", "", ""},
		{"IDENTITY_ENDPOINT", "http://10.0.0.1:41/msi/token", "http://10.0.0.1:41/msi/token?api-version=2019-08-01&client_id=me&" + resource, "proof", ""},
		{"AZURE_FEDERATED_TOKEN_FILE", file, "", "", ""},
		{"AZURE_TENANT_ID", "t", "https://login.microsoftonline.com/t/oauth2/v2.0/token", "", pod + form},
		{"AZURE_AUTHORITY_HOST", "https://login.example.com/", "https://login.example.com/t/oauth2/v2.0/token", "", pod + form},
		{"AZURE_CLIENT_SECRET", "hunter2", "https://login.example.com/t/oauth2/v2.0/token", "", strings.Replace(form, "grant", "client_secret=hunter2&grant", 1)},
	} {
		t.Setenv(c.env, c.value)
		if c.asked == "" {
			continue
		}
		var body []byte
		object, token, err := askAzure(t, "az://locks", func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				body, _ = io.ReadAll(r.Body)
			}
			return reply(200, `{"access_token":"found","expires_in":"86399","expires_on":"1700000000"}`), nil
		})
		if err != nil || object.Header.Get("Authorization") != "Bearer found" {
			t.Fatalf("with %s: %v, sent %+v", c.env, err, object)
		}
		if sent := token.Header.Get("Metadata") + token.Header.Get("X-Identity-Header"); token.URL.String() != c.asked || sent != c.sent || string(body) != c.body {
			t.Errorf("with %s: asked %s %v for a token with %s", c.env, token.URL, token.Header, body)
		}
	}
}

// A token is kept until shortly before its end, however the reply says when that is.
func TestAzureTokensAreKept(t *testing.T) {
	withoutAzure(t)
	for _, format := range []string{`"expires_in":%[1]d`, `"expires_in":"%[1]d","expires_on":"%[2]d"`, `"expires_on":"%[2]d"`, `"expires_on":%[2]d`} {
		synctest.Test(t, func(t *testing.T) {
			fetched := 0
			store, err := s3store.Open(t.Context(), s3store.Config{
				Bucket: "locks", Service: s3store.ServiceAzure, Account: theAccount, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Header.Get("X-Ms-Version") != "" {
						return reply(404, "<Error><Code>BlobNotFound</Code></Error>"), nil
					}
					fetched++
					return reply(200, fmt.Sprintf(`{"access_token":"t",`+format+`}`, 600, time.Now().Unix()+600)), nil
				}),
			}, register.Lazy())
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			for i, want := range []int{1, 1, 2} {
				<-time.After(time.Duration(i) * 4 * time.Minute)
				if _, err := store.Inspect(t.Context(), "job"); err != nil || fetched != want {
					t.Errorf("%s: %v, after %d tokens, want %d", format, err, fetched, want)
				}
			}
		})
	}
}

// Credentials that cannot be used are driver.ErrUnavailable: nothing was sent. No error shows a
// secret, even if it is in the URL of a request that fails.
func TestWrongAzureCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		env, value, want string
		body             string // of the reply with a token
	}{
		"key":             {env: "AZURE_STORAGE_KEY", value: "hunter2!", want: "base64"},
		"missing file":    {env: "AZURE_FEDERATED_TOKEN_FILE", value: "/dev/null/hunter", want: "not a directory"},
		"token refused":   {env: "AZURE_CLIENT_SECRET", value: "hunter2", want: "invalid_client"},
		"unusual reply":   {env: "AZURE_CLIENT_SECRET", value: "hunter2", body: `{"access_token":"hunter2","expires_in":"soon"}`, want: "no access token"},
		"nothing is set":  {env: "IDENTITY_HEADER", value: "hunter2", want: "AZURE_STORAGE_KEY"},
		"lost, signature": {env: "AZURE_STORAGE_SAS_TOKEN", value: "sv=1&sig=hunter2", want: "the wire is cut"},
	} {
		t.Run(name, func(t *testing.T) {
			withoutAzure(t)
			t.Setenv("AZURE_TENANT_ID", "t")
			t.Setenv("AZURE_CLIENT_ID", "me")
			t.Setenv(c.env, c.value)
			synctest.Test(t, func(t *testing.T) { // the time limit must not end before the first try
				sent := 0
				store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "locks", Service: s3store.ServiceAzure, Account: theAccount, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					switch {
					case r.Header.Get("X-Ms-Version") != "":
						sent++
						return nil, errors.New("the wire is cut")
					case c.body != "":
						return reply(200, c.body), nil
					}
					return reply(400, `{"error":"invalid_client"}`), nil
				})}, register.Lazy())
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				_, err = store.Inspect(ctx, "job")
				if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%v, want %q", err, c.want)
				}
				if (sent > 0) != strings.Contains(name, "lost") {
					t.Errorf("%d requests were sent", sent)
				}
			})
		})
	}
}

// The URLs of Azure, and what their stores promise.
func TestAzureURLs(t *testing.T) {
	withoutAzure(t)
	for rawURL, want := range map[string]string{
		"az://locks":                                          "AZURE_STORAGE_ACCOUNT",
		"az://locks?account=Shop":                             "the account",
		"az://Locks?account=shop":                             "the container",
		"az://lo?account=shop":                                "the container",
		"az://lo--cks?account=shop":                           "the container",
		"az://locks-?account=shop":                            "the container",
		"az://locks/a//b?account=shop":                        "the prefix",
		"az://locks/a./b?account=shop":                        "a dot before a slash",
		"az://locks/a.?account=shop":                          "a dot before a slash",
		"az://shop:hunter2@locks":                             "AZURE_STORAGE_KEY",
		"az://locks?account=shop&region=eu":                   "region",
		"az://locks?account=shop&path-style=x":                "path-style",
		"az://locks?account=shop&endpoint=http://x/a":         "the endpoint",
		"az://lo-cks/a.b/c?account=shop":                      "",
		"az://locks?account=shop&endpoint=http://x":           "",
		"az://locks?account=shop&endpoint=http://x:1&skew=0s": "",
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		store, err := s3store.FromURL(t.Context(), u, register.Lazy())
		if err == nil {
			g := store.Guarantees()
			if known := !strings.Contains(rawURL, "endpoint"); g.Store != "az" || (g.SurvivesRestart == driver.PromiseYes) != known || g.SurvivesFailover != driver.PromisePartly || strings.Contains(g.Notes[0], "another region") != known {
				t.Errorf("%s: %+v", rawURL, g)
			}
			store.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v; want %q", rawURL, err, want)
		}
	}
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=shop;BlobEndpoint=shop.example.com?sig=hunter2")
	if _, _, err := askAzure(t, "az://locks", nil); !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an address without a scheme: %v", err)
	}
}

// Refusals of Azure that have the status of a condition that is not met, or of an object that is
// missing. To repeat the PUT would not help.
func TestAzureRefusals(t *testing.T) {
	for code, status := range map[string]int{"LeaseIdMissing": 412, "ContainerNotFound": 404, "ContainerBeingDeleted": 409, "BlobImmutableDueToPolicy": 409, "BlobArchived": 409} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(s3store.ServiceAzure)
			defer s.stop()
			store, f := s.open(t)
			defer store.Close()
			s.requests()
			f.next("PUT", 1000, say(status, code, false))
			if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), code) {
				t.Errorf("Acquire: %v", err)
			}
			if n := s.requests()["PUT"]; n != 1 {
				t.Errorf("%s: %d PUTs", code, n)
			}
		})
	}
}

// The findings say whether Azure keeps old versions, even if that was switched on after the store
// was opened for the first time.
func TestAzureStatus(t *testing.T) {
	for versions, want := range map[bool]string{false: "off", true: "enabled"} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(s3store.ServiceAzure)
			defer s.stop()
			store, f := s.open(t)
			defer store.Close()
			s.objects.(*fakes.Azure).Versions = versions
			id, err := store.StoreID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if found := finding(t, store, "versioning"); found.Value != want || (found.Advice != "") != versions {
				t.Errorf("%+v, want %q", found, want)
			}
			if after, err := store.StoreID(t.Context()); err != nil || after != id {
				t.Errorf("the id was %q and is %q, %v", id, after, err)
			}
			left := 13 // of the check of the conditional writes, and of the clocks
			f.next("GET", 1000, func(w http.ResponseWriter, apply func() *httptest.ResponseRecorder) {
				if left--; left >= 0 {
					f.pass(w, apply())
					return
				}
				say(503, "ServerBusy", false)(w, apply)
			})
			if found := finding(t, store, "versioning"); found.Value != driver.Unknown || found.Advice != "" {
				t.Errorf("while the service is busy: %+v", found)
			}
		})
	}
}
