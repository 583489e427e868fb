package serve

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/internal/remote"
	"github.com/padlock-go/padlock/observe/padlockapi"
)

// apiHandler makes the handler for the requests of programs. Without a token file, programs that
// may read without a token may also take locks.
func apiHandler(store padlock.Store, log *slog.Logger, set *Flags, acc *access) *padlockapi.API {
	opts := []padlockapi.Option{
		padlockapi.Logger(log), padlockapi.Hosts(set.hostNames(acc.pairs)...), padlockapi.MaxWaits(maxConnections / 2),
	}
	if acc.tokens != nil {
		opts = append(opts, padlockapi.Accept(acc.tokens))
	} else if acc.open {
		opts = append(opts, padlockapi.WithoutToken())
	}
	if set.allowBreak {
		opts = append(opts, padlockapi.AllowBreak())
	}
	return padlockapi.Handler(store, opts...)
}

// pageAndAPI is the handler of a server with both. It closes both.
type pageAndAPI struct {
	page closingHandler
	api  *padlockapi.API
}

func (h *pageAndAPI) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		h.api.ServeHTTP(rw, r)
		return
	}
	h.page.ServeHTTP(rw, r)
}

func (h *pageAndAPI) Close() error { return errors.Join(h.page.Close(), h.api.Close()) }

// apiAlone makes the handler of a server without the page.
func apiAlone(_ context.Context, s Source, log *slog.Logger, set *Flags, acc *access) closingHandler {
	api, mux := apiHandler(s.Store, log, set, acc), http.NewServeMux()
	mux.Handle("/v1/", api)
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "ok\n") })
	mux.HandleFunc("GET /readyz", remote.Ready(func(ctx context.Context) error {
		_, err := s.Locker.Inspect(ctx, "readyz")
		return err
	}))
	mux.HandleFunc("/", func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, "this server has locks for programs, below /v1/; the page and /metrics need padlock-all", http.StatusNotFound)
	})
	return struct {
		http.Handler
		io.Closer
	}{mux, api}
}

// judgeClients reads the flags about clients.
func (set *Flags) judgeClients(acc *access) error {
	for _, text := range set.proxies {
		network, err := netip.ParsePrefix(text)
		if address, wrong := netip.ParseAddr(text); wrong == nil {
			network, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			return wrongFlags("--trusted-proxy %s: give an IP address, or a network of proxies such as 10.0.0.0/28", texts.Show(text))
		}
		acc.proxies = append(acc.proxies, network)
	}
	if set.clientCA == "" {
		return nil
	}
	if acc.pairs == nil {
		return wrongFlags("--client-ca needs --tls-cert and --tls-key: a client shows its certificate only under TLS")
	}
	text, err := readPEM(set.clientCA)
	if err != nil {
		return wrongFlags("--client-ca: %v", err)
	}
	if acc.ca = x509.NewCertPool(); !acc.ca.AppendCertsFromPEM(text) {
		return wrongFlags("--client-ca %s: there is no certificate (PEM) in it", texts.Show(set.clientCA))
	}
	return nil
}

// guard gives the handler the addresses of clients behind a trusted proxy, and refuses clients
// without a certificate if one is needed. Health checks need none.
func (acc *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		healthy := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		if acc.ca != nil && !healthy && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			http.Error(rw, "a certificate of the client is needed; see --client-ca of padlock serve", http.StatusForbidden)
			return
		}
		next.ServeHTTP(rw, acc.proxies.client(r))
	})
}

// proxies are the networks of the proxies that are believed.
type proxies []netip.Prefix

func (p proxies) trust(at netip.Addr) bool {
	for _, network := range p {
		if network.Contains(at.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// client returns the request with the address of the client. Each proxy adds the address from which
// it got the request to the end of X-Forwarded-For. So the last address that is not one of a
// trusted proxy is that of the client, and a client can put nothing after it.
func (p proxies) client(r *http.Request) *http.Request {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.trust(at.Addr()) {
		return r
	}
	from := at.Addr()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trust(from); i-- {
		hop := strings.TrimSpace(hops[i])
		if host, _, err := net.SplitHostPort(hop); err == nil {
			hop = host // some proxies add the port of the client
		}
		client, err := netip.ParseAddr(strings.Trim(hop, "[]"))
		if err != nil {
			break
		}
		from = client
	}
	behind := *r
	behind.RemoteAddr = net.JoinHostPort(from.String(), "0")
	return &behind
}
