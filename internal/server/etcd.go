package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// EtcdOptions are the settings of an etcd server. The zero value describes a server of the current
// version that is the only member of its cluster and does not use TLS.
type EtcdOptions struct {
	TLS   *TLS
	Quota int  // the most bytes of data; 0 is the default of etcd
	Old   bool // Debian's version, 3.4.23

	// MinLease is the shortest lease that the server grants. It makes shorter ones longer. 0 is the
	// default of etcd, 2 s. A server starts up to two thirds of MinLease later, because that is the
	// time after which it elects itself.
	MinLease time.Duration
}

// Etcd starts an etcd server. Unless o.Old is set, the server is built from its module, in the
// version of testdata/etcd/go.mod, since Debian has no current version. The first build on a machine takes a minute.
func Etcd(t testing.TB, o EtcdOptions) *Server {
	t.Helper()
	spec := Spec{Name: "etcd", Package: "etcd-server", Binary: []string{"etcd"}, URL: o.url, Ready: o.ready, ExtraPorts: 1, Timeout: time.Minute}
	if !o.Old {
		spec.Binary = []string{etcdBinary(t)}
	}
	if o.TLS != nil {
		spec.Prepare = o.prepare
	}
	spec.Args = func(p Place) []string {
		peer := fmt.Sprintf("http://127.0.0.1:%d", p.Extra[0])
		return o.args(p, "one", peer, peer, "one="+peer)
	}
	return Start(t, spec)
}

// EtcdCluster starts members of one etcd cluster, which elect a leader within a second. Each has its
// own Addr. The members need not connect to each other directly: the function via gets the number of
// a member, from 0, and the member's real address. It returns the address at which the other members
// connect to that member. So a test can put proxies between the members. With nil there are none.
func EtcdCluster(t testing.TB, members int, via func(member int, addr string) string) []*Server {
	t.Helper()
	var o EtcdOptions
	binary := etcdBinary(t)
	var peers, advertised, cluster []string
	for i := range members {
		r, err := reserve()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.release() }) // an error here does no harm
		addr := fmt.Sprintf("127.0.0.1:%d", r.port)
		peers = append(peers, "http://"+addr)
		if via != nil {
			addr = via(i, addr)
		}
		advertised = append(advertised, "http://"+addr)
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, advertised[i]))
	}
	var all []*Server
	for i := range members {
		all = append(all, Start(t, Spec{
			Name: "etcd", Binary: []string{binary}, URL: o.url, Timeout: time.Minute,
			Args: func(p Place) []string {
				args := o.args(p, fmt.Sprintf("m%d", i), peers[i], advertised[i], strings.Join(cluster, ","))
				return append(args, "--heartbeat-interval", "50", "--election-timeout", "500")
			},
			Ready: func(context.Context, Place) error { return nil }, // allReady waits, because no member is ready before the others have started
		}))
	}
	allReady(t, all, o.ready)
	return all
}

// args returns the arguments of a member whose peers connect to it at the URL advertised.
func (o EtcdOptions) args(p Place, name, peer, advertised, cluster string) []string {
	client := o.url(p)
	args := []string{"--name", name, "--data-dir", p.Path("etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", advertised, "--initial-cluster", cluster}
	if !o.Old {
		args = append(args, "--unsafe-no-fsync", "--log-level", "warn", "--bcrypt-cost", "4") // a login costs 0.1 s of a processor otherwise
	}
	if o.MinLease > 0 {
		args = append(args, "--election-timeout", fmt.Sprint((o.MinLease * 2 / 3).Milliseconds()))
	}
	if o.Quota > 0 {
		args = append(args, "--quota-backend-bytes", fmt.Sprint(o.Quota))
	}
	if o.TLS != nil {
		args = append(args, "--cert-file", p.Path("cert.pem"), "--key-file", p.Path("key.pem"))
	}
	return args
}

func (o EtcdOptions) prepare(_ context.Context, p Place) error {
	if err := p.Write("cert.pem", o.TLS.Cert); err != nil {
		return err
	}
	return p.Write("key.pem", o.TLS.Key)
}

func (o EtcdOptions) url(p Place) string {
	if o.TLS != nil {
		return "https://" + p.Addr()
	}
	return "http://" + p.Addr()
}

func (o EtcdOptions) ready(ctx context.Context, p Place) error {
	var config *tls.Config
	if o.TLS != nil {
		config = o.TLS.Client()
	}
	status, text, err := health(ctx, o.url(p)+"/health", config)
	if err == nil && !strings.Contains(text, `"true"`) && !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, status) {
		err = fmt.Errorf("it says %s", text)
	}
	return err
}

// health asks a server over HTTP how it is.
func health(ctx context.Context, address string, config *tls.Config) (status int, text string, err error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 2 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	reply, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(body), err
}

// etcdBinary returns the path of the server, and builds the server if this machine does not have it
// yet.
func etcdBinary(t testing.TB) string {
	t.Helper()
	path, err := builtEtcd()
	if err != nil {
		missing(t, fmt.Errorf("etcd cannot be built: %w", err))
	}
	return path
}
