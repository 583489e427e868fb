package s3store_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// withoutGoogle takes all credentials away, and returns where the tools of Google keep theirs.
func withoutGoogle(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	t.Setenv("CLOUDSDK_CONFIG", folder)
	for _, name := range []string{"GOOGLE_OAUTH_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY", "GCE_METADATA_HOST"} {
		t.Setenv(name, "")
	}
	return folder
}

// ask sends a request of a store in Google Cloud Storage, which wire answers, and returns the
// request for the object, or the error.
func ask(t *testing.T, wire roundTrip) (*http.Request, error) {
	t.Helper()
	var seen *http.Request
	store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Prefix: "locks", Service: s3store.ServiceGoogle, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "storage.googleapis.com" {
			seen = r
			return reply(404, "<Error><Code>NoSuchKey</Code></Error>"), nil
		}
		return wire(r)
	})}, register.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Inspect(t.Context(), "job")
	return seen, err
}

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(strings.NewReader(body))}
}

// serviceAccount writes a file of credentials, and returns the key.
func serviceAccount(t *testing.T, file string) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "job@shop", "private_key_id": "k1", "token_uri": "https://tokens.example.com/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes})),
	})
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A service account gets its token for a signed claim.
func TestServiceAccount(t *testing.T) {
	file := filepath.Join(withoutGoogle(t), "key.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	key := serviceAccount(t, file)
	seen, err := ask(t, func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		if r.URL.String() != "https://tokens.example.com/token" || r.Method != http.MethodPost || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
			t.Errorf("asked %s %s for a token with %v", r.Method, r.URL, form)
		}
		checkClaim(t, key, form.Get("assertion"))
		return reply(200, `{"access_token":"from-the-account","expires_in":3599,"token_type":"Bearer"}`), nil
	})
	if err != nil || seen.Header.Get("Authorization") != "Bearer from-the-account" || seen.URL.Path != "/shop/locks/job" {
		t.Errorf("%v, asked %+v", err, seen)
	}
}

func checkClaim(t *testing.T, key *rsa.PrivateKey, claim string) {
	t.Helper()
	parts := strings.Split(claim, ".")
	if len(parts) != 3 {
		t.Fatalf("the claim is %q", claim)
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], decoded[2]); err != nil {
		t.Error(err)
	}
	var c struct {
		Iss, Aud, Scope string
		Iat, Exp        int64
	}
	if err := json.Unmarshal(decoded[1], &c); err != nil || c.Iss != "job@shop" || c.Aud != "https://tokens.example.com/token" || c.Scope != "https://www.googleapis.com/auth/devstorage.read_write" || c.Exp-c.Iat != 3600 || time.Since(time.Unix(c.Iat, 0)).Abs() > time.Minute {
		t.Errorf("claims %s, %v", decoded[1], err)
	}
	if string(decoded[0]) != `{"alg":"RS256","kid":"k1","typ":"JWT"}` {
		t.Errorf("the header is %s", decoded[0])
	}
}

// The other places: each is asked only without the ones before it.
func TestGoogleCredentials(t *testing.T) {
	folder := withoutGoogle(t)
	var asked *http.Request
	wire := func(r *http.Request) (*http.Response, error) {
		asked = r
		return reply(200, `{"access_token":"found","expires_in":3599}`), nil
	}
	check := func(what, where, want string) {
		t.Helper()
		asked = nil
		seen, err := ask(t, wire)
		if err != nil || !strings.HasPrefix(seen.Header.Get("Authorization"), want) {
			t.Errorf("%s: %v, sent %+v", what, err, seen)
		}
		if got := ""; asked != nil && asked.URL.Host != where || asked == nil && where != got {
			t.Errorf("%s: asked %+v for a token", what, asked)
		}
	}
	check("a machine", "metadata.google.internal", "Bearer found")
	if asked.Header.Get("Metadata-Flavor") != "Google" {
		t.Errorf("the metadata server is asked with %v", asked.Header)
	}
	t.Setenv("GCE_METADATA_HOST", "10.0.0.1:80")
	check("another metadata server", "10.0.0.1:80", "Bearer found")
	user := `{"type":"authorized_user","client_id":"id","client_secret":"s","refresh_token":"r"}`
	if err := os.WriteFile(filepath.Join(folder, "application_default_credentials.json"), []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	check("a person", "oauth2.googleapis.com", "Bearer found")
	if body, _ := io.ReadAll(asked.Body); string(body) != "client_id=id&client_secret=s&grant_type=refresh_token&refresh_token=r" {
		t.Errorf("the token server is asked with %s", body)
	}
	t.Setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "given")
	check("a token", "", "Bearer given")
	t.Setenv("GS_ACCESS_KEY_ID", "GOOG1E")
	t.Setenv("GS_SECRET_ACCESS_KEY", "secret")
	check("an HMAC key", "", "GOOG4-HMAC-SHA256 Credential=GOOG1E/")
}

