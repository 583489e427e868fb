package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// NATSOptions are the settings of a NATS server with JetStream. The zero value describes a server
// that is alone, has no logins and does not use TLS.
type NATSOptions struct {
	TLS    *TLS
	Config string // more lines of the configuration
}

// NATS starts a NATS server. It is built from the module in testdata/nats, since Debian has no
// current version. The first build on a machine takes half a minute.
func NATS(t testing.TB, o NATSOptions) *Server {
	t.Helper()
	return Start(t, o.spec(t))
}

// NATSCluster starts members of one NATS cluster. They elect a leader within some seconds; until
// then, nothing can be kept in them.
func NATSCluster(t testing.TB, members int) []*Server {
	t.Helper()
	var routes []string
	var ports []int
	for range members {
		r, err := reserve()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.release() }) // an error here does no harm
		ports, routes = append(ports, r.port), append(routes, fmt.Sprintf("nats://127.0.0.1:%d", r.port))
	}
	var all []*Server
	for i, port := range ports {
		o := NATSOptions{Config: fmt.Sprintf("server_name: m%d\ncluster { name: test, listen: \"127.0.0.1:%d\", routes: [ %s ] }\n", i, port, strings.Join(routes, ", "))}
		all = append(all, Start(t, o.spec(t)))
	}
	return all
}

func (o NATSOptions) spec(t testing.TB) Spec {
	t.Helper()
	binary, err := builtNATS()
	if err != nil {
		missing(t, fmt.Errorf("nats-server cannot be built: %w", err))
	}
	return Spec{
		Name: "nats-server", Binary: []string{binary}, ExtraPorts: 1,
		URL:     func(p Place) string { return "nats://" + p.Addr() },
		Prepare: o.prepare,
		Args:    func(p Place) []string { return []string{"-c", p.Path("nats.conf")} },
		Ready:   natsReady,
	}
}

var builtNATS = sync.OnceValues(func() (string, error) { return built("nats") })

func (o NATSOptions) prepare(_ context.Context, p Place) error {
	text := fmt.Sprintf("listen: %q\nhttp: \"127.0.0.1:%d\"\njetstream { store_dir: %q }\n", p.Addr(), p.Extra[0], p.Path("jetstream")) + o.Config
	if o.TLS != nil {
		for name, pem := range map[string][]byte{"cert.pem": o.TLS.Cert, "key.pem": o.TLS.Key} {
			if err := p.Write(name, pem); err != nil {
				return err
			}
		}
		text += fmt.Sprintf("tls { cert_file: %q, key_file: %q }\n", p.Path("cert.pem"), p.Path("key.pem"))
	}
	return p.Write("nats.conf", []byte(text))
}

// natsReady returns nil if the server answers clients and has read what JetStream keeps.
func natsReady(ctx context.Context, p Place) error {
	status, text, err := health(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz?js-enabled-only=true", p.Extra[0]), nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("it says %s", text)
	}
	return err
}
