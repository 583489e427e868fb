package s3store_test

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// allBytes has each byte once.
func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// Names of any bytes are objects of their own, are listed by their beginnings, and have requests
// whose signature fits what arrives. Objects of others are left alone.
func TestNames(t *testing.T) {
	names := []string{".", "..", ".padlock", "a", "a.", "A", "a/b", "a%2Fb", "a b", "ä", "report.sh", allBytes()}
	inMemory(t, func(t *testing.T, s *service) {
		honest := s.Handler()
		s.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.kind != s3store.ServiceGoogle {
				checkSignature(t, r)
			} else if r.Header.Get("Authorization") != "Bearer the-token" {
				t.Errorf("%s %s: the token is %q", r.Method, r.URL, r.Header.Get("Authorization"))
			}
			honest.ServeHTTP(w, r)
		}))
		store, _ := s.open(t)
		defer store.Close()
		for _, name := range names {
			if _, err := store.Acquire(t.Context(), request(name)); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		s.SetHandler(honest)
		s.putForeign(t, "a%252fb", "x")
		s.putForeign(t, "index.html", "<html></html>")
		s.putForeign(t, "index", "<html></html>")
		for _, prefix := range append([]string{""}, names...) {
			states, err := store.List(t.Context(), prefix)
			if err != nil {
				t.Fatal(err)
			}
			var found, want []string
			for _, st := range states {
				found = append(found, st.Name)
			}
			for _, name := range names {
				if strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			slices.Sort(found)
			slices.Sort(want)
			if !slices.Equal(found, want) {
				t.Errorf("names that begin with %q: %q, want %q", prefix, found, want)
			}
		}
	})
}

// putForeign writes an object as another program does.
func (s *service) putForeign(t *testing.T, key, text string) {
	t.Helper()
	put := httptest.NewRequest("PUT", "http://memory/"+theBucket+"/locks/"+key, strings.NewReader(text))
	put.Header.Set("Content-Length", strconv.Itoa(len(text)))
	out := httptest.NewRecorder()
	if s.Handler().ServeHTTP(out, put); out.Code != http.StatusOK {
		t.Fatal(out.Code, out.Body)
	}
}

// checkSignature signs a request as it has arrived, and compares the signatures. Time stands still
// in the bubble of the test.
func checkSignature(t *testing.T, r *http.Request) {
	u := *r.URL
	u.Scheme, u.Host = "http", r.Host
	again, err := http.NewRequest(r.Method, u.String(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	for _, name := range []string{"X-Amz-Content-Sha256", "If-Match", "If-None-Match"} {
		if v := r.Header.Get(name); v != "" {
			again.Header.Set(name, v)
		}
	}
	got, want := r.Header.Get("Authorization"), signer.SignV4(*again, "AKID", "secret", "", "us-east-1").Header.Get("Authorization")
	if got != want {
		t.Errorf("%s %s: signed %s, want %s", r.Method, r.RequestURI, got, want)
	}
}

// A list has several pages.
func TestManyNames(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		store, _ := s.open(t)
		defer store.Close()
		const record = `{"padlock":1,"nonce":"x"}`
		for i := range 1005 {
			s.putForeign(t, fmt.Sprintf("n%04d", i), record)
		}
		s.Counts()
		if _, err := store.List(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		if n := s.Counts()["GET"]; n != 1005+2 {
			t.Errorf("%d requests for a list of 1005 names in two pages", n)
		}
	})
}

// A list that is cut, and does not say where it goes on, is not the whole list.
func TestCutList(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		store, f := s.open(t)
		defer store.Close()
		f.Next("GET", 1, func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			w.Write([]byte("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"))
		})
		if states, err := store.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("List: %v, %v", states, err)
		}
	})
}