// The signature with an HMAC key is the one of Google's documentation of V4 signatures: the steps
// of Amazon's with other names.
func TestHMAC(t *testing.T) {
	withoutGoogle(t)
	t.Setenv("GS_ACCESS_KEY_ID", "GOOG1E")
	t.Setenv("GS_SECRET_ACCESS_KEY", "secret")
	q, err := ask(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	date := q.Header.Get("X-Goog-Date")
	request := strings.Join([]string{
		"GET", "/shop/locks/job", "", "host:storage.googleapis.com", "x-goog-content-sha256:" + nothing, "x-goog-date:" + date, "",
		"host;x-goog-content-sha256;x-goog-date", nothing,
	}, "\n")
	sum := sha256.Sum256([]byte(request))
	key := []byte("GOOG4secret")
	for _, part := range []string{date[:8], "auto", "storage", "goog4_request", "GOOG4-HMAC-SHA256\n" + date + "\n" + date[:8] + "/auto/storage/goog4_request\n" + hex.EncodeToString(sum[:])} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	if got, want := q.Header.Get("Authorization"), "Signature="+hex.EncodeToString(key); !strings.HasSuffix(got, want) {
		t.Errorf("signed %s, want %s", got, want)
	}
}

// Credentials that cannot be used are driver.ErrUnavailable: nothing was sent. The error shows no
// secret.
func TestWrongGoogleCredentials(t *testing.T) {
	server.Thorough(t)
	folder := withoutGoogle(t)
	file := filepath.Join(folder, "key.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	for text, want := range map[string]string{
		"":                            "no such file",
		"hunter2":                     "no file of credentials",
		`{"type":"external_account"}`: "print-access-token",
		`{"type":"service_account","private_key":"hunter2"}`:                                                                           "no private key",
		"{\"type\":\"service_account\",\"private_key\":\"-----BEGIN PRIVATE KEY-----\\naHVudGVyMg==\\n-----END PRIVATE KEY-----\\n\"}": "cannot be read",
		`{"type":"authorized_user","refresh_token":"hunter2"}`:                                                                         "invalid_grant",
	} {
		os.Remove(file)
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		seen, err := ask(t, func(*http.Request) (*http.Response, error) { return reply(400, `{"error":"invalid_grant"}`), nil })
		if seen != nil || !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A token is replaced once a minute. If no new one can be had, the last one serves until its end. A
// caller whose time is up does not wait for the token of another caller.
func TestTokensAreKept(t *testing.T) {
	withoutGoogle(t)
	synctest.Test(t, func(t *testing.T) {
		fetched, down := 0, false
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Service: s3store.ServiceGoogle, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host == "storage.googleapis.com":
				return reply(404, "<Error><Code>NoSuchKey</Code></Error>"), nil
			case down:
				return nil, errors.New("the metadata server is down")
			}
			fetched++
			return reply(200, `{"access_token":"t","expires_in":600}`), nil
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inspect := inspecting(t, store, &fetched)
		inspect(0, 1, true)
		inspect(59*time.Second, 1, true)
		inspect(time.Second, 2, true)
		down = true
		inspect(595*time.Second, 2, true)
		inspect(6*time.Second, 2, false)
		down = false
		inspect(0, 3, true)
	})
}

// A token server that is silent does not use up the time of requests while the last token is valid.
func TestSilentTokenServer(t *testing.T) {
	withoutGoogle(t)
	synctest.Test(t, func(t *testing.T) {
		silent := false
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Service: s3store.ServiceGoogle, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Context().Err() != nil:
				return nil, r.Context().Err()
			case r.URL.Host == "storage.googleapis.com":
				return reply(404, "<Error><Code>NoSuchKey</Code></Error>"), nil
			case silent:
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return reply(200, `{"access_token":"t","expires_in":600}`), nil
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inspect := func(most time.Duration) {
			t.Helper()
			start := time.Now()
			if _, err := store.Inspect(t.Context(), "job"); err != nil || time.Since(start) > most {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		inspect(0)
		silent = true
		<-time.After(9*time.Minute + time.Second)
		inspect(time.Second)
		inspect(0) // the token server is not asked again at once
		<-time.After(5 * time.Second)
		inspect(time.Second)
		<-time.After(10 * time.Second) // until the search has ended
	})
}

// No access token goes to another machine in the clear.
func TestTokenNeedsHTTPS(t *testing.T) {
	for endpoint, sent := range map[string]bool{"http://192.0.2.7:4443": false, "http://127.0.0.1:4443": true, "https://192.0.2.7": true} {
		bearer := false
		c := s3store.Config{Bucket: "shop", Service: s3store.ServiceGoogle, Endpoint: endpoint, Token: token, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			bearer = r.Header.Get("Authorization") == "Bearer the-token"
			return reply(403, ""), nil
		})}
		store, err := s3store.Open(t.Context(), c, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		_, err = store.Acquire(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf("t"), TTL: 30 * time.Second})
		if bearer != sent || !sent && !strings.Contains(err.Error(), "https only") {
			t.Errorf("%s: sent is %v: %v", endpoint, bearer, err)
		}
	}
}

// A token that the service refuses is replaced, at most once in five seconds.
func TestRefusedToken(t *testing.T) {
	withoutGoogle(t)
	synctest.Test(t, func(t *testing.T) {
		fetched := 0
		store, err := s3store.Open(t.Context(), s3store.Config{Bucket: "shop", Service: s3store.ServiceGoogle, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host != "storage.googleapis.com":
				fetched++
				return reply(200, fmt.Sprintf(`{"access_token":"t%d","expires_in":3599}`, fetched)), nil
			case r.Header.Get("Authorization") == "Bearer t1":
				return reply(401, ""), nil
			}
			return reply(404, "<Error><Code>NoSuchKey</Code></Error>"), nil
		})}, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inspect := inspecting(t, store, &fetched)
		inspect(0, 1, false)
		inspect(4*time.Second, 1, false)
		inspect(time.Second, 2, true)
	})
}

