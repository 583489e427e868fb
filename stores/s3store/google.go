package s3store

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
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
	"time"

	"github.com/padlock-go/padlock/storekit/aws"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// signGoogle makes c sign requests for Google: with the tokens that token returns. If token is nil,
// c signs with the HMAC key in the environment, or with tokens that it finds.
func signGoogle(c *overhttp.Client, token func(context.Context) (string, error), client *http.Client) {
	found := token == nil
	if found {
		get, refused := aws.KeepUntilRefused(func(ctx context.Context) (aws.Key, time.Time, error) {
			q, err := googleTokenRequest(ctx)
			if err != nil {
				return aws.Key{}, time.Time{}, err
			}
			return fetch(client, q)
		})
		c.Judge = func(r *overhttp.Reply) {
			if r.Status == http.StatusUnauthorized {
				refused()
			}
		}
		token = func(ctx context.Context) (string, error) {
			if text := os.Getenv("GOOGLE_OAUTH_ACCESS_TOKEN"); text != "" {
				return text, nil
			}
			_, text, _, err := get(ctx)
			return text, err
		}
	}
	c.Sign = func(q *http.Request, body []byte) error {
		id, secret := os.Getenv("GS_ACCESS_KEY_ID"), os.Getenv("GS_SECRET_ACCESS_KEY")
		if found && id != "" && secret != "" {
			key := aws.NewKey(id, secret, "")
			key.Google = true
			aws.Sign(q, body, key, "auto", "storage")
			return nil
		}
		if err := bear(q, token); err != nil {
			return fmt.Errorf("the access token: %w", err)
		}
		return nil
	}
}

// bear adds an access token to a request. Over http it could be read on the way, and be used for
// everything else that it opens.
func bear(q *http.Request, token func(context.Context) (string, error)) error {
	if q.URL.Scheme != "https" && !overhttp.Loopback(q.URL.Hostname()) {
		return errors.New("it is sent over https only, and the endpoint has an http URL")
	}
	text, err := token(q.Context())
	if err == nil {
		q.Header.Set("Authorization", "Bearer "+text)
	}
	return err
}

// fetch gets a new token. It returns it as the secret of a key, with its end.
func fetch(client *http.Client, q *http.Request) (token aws.Key, end time.Time, err error) {
	sent := time.Now()
	reply, err := client.Do(q)
	if err != nil {
		return token, end, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, 1<<16))
	if err != nil {
		return token, end, err
	}
	var a struct {
		Token   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	switch {
	case reply.StatusCode != http.StatusOK:
		return token, end, fmt.Errorf("%s answers %s: %.200q", q.URL.Host, reply.Status, body)
	case json.Unmarshal(body, &a) != nil || a.Token == "":
		return token, end, fmt.Errorf("the reply of %s has no access token", q.URL.Host) // it may have a secret
	}
	// By the time of day: the other clock of the process stands still while a machine sleeps.
	return aws.NewKey("token", a.Token, ""), sent.Round(0).Add(time.Duration(a.Seconds) * time.Second), nil
}

// A login is a file of credentials: of a service account, or of a person (authorized_user).
type login struct {
	Type         string `json:"type"`
	TokenURI     string `json:"token_uri"`
	Email        string `json:"client_email"`
	KeyID        string `json:"private_key_id"`
	Key          string `json:"private_key"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Refresh      string `json:"refresh_token"`
}

// googleTokenRequest returns the request for a token: with the file of credentials, or without one
// to the metadata server of the machine.
func googleTokenRequest(ctx context.Context) (*http.Request, error) {
	file, given := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"), true
	if file == "" {
		given = false
		folder := os.Getenv("CLOUDSDK_CONFIG")
		if home, err := os.UserHomeDir(); err == nil && folder == "" {
			folder = filepath.Join(home, ".config", "gcloud")
		}
		if folder != "" {
			file = filepath.Join(folder, "application_default_credentials.json")
		}
	}
	text, err := os.ReadFile(file) // "" does not exist
	switch {
	case err == nil:
		return fileRequest(ctx, file, text)
	case given || !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	host := os.Getenv("GCE_METADATA_HOST")
	first(&host, "metadata.google.internal")
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
	if err == nil {
		q.Header.Set("Metadata-Flavor", "Google")
	}
	return q, err
}

// fileRequest returns the request for a token with a file of credentials.
func fileRequest(ctx context.Context, file string, text []byte) (*http.Request, error) {
	var l login
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%s is no file of credentials", file) // err may quote a secret
	}
	first(&l.TokenURI, "https://oauth2.googleapis.com/token")
	form := url.Values{}
	switch l.Type {
	case "service_account":
		claim, err := l.claim(time.Now())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		form.Set("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
		form.Set("assertion", claim)
	case "authorized_user":
		form.Set("grant_type", "refresh_token")
		form.Set("client_id", l.ClientID)
		form.Set("client_secret", l.ClientSecret)
		form.Set("refresh_token", l.Refresh)
	default:
		return nil, fmt.Errorf("%s has credentials of the type %q, which padlock does not read: set GOOGLE_OAUTH_ACCESS_TOKEN to the output of gcloud auth print-access-token", file, l.Type)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, l.TokenURI, strings.NewReader(form.Encode()))
	if err == nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return q, err
}

// claim returns a signed claim to be the service account, a JSON Web Token (RS256).
func (l *login) claim(now time.Time) (string, error) {
	block, _ := pem.Decode([]byte(l.Key))
	if block == nil {
		return "", errors.New("it has no private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return "", errors.New("its private key cannot be read")
	}
	var parts []string
	for _, part := range []any{
		map[string]string{"alg": "RS256", "typ": "JWT", "kid": l.KeyID},
		map[string]any{
			"iss": l.Email, "aud": l.TokenURI, "scope": "https://www.googleapis.com/auth/devstorage.read_write",
			"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		},
	} {
		text, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(text))
	}
	claim := strings.Join(parts, ".")
	sum := sha256.Sum256([]byte(claim))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return claim + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// first sets an empty text to the first of the others that is not empty.
func first(text *string, others ...string) {
	for _, other := range others {
		if *text == "" {
			*text = other
		}
	}
}
