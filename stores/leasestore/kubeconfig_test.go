package leasestore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/leasestore"
)

// An apiServer answers over TLS, asks for the certificate of the client, and notes what it sees.
func apiServer(t *testing.T) (s *httptest.Server, seen *http.Request) {
	t.Helper()
	seen = new(http.Request)
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = *r
		http.Error(w, `{"kind":"Status"}`, http.StatusNotFound)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, seen
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// clientPair returns a certificate that names its user, and its key.
func clientPair(t *testing.T) (cert, key string) {
	t.Helper()
	return clientPairOf(t, "nightly")
}

func clientPairOf(t *testing.T, user string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	c.Subject.CommonName = user
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("CERTIFICATE", der), inPEM("PRIVATE KEY", text)
}

// kubeconfigOf is a file as kubectl writes it, with several contexts.
const kubeconfigOf = `apiVersion: v1
kind: Config
current-context: by-token
preferences: {}
clusters:
- name: shop
  cluster:
    server: SERVER/k8s/clusters/c1
    certificate-authority-data: CADATA
- name: by-file
  cluster: {server: SERVER, certificate-authority: ca.crt, tls-server-name: example.com}
contexts:
- {name: by-token, context: {cluster: shop, user: token, namespace: tokens}}
- {name: by-cert, context: {cluster: by-file, user: cert}}
- {name: by-token-file, context: {cluster: shop, user: token-file}}
- {name: by-program, context: {cluster: shop, user: program}}
- {name: by-password, context: {cluster: shop, user: password}}
- {name: lost, context: {cluster: nowhere, user: token}}
- {name: nobody, context: {cluster: shop, user: nobody}}
users:
- name: token
  user: {token: the-token}
- name: cert
  user: {client-certificate: client.crt, client-key-data: KEYDATA}
- name: token-file
  user: {tokenFile: token, token: old}
- name: program
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}
- name: password
  user: {username: admin, password: hunter2}
`

// writeKubeconfig writes a kubeconfig for a server, with the files that it names.
func writeKubeconfig(t *testing.T, s *httptest.Server) (path string) {
	t.Helper()
	dir := t.TempDir()
	ca := inPEM("CERTIFICATE", s.Certificate().Raw)
	cert, key := clientPair(t)
	write(t, filepath.Join(dir, "ca.crt"), ca)
	write(t, filepath.Join(dir, "client.crt"), cert)
	write(t, filepath.Join(dir, "token"), "from-the-file\n")
	in := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return write(t, filepath.Join(dir, "config"), strings.NewReplacer("SERVER", s.URL, "CADATA", in(ca), "KEYDATA", in(key)).Replace(kubeconfigOf))
}

func look(t *testing.T, rawURL string) error {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	store, err := leasestore.FromURL(t.Context(), u, register.Lazy())
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = store.Inspect(t.Context(), "job")
	return err
}

// Outside of a pod, the address of the server and the credentials come from the kubeconfig: a
// token, a file with a token, or a certificate.
func TestKubeconfig(t *testing.T) {
	s, seen := apiServer(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", writeKubeconfig(t, s))
	for rawURL, want := range map[string]struct{ path, auth, user string }{
		"kubernetes:":                            {"/k8s/clusters/c1/apis/coordination.k8s.io/v1/namespaces/tokens/leases/", "Bearer the-token", ""},
		"kubernetes://own/locks":                 {"/k8s/clusters/c1/apis/coordination.k8s.io/v1/namespaces/own/leases/", "Bearer the-token", ""},
		"kubernetes:?context=by-cert":            {"/apis/coordination.k8s.io/v1/namespaces/default/leases/", "", "nightly"},
		"kubernetes:?context=by-token-file":      {"/k8s/clusters/c1/apis/coordination.k8s.io/v1/namespaces/default/leases/", "Bearer from-the-file", ""},
		"kubernetes://own/locks?context=by-cert": {"/apis/coordination.k8s.io/v1/namespaces/own/leases/", "", "nightly"},
		"kubernetes://own?context=by-token-file": {"/k8s/clusters/c1/apis/coordination.k8s.io/v1/namespaces/own/leases/", "Bearer from-the-file", ""},
		"kubernetes:?token-file=" + tokenFile(t): {"/k8s/clusters/c1/apis/coordination.k8s.io/v1/namespaces/tokens/leases/", "Bearer another", ""},
	} {
		*seen = http.Request{}
		if err := look(t, rawURL); err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		user := ""
		if certs := seen.TLS.PeerCertificates; len(certs) > 0 {
			user = certs[0].Subject.CommonName
		}
		if !strings.HasPrefix(seen.URL.Path, want.path) || seen.Header.Get("Authorization") != want.auth || user != want.user {
			t.Errorf("%s: asked %s with %q and the certificate of %q, want %+v", rawURL, seen.URL, seen.Header.Get("Authorization"), user, want)
		}
	}
}

// TestRenewedCertificate: the certificate of the client has ended, and its files have a new one. After
// a refusal, the next request has the new certificate.
func TestRenewedCertificate(t *testing.T) {
	user := "old"
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		if r.TLS.PeerCertificates[0].Subject.CommonName != user {
			status = http.StatusUnauthorized
		}
		http.Error(w, `{"kind":"Status"}`, status)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	renew := func() {
		cert, key := clientPairOf(t, user)
		write(t, filepath.Join(dir, "client.crt"), cert)
		write(t, filepath.Join(dir, "client.key"), key)
	}
	renew()
	write(t, filepath.Join(dir, "ca.crt"), inPEM("CERTIFICATE", s.Certificate().Raw))
	file := write(t, filepath.Join(dir, "config"), "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: '"+s.URL+"', certificate-authority: ca.crt}}]\n"+
		"users: [{name: u, user: {client-certificate: client.crt, client-key: client.key}}]\n")
	store, err := leasestore.Open(t.Context(), leasestore.Config{Kubeconfig: file}, register.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	inspect := func() error { _, err := store.Inspect(t.Context(), "job"); return err }
	if err := inspect(); err != nil {
		t.Fatal(err)
	}
	user = "new"
	renew()
	if err := inspect(); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("with the old certificate: %v", err)
	}
	if err := inspect(); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

func tokenFile(t *testing.T) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "token"), "another")
}