// A reply that has a token, but not in the expected form, is an error that does not show it.
func TestOddTokenReply(t *testing.T) {
	withoutGoogle(t)
	for _, body := range []string{`{"access_token":"hunter2","expires_in":"soon"}`, `access_token=hunter2`, `{"token":"hunter2"}`} {
		synctest.Test(t, func(t *testing.T) {
			_, err := ask(t, func(*http.Request) (*http.Response, error) { return reply(200, body), nil })
			if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "no access token") {
				t.Errorf("%s: %v", body, err)
			}
		})
	}
}

// Without a home, no credentials are read from the working directory.
func TestNoHome(t *testing.T) {
	t.Chdir(withoutGoogle(t))
	t.Setenv("CLOUDSDK_CONFIG", "")
	t.Setenv("HOME", "")
	t.Setenv("USERPROFILE", "") // the home on Windows
	if err := os.WriteFile("application_default_credentials.json", []byte(`{"type":"authorized_user"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != "metadata.google.internal" {
			t.Errorf("asked %s for a token", r.URL.Host)
		}
		return reply(200, `{"access_token":"found","expires_in":3599}`), nil
	}); err != nil {
		t.Error(err)
	}
}

// The URLs of Google.
func TestGoogleURLs(t *testing.T) {
	withoutGoogle(t)
	for rawURL, want := range map[string]string{
		"gs://S":                      "the bucket",
		"gs://shop/a//b":              "the prefix",
		"gs://key:secret@shop":        "GOOGLE_APPLICATION_CREDENTIALS",
		"gs://shop?region=eu":         "region",
		"gs://shop?path-style=no":     "path-style",
		"gs://shop?endpoint=ftp://x":  "the endpoint",
		"gs://my_shop.example.com/a":  "",
		"gs://shop?endpoint=http://x": "",
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		store, err := s3store.FromURL(t.Context(), u, register.Lazy())
		if err == nil {
			if g := store.Guarantees(); g.Store != "gs" || (g.SurvivesRestart == driver.PromiseYes) != (u.RawQuery == "") {
				t.Errorf("%s: %+v", rawURL, g)
			}
			store.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", rawURL, err, want)
		}
	}
}

// inspecting returns a function that looks at a name after a time. The request must work or not,
// and so many tokens or keys must have been found by then.
func inspecting(t *testing.T, store *register.Store, found *int) func(after time.Duration, want int, works bool) {
	return func(after time.Duration, want int, works bool) {
		t.Helper()
		<-time.After(after)
		if _, err := store.Inspect(t.Context(), "job"); (err == nil) != works || *found != want {
			t.Errorf("%v, after %d finds, want %d", err, *found, want)
		}
	}
}