// The findings say what is wrong with a bucket.
func TestStatus(t *testing.T) {
	lifecycle := func(prefix string, days string) string {
		return "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter><Prefix>" + prefix + "</Prefix></Filter><Expiration><Days>" + days + "</Days></Expiration></Rule></LifecycleConfiguration>"
	}
	google := func(action, condition string) string {
		return "<LifecycleConfiguration><Rule><Action><" + action + "/></Action><Condition>" + condition + "</Condition></Rule></LifecycleConfiguration>"
	}
	for _, c := range []struct {
		name, query, answer string
		status              int
		ahead               time.Duration
		advice, value       string
	}{
		{name: "versioning", query: "versioning", answer: "<VersioningConfiguration/>", value: "off"},
		{name: "versioning", query: "versioning", answer: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>", advice: "without versions"},
		{name: "versioning", query: "versioning", status: 403, value: driver.Unknown},
		{name: "lifecycle", query: "lifecycle", answer: lifecycle("locks/", "30"), value: "30 days"},
		{name: "lifecycle", query: "lifecycle", answer: lifecycle("", "1"), advice: "7 days or more"},
		{name: "lifecycle", query: "lifecycle", answer: lifecycle("logs/", "1"), value: "for ever"},
		{name: "lifecycle", query: "lifecycle", status: 404, answer: "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>", value: "for ever"},
		{name: "lifecycle", query: "lifecycle", status: 403, value: driver.Unknown},
		{name: "lifecycle", query: "lifecycle", answer: "<LifecycleConfiguration/>", value: "for ever"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<Age>30</Age>"), value: "30 days"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<Age>1</Age><MatchesPrefix>a</MatchesPrefix><MatchesPrefix>lo</MatchesPrefix>"), advice: "7 days or more"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<Age>1</Age><MatchesPrefix>logs/</MatchesPrefix>"), value: "for ever"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<Age>1</Age><IsLive>false</IsLive>"), value: "for ever"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<Age>1</Age><NumberOfNewerVersions>2</NumberOfNewerVersions>"), value: "for ever"},
		{name: "lifecycle", query: "lifecycle", answer: google("SetStorageClass", "<Age>1</Age>"), value: "for ever"},
		{name: "lifecycle", query: "lifecycle", answer: strings.Replace(lifecycle("", "1"), "<Days>1</Days>", "<Date>2020-01-01T00:00:00Z</Date>", 1), advice: "7 days or more"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<Age>0</Age>"), advice: "7 days or more"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<CreatedBefore>2030-01-01</CreatedBefore>"), advice: "7 days or more"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<CreatedBefore>1999-12-02</CreatedBefore>"), value: "30 days"},
		{name: "lifecycle", query: "lifecycle", answer: google("Delete", "<Age>30</Age><CreatedBefore>2030-01-01</CreatedBefore>"), value: "30 days"},
		{name: "clock", value: "agrees"},
		{name: "clock", ahead: time.Hour, advice: "set this machine's clock"},
	} {
		inMemory(t, func(t *testing.T, s *service) {
			honest := s.Handler()
			s.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, asked := r.URL.Query()[c.query]; !asked {
					honest.ServeHTTP(w, r)
					return
				}
				if c.status > 0 {
					w.WriteHeader(c.status)
				}
				w.Write([]byte(c.answer))
			}))
			store, f := s.open(t)
			defer store.Close()
			f.Ahead = c.ahead
			found := finding(t, store, c.name)
			if !strings.Contains(found.Value, c.value) || !strings.Contains(found.Advice, c.advice) || (c.advice == "") != (found.Advice == "") {
				t.Errorf("%+v: %+v", c, found)
			}
		})
	}
}