// Several files are read as kubectl reads them, and a program in a pod reads none unless its URL
// names one.
func TestKubeconfigFiles(t *testing.T) {
	s, seen := apiServer(t)
	file := writeKubeconfig(t, s)
	first := write(t, filepath.Join(t.TempDir(), "first"), "current-context: by-cert\nusers: [{name: cert, user: {token: of-the-first}}]\n")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", strings.Join([]string{filepath.Join(t.TempDir(), "missing"), first, file}, string(os.PathListSeparator)))
	if err := look(t, "kubernetes:"); err != nil || seen.Header.Get("Authorization") != "Bearer of-the-first" {
		t.Errorf("%v, asked with %v", err, seen.Header)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	if err := look(t, "kubernetes://shop"); err == nil {
		t.Error("in a pod, the kubeconfig of the environment counts")
	}
	if err := look(t, "kubernetes:?kubeconfig="+file); err != nil || seen.Header.Get("Authorization") != "Bearer the-token" {
		t.Errorf("%v, asked with %v", err, seen.Header)
	}
}

// The paths in a kubeconfig with a relative path stay valid if the program changes its directory.
func TestRelativeKubeconfig(t *testing.T) {
	s, seen := apiServer(t)
	file := writeKubeconfig(t, s)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Base(file))
	t.Chdir(filepath.Dir(file))
	store, err := leasestore.Open(t.Context(), leasestore.Config{Context: "by-token-file"}, register.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	t.Chdir(t.TempDir())
	if _, err := store.Inspect(t.Context(), "job"); err != nil || seen.Header.Get("Authorization") != "Bearer from-the-file" {
		t.Errorf("%v, asked with %v", err, seen.Header)
	}
}

// A kubeconfig that padlock cannot use is an error that says how to go on, and shows no secret.
func TestWrongKubeconfig(t *testing.T) {
	s, _ := apiServer(t)
	file := writeKubeconfig(t, s)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, changed string) string {
		return write(t, filepath.Join(filepath.Dir(file), "changed"+base64.RawURLEncoding.EncodeToString([]byte(changed))), strings.Replace(string(text), old, changed, 1))
	}
	for rawURL, want := range map[string]string{
		"kubernetes:?context=by-program&kubeconfig=" + file:                                                            "kubectl proxy",
		"kubernetes:?context=by-password&kubeconfig=" + file:                                                           "a token or a certificate",
		"kubernetes:?context=lost&kubeconfig=" + file:                                                                  "no cluster",
		"kubernetes:?context=nobody&kubeconfig=" + file:                                                                "no user",
		"kubernetes:?context=missing&kubeconfig=" + file:                                                               "use-context",
		"kubernetes:?endpoint=http://x&kubeconfig=" + file:                                                             "only one",
		"kubernetes:?kubeconfig=" + file + ".missing":                                                                  "no kubeconfig",
		"kubernetes:?kubeconfig=" + with("clusters:", "\thunter2:"):                                                    "YAML",
		"kubernetes:?kubeconfig=" + with("server:", "insecure-skip-tls-verify: true\n    server:"):                     "certificate-authority",
		"kubernetes:?kubeconfig=" + with("server:", "proxy-url: http://p\n    server:"):                                "HTTPS_PROXY",
		"kubernetes:?kubeconfig=" + with(s.URL, "https://admin:hunter2@127.0.0.1"):                                     "a user in its URL",
		"kubernetes:?kubeconfig=" + with(s.URL, "http://127.0.0.1:1"):                                                  "write https",
		"kubernetes:?context=by-token-file&kubeconfig=" + with(s.URL, "http://127.0.0.1:2"):                            "write https",
		"kubernetes:?kubeconfig=" + with(s.URL, "localhost"):                                                           "no URL",
		"kubernetes:?kubeconfig=" + with("certificate-authority-data: ", "certificate-authority-data: not-in-base64 "): "base64",
	} {
		err := look(t, rawURL)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %q", rawURL, err, want)
		}
	}
}
