//go:build kubernetes

package leasestore_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/leasestore"
)

// startAPIServer starts an API server of Kubernetes with an etcd. Its users are known by tokens:
// admin, who may do everything, and job, who may do what a Role says.
func startAPIServer(t *testing.T) *server.Server {
	t.Helper()
	etcd := server.Etcd(t, server.EtcdOptions{})
	s := server.Start(t, server.Spec{
		Name: "kube-apiserver", Binary: []string{os.Getenv("KUBE_APISERVER")}, Timeout: 3 * time.Minute,
		URL: func(p server.Place) string { return "https://" + p.Addr() },
		Prepare: func(_ context.Context, p server.Place) error {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				return err
			}
			der, err := x509.MarshalECPrivateKey(key)
			if err != nil {
				return err
			}
			return errors.Join(
				p.Write("accounts.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
				p.Write("tokens.csv", []byte("admin,admin,1,system:masters\njob,job,2\n")),
			)
		},
		Args: func(p server.Place) []string {
			return []string{
				"--etcd-servers", etcd.URL(), "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(p.Port),
				"--cert-dir", p.Path("certs"), "--token-auth-file", p.Path("tokens.csv"), "--authorization-mode", "RBAC",
				"--service-account-issuer", "https://padlock.test", "--service-account-key-file", p.Path("accounts.key"),
				"--service-account-signing-key-file", p.Path("accounts.key"), "--disable-admission-plugins", "ServiceAccount",
				"--service-cluster-ip-range", "10.0.0.0/24",
			}
		},
		Ready: func(ctx context.Context, p server.Place) error { return admin(ctx, p, http.MethodGet, "/readyz", nil) },
	})
	made := map[string]any{
		"/api/v1/namespaces": object("v1", "Namespace", "shop", nil),
		"/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles": object("rbac.authorization.k8s.io/v1", "Role", "padlock", map[string]any{
			"rules": []any{map[string]any{
				"apiGroups": []string{"coordination.k8s.io"}, "resources": []string{"leases"},
				"verbs": []string{"get", "create", "update", "watch", "list"}, // the last one for List
			}},
		}),
		"/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings": object("rbac.authorization.k8s.io/v1", "RoleBinding", "padlock", map[string]any{
			"roleRef":  map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "padlock"},
			"subjects": []any{map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "job"}},
		}),
	}
	for _, path := range []string{"/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings"} {
		if err := admin(t.Context(), s.Place(), http.MethodPost, path, made[path]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func object(version, kind, name string, more map[string]any) map[string]any {
	o := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]string{"name": name}}
	for key, value := range more {
		o[key] = value
	}
	return o
}

// admin sends a request with all rights.
func admin(ctx context.Context, p server.Place, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, method, "https://"+p.Addr()+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer admin")
	q.Header.Set("Content-Type", "application/json")
	client, err := trusting(p)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	r, err := client.RoundTrip(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if answer, _ := io.ReadAll(r.Body); r.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, r.Status, answer)
	}
	return nil
}

// trusting returns a transport that trusts the server's own certificate.
func trusting(p server.Place) (*http.Transport, error) {
	roots := x509.NewCertPool()
	text, err := os.ReadFile(p.Path("certs/apiserver.crt"))
	if err == nil && !roots.AppendCertsFromPEM(text) {
		err = errors.New("the server has no certificate yet")
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}, err
}

// A lossy transport loses the reply to a write.
type lossy struct {
	*http.Transport
	lose atomic.Bool
}

func (l *lossy) RoundTrip(q *http.Request) (*http.Response, error) {
	r, err := l.Transport.RoundTrip(q)
	if err == nil && q.Method != http.MethodGet && l.lose.Swap(false) {
		r.Body.Close()
		return nil, errors.New("the test has lost the reply")
	}
	return r, err
}

// The store passes the suite on an API server of Kubernetes, with the rights of the page
// and with lost replies. With -clock server it does so by that clock, which takes longer. See make
// test-kubernetes.
func TestAPIServer(t *testing.T) {
	s := startAPIServer(t)
	token := t.TempDir() + "/token"
	if err := os.WriteFile(token, []byte("job\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var transports sync.Map // by store
	drivertest.Run(t, drivertest.Harness{
		Slow: true,
		Open: func(ctx context.Context) (driver.Store, error) {
			base, err := trusting(s.Place())
			if err != nil {
				return nil, err
			}
			l := &lossy{Transport: base}
			store, err := leasestore.Open(ctx, leasestore.Config{
				Namespace: "shop", Prefix: *clock, Endpoint: s.URL(), TokenFile: token, ServerClock: *clock == "server", Transport: l,
			})
			if err == nil {
				transports.Store(store, l)
			}
			return store, err
		},
		LoseReply: func(store driver.Store) error {
			l, _ := transports.Load(store)
			l.(*lossy).lose.Store(true)
			return nil
		},
		Pause: s.Freeze,
	})
}