// A URL names the bucket, and the rest comes from the environment or the files of the AWS tools.
func TestURLs(t *testing.T) {
	server.Thorough(t)
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("[default]\nregion = eu-west-1\n[profile other]\nregion=eu-west-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url, host, path, region string
		env                     map[string]string
	}{
		"file":         {url: "s3://shop/locks", host: "shop.s3.eu-west-1.amazonaws.com", path: "/locks/job", region: "eu-west-1"},
		"profile":      {url: "s3://shop", host: "shop.s3.eu-west-2.amazonaws.com", path: "/job", region: "eu-west-2", env: map[string]string{"AWS_PROFILE": "other"}},
		"environment":  {url: "s3://shop/a/b/", host: "shop.s3.sa-east-1.amazonaws.com", path: "/a/b/job", region: "sa-east-1", env: map[string]string{"AWS_REGION": "sa-east-1"}},
		"parameter":    {url: "s3://shop?region=us-west-2", host: "shop.s3.us-west-2.amazonaws.com", path: "/job", region: "us-west-2", env: map[string]string{"AWS_REGION": "sa-east-1"}},
		"dots":         {url: "s3://shop.example.com", host: "s3.eu-west-1.amazonaws.com", path: "/shop.example.com/job", region: "eu-west-1"},
		"endpoint":     {url: "s3://shop/l?endpoint=http://minio:9000", host: "minio:9000", path: "/shop/l/job", region: "eu-west-1"},
		"host style":   {url: "s3://shop/l?endpoint=https://r2.example.com&path-style=no", host: "shop.r2.example.com", path: "/l/job", region: "eu-west-1"},
		"endpoint set": {url: "s3://shop/l", host: "minio:9000", path: "/shop/l/job", region: "eu-west-1", env: map[string]string{"AWS_ENDPOINT_URL_S3": "http://minio:9000"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
				t.Setenv(name, c.env[name])
			}
			t.Setenv("AWS_CONFIG_FILE", config)
			t.Setenv("AWS_ACCESS_KEY_ID", "FROMENV")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			t.Setenv("AWS_SESSION_TOKEN", "for-a-while")
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			var seen *http.Request
			wire := roundTrip(func(r *http.Request) (*http.Response, error) {
				seen = r
				return nil, errors.New("the test answers nothing")
			})
			store, err := s3store.Through(t.Context(), u, wire)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store.Inspect(ctx, "job")
			if seen == nil || seen.URL.Host != c.host || seen.URL.Path != c.path {
				t.Fatalf("asked %+v", seen)
			}
			auth := seen.Header.Get("Authorization")
			if !strings.Contains(auth, "Credential=FROMENV/") || !strings.Contains(auth, "/"+c.region+"/s3/") || seen.Header.Get("X-Amz-Security-Token") != "for-a-while" {
				t.Errorf("signed %q", auth)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A URL that is wrong is driver.ErrInvalid, and the message says what to write.
func TestWrongURLs(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "missing"))
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(name, "")
	}
	for rawURL, want := range map[string]string{
		"s3://shop":                                   "write region=",
		"s3://Shop?region=r":                          "the bucket",
		"s3://10.0.0.1?region=r":                      "the bucket",
		"s3://shop:1?region=r":                        "the bucket",
		"s3://key:secret@shop?region=r":               "AWS_ACCESS_KEY_ID",
		"s3://shop/a//b?region=r":                     "the prefix",
		"s3://shop/.hidden?region=r":                  "the prefix",
		"s3://shop/a%20b?region=r":                    "the prefix",
		"s3://shop?region=r&skew=-1s":                 "skew",
		"s3://shop?region=r&skew=2m":                  "skew",
		"s3://shop?region=":                           "needs a value",
		"s3://shop?endpoint=ftp://x":                  "the endpoint",
		"s3://shop?endpoint=http://u:p@x":             "the endpoint",
		"s3://shop?endpoint=http://x/path":            "the endpoint",
		"s3://shop?endpoint=http://x&path-style=true": "path-style",
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		store, err := s3store.FromURL(t.Context(), u, register.Lazy())
		if err == nil {
			store.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", rawURL, err, want)
		}
	}
}

// A prefix in a Config names the same objects as in a URL, with a slash at its end or without one.
func TestPrefix(t *testing.T) {
	for _, prefix := range []string{"locks", "locks/"} {
		var asked string
		ctx, cancel := context.WithCancel(t.Context())
		wire := roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.Path
			cancel()
			return nil, errors.New("the test answers nothing")
		})
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Prefix: prefix, Endpoint: "http://memory", Credentials: key, Transport: wire}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		store.Inspect(ctx, "job")
		if asked != "/shop/locks/job" {
			t.Errorf("the prefix %q: asked %q", prefix, asked)
		}
	}
}

// If the access key cannot be found now, nothing is sent, and another try may find it.
func TestKeyNotFound(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "missing"))
	synctest.Test(t, func(t *testing.T) { // the time limit must not end before the first try
		sent := 0
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "locks", Endpoint: "http://memory", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "memory" {
				sent++
			}
			return nil, errors.New("the metadata service does not answer")
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := store.Release(ctx, "job", "token", 0); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "no access key") || sent > 0 {
			t.Errorf("Release: %v, after %d requests", err, sent)
		}
	})
}

// Two prefixes of a bucket fail together: they are no two members of a quorum.
func TestSamePlace(t *testing.T) {
	lazily := func(bucket, prefix string) *register.Store {
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: bucket, Prefix: prefix, Region: "r", Endpoint: "http://memory"}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	if one := lazily("shop", "a"); !driver.SamePlace(one, lazily("shop", "b")) || driver.SamePlace(one, lazily("stock", "a")) {
		t.Error("two prefixes are two places, or two buckets are one")
	}
}
