package s3store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
	"github.com/padlock-go/padlock/storekit/register"
)

// azureVersion is the version of Azure's protocol that the requests speak.
const azureVersion = "2021-12-02"

// azureKeys makes keys of names. Azure may drop a dot at the end of a key.
var azureKeys = storekit.Escaping{Plain: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"}

var (
	accountForm   = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	containerForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	azureHost     = regexp.MustCompile(`\.blob\.(core|storage)\.`)
)

// connectionString returns what AZURE_STORAGE_CONNECTION_STRING says. One of another account than
// that of the configuration does not count.
func (c *Config) connectionString() map[string]string {
	set := map[string]string{}
	for part := range strings.SplitSeq(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), ";") {
		name, value, _ := strings.Cut(part, "=")
		set[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if place, err := url.Parse(set["BlobEndpoint"]); err == nil && set["AccountName"] == "" && azureHost.MatchString(place.Host) {
		set["AccountName"], _, _ = strings.Cut(place.Host, ".")
	}
	if c.Account != "" && c.Account != set["AccountName"] {
		return nil
	}
	return set
}

// inAzure returns the URL of a container, and takes what is missing from the environment.
func (c *Config) inAzure() (*url.URL, error) {
	set := c.connectionString()
	first(&c.Account, set["AccountName"], os.Getenv("AZURE_STORAGE_ACCOUNT"))
	switch {
	case len(c.Bucket) < 3 || len(c.Bucket) > 63 || !containerForm.MatchString(c.Bucket):
		return nil, storekit.Invalidf("the container: it has 3 to 63 lower-case letters, digits and single hyphens")
	case strings.Contains(c.Prefix+"/", "./"):
		return nil, storekit.Invalidf("the prefix: Azure may drop a dot before a slash")
	case c.Account == "":
		return nil, storekit.Invalidf("the account of the container is not known; write account=NAME, or set AZURE_STORAGE_ACCOUNT")
	case !accountForm.MatchString(c.Account):
		return nil, storekit.Invalidf("the account: it has 3 to 24 lower-case letters and digits")
	}
	place := set["BlobEndpoint"]
	if c.Endpoint != "" {
		u, err := register.ParseEndpoint(c.Endpoint)
		if err != nil {
			return nil, err
		}
		place = u.Scheme + "://" + u.Host + "/" + c.Account
		if c.HostStyle {
			place = u.Scheme + "://" + c.Account + "." + u.Host
		}
	}
	if place == "" {
		protocol, suffix := set["DefaultEndpointsProtocol"], set["EndpointSuffix"]
		first(&protocol, "https")
		first(&suffix, "core.windows.net")
		place = protocol + "://" + c.Account + ".blob." + suffix
	}
	u, err := url.Parse(strings.TrimSuffix(place, "/") + "/" + c.Bucket + "/")
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery+u.Fragment != "" {
		return nil, storekit.Invalidf("AZURE_STORAGE_CONNECTION_STRING has no usable address of the blob service")
	}
	return u, nil
}

// azureKey finds the key of the account, or a shared access signature, as the tools of Azure do.
func (c *Config) azureKey(context.Context) (account, key, signature string, err error) {
	set := c.connectionString()
	key, signature = set["AccountKey"], set["SharedAccessSignature"]
	if key+signature == "" {
		key, signature = os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_SAS_TOKEN")
	}
	return c.Account, key, strings.TrimPrefix(signature, "?"), nil
}

// signAzure makes client sign requests for Azure: with a key or a shared access signature, or else
// with access tokens.
func (c *Config) signAzure(client *overhttp.Client, plain *http.Client) {
	find, token := c.Credentials, c.Token
	if find == nil {
		find = c.azureKey
		if token != nil {
			find = func(context.Context) (account, key, signature string, err error) { return "", "", "", nil }
		}
	}
	if token == nil {
		token = keepTokens(client, plain, azureTokenRequest).get
	}
	client.Sign = func(q *http.Request, body []byte) error {
		q.URL.Path = strings.TrimSuffix(q.URL.Path, "/") // the container itself, in a list
		q.Header.Set("X-Ms-Version", azureVersion)
		q.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
		_, key, signature, err := find(q.Context())
		switch {
		case err != nil:
			return fmt.Errorf("the key of the account: %w", err)
		case key != "":
			return signShared(q, body, c.Account, key)
		case signature != "":
			q.URL.RawQuery = strings.TrimPrefix(q.URL.RawQuery+"&"+signature, "&")
			return nil
		}
		if err := bear(q, token); err != nil {
			return fmt.Errorf("the access token: %w; if this machine has no identity in Azure, set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN", err)
		}
		return nil
	}
}

// signShared signs a request with the key of an account (Shared Key). Of the headers that do not
// begin with x-ms-, it signs those that the store sends.
func signShared(q *http.Request, body []byte, account, key string) error {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return errors.New("the key of the account is not written in base64") // err may quote it
	}
	length := ""
	if len(body) > 0 {
		length = strconv.Itoa(len(body))
	}
	lines := []string{q.Method, "", "", length, "", "", "", "", q.Header.Get("If-Match"), q.Header.Get("If-None-Match"), "", ""}
	for _, name := range slices.Sorted(maps.Keys(q.Header)) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			lines = append(lines, lower+":"+q.Header.Get(name))
		}
	}
	lines = append(lines, "/"+account+q.URL.EscapedPath())
	query := q.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		lines = append(lines, name+":"+query.Get(name))
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.Join(lines, "\n")))
	q.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

// azureTokenRequest returns the request for a token: as a service principal, as the workload
// identity of a pod, or as the managed identity of a function, an app or a machine.
func azureTokenRequest(ctx context.Context) (*http.Request, error) {
	const resource = "https://storage.azure.com/"
	tenant, client := os.Getenv("AZURE_TENANT_ID"), os.Getenv("AZURE_CLIENT_ID")
	secret, file := os.Getenv("AZURE_CLIENT_SECRET"), os.Getenv("AZURE_FEDERATED_TOKEN_FILE")
	if tenant != "" && client != "" && secret+file != "" {
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {client}, "scope": {resource + ".default"}}
		if secret != "" {
			form.Set("client_secret", secret)
		} else {
			text, err := os.ReadFile(file) // anew each time: Kubernetes replaces it
			if err != nil {
				return nil, err
			}
			form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
			form.Set("client_assertion", strings.TrimSpace(string(text)))
		}
		host := os.Getenv("AZURE_AUTHORITY_HOST")
		first(&host, "https://login.microsoftonline.com")
		return formRequest(ctx, strings.TrimSuffix(host, "/")+"/"+url.PathEscape(tenant)+"/oauth2/v2.0/token", form)
	}
	query := url.Values{"resource": {resource}, "api-version": {"2018-02-01"}}
	place, header, value := "http://169.254.169.254/metadata/identity/oauth2/token", "Metadata", "true"
	if at := os.Getenv("IDENTITY_ENDPOINT"); at != "" {
		place, header, value = at, "X-Identity-Header", os.Getenv("IDENTITY_HEADER")
		query.Set("api-version", "2019-08-01")
	}
	if client != "" {
		query.Set("client_id", client)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, place+"?"+query.Encode(), nil)
	if err == nil {
		q.Header.Set(header, value)
	}
	return q, err
}
