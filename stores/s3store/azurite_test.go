//go:build azurite

package s3store_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// The account of Azurite, as its documentation has it.
const (
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// The store passes the suite on Azurite, which padlock has not written, and which checks
// signatures. See make test-azurite.
func TestAzurite(t *testing.T) {
	withoutAzure(t)
	server := os.Getenv("AZURITE")
	const account = "AccountName=" + azuriteAccount + ";AccountKey="
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", account+azuriteKey+";BlobEndpoint="+server+"/"+azuriteAccount)
	container := makeContainer(t, server)
	open := func(ctx context.Context, opts ...register.Option) (*register.Store, error) {
		return s3store.FromURL(ctx, &url.URL{Scheme: "az", Host: container, Path: "/locks"}, append(opts, register.Skew(0))...)
	}
	t.Run("suite", func(t *testing.T) {
		drivertest.Run(t, drivertest.Harness{Slow: true, Open: func(ctx context.Context) (driver.Store, error) { return open(ctx) }})
	})
	t.Run("names", func(t *testing.T) {
		store, err := open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for _, name := range []string{"dots", "dots.", "DOTS", ".", "..", "a/b", "a%2Fb", "ä ?&+", allBytes()} {
			if _, err := store.Acquire(t.Context(), request(name)); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		states, err := store.List(t.Context(), "dots")
		if err != nil || len(states) != 2 {
			t.Errorf("names that begin with dots: %+v, %v", states, err)
		}
	})
	t.Run("signature", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName="+azuriteAccount+";SharedAccessSignature="+accountSignature(t)+";BlobEndpoint="+server+"/"+azuriteAccount)
		store, err := open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.Acquire(t.Context(), request("by-signature")); err != nil {
			t.Error(err)
		}
		if states, err := store.List(t.Context(), "by-"); err != nil || len(states) != 1 {
			t.Errorf("%+v, %v", states, err)
		}
	})
	t.Run("wrong key", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_CONNECTION_STRING", account+theKey+";BlobEndpoint="+server+"/"+azuriteAccount)
		if _, err := open(t.Context()); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "403") {
			t.Errorf("Open: %v", err)
		}
	})
}

// accountSignature returns a shared access signature of Azurite's account for an hour.
func accountSignature(t *testing.T) string {
	t.Helper()
	end := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	key, err := base64.StdEncoding.DecodeString(azuriteKey)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join([]string{azuriteAccount, "rwlc", "b", "co", "", end, "", "", "2021-12-02", "", ""}, "\n")))
	return url.Values{
		"sv": {"2021-12-02"}, "ss": {"b"}, "srt": {"co"}, "sp": {"rwlc"}, "se": {end}, "sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}.Encode()
}

// makeContainer makes a container, and returns its name.
func makeContainer(t *testing.T, server string) string {
	t.Helper()
	name := "padlock-" + strings.ToLower(rand.Text())
	q, err := http.NewRequest(http.MethodPut, server+"/"+azuriteAccount+"/"+name+"?restype=container&"+accountSignature(t), bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Ms-Version", "2021-12-02")
	r, err := http.DefaultClient.Do(q)
	if err != nil || r.StatusCode != http.StatusCreated {
		t.Fatalf("the container: %v, %v", r, err)
	}
	r.Body.Close()
	return name
}
