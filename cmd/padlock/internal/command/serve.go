package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
)

const serveLong = `serve shows the locks of the store on a web page: which are held and by whom, which are
stuck, and what many wait for. The page changes by itself. serve also has /metrics for
Prometheus, /api/locks (JSON), /healthz and /readyz.

serve listens on 127.0.0.1:7925, where every program of this machine may read it without
a token. Any other address needs --tls-cert, --tls-key and --token-file, or --insecure. A
socket of systemd (LISTEN_FDS) takes the place of --listen. Only padlock-all can serve;
padlock runs it, if it is next to padlock or in PATH.

The page is read-only. With --allow-break and a token that has the right "break", locks
can be broken on it, with a reason for the audit log. The log goes to standard error,
one JSON object per line.

A token file has a line for each token: NAME SECRET RIGHTS [PREFIX]. SECRET is the token,
or sha256: and its hash; RIGHTS is read, break or acquire, or several with commas; with
PREFIX the token is good only for names that begin with it. Changes of the file take
effect without a restart.

With --api, programs in every language take and release locks by POST requests with JSON
to /v1/acquire and others; /v1/openapi.json describes them. With a token file, each
request needs a token with the right acquire, or read to look. serve never renews a lock:
the client does.

Exit status:
  0    a signal ended it
  64   the command line, the token file, the certificate or the store's URL is wrong
  69   the store cannot be used, or the address cannot be listened on
  74   the output could not be written`

// serving holds the flags of serve.
type serving struct {
	listen            string
	chosen            bool // --listen was given
	cert, key, tokens string
	clientCA          string
	insecure          bool
	hosts, watch      []string
	proxies           []string
	allowBreak, api   bool
	maxNames          int
}

const defaultListen = "127.0.0.1:7925"

func (a *app) serveCommand() *cobra.Command {
	set := &serving{}
	c := &cobra.Command{
		Use:   "serve [FLAGS]",
		Short: "Show the locks on a web page",
		Long:  serveLong,
		Example: `  padlock serve
  padlock serve --api
  padlock serve --token-file /etc/padlock/tokens --allow-break
  padlock serve --listen :7925 --tls-cert cert.pem --tls-key key.pem --token-file tokens`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set.chosen = c.Flags().Changed("listen")
			if err := watchable(set.watch); err != nil {
				return err
			}
			if set.maxNames < 1 {
				return usage("--max-names %d: give a number from 1", set.maxNames)
			}
			return a.runServe(a, c.Context(), set)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&set.listen, "listen", defaultListen, "listen on `HOST:PORT`")
	c.Flags().StringVar(&set.cert, "tls-cert", "", "the certificate (PEM), in `FILE`")
	c.Flags().StringVar(&set.key, "tls-key", "", "its key (PEM), in `FILE`")
	c.Flags().StringVar(&set.clientCA, "client-ca", "", "clients need a certificate that a CA in `FILE` (PEM) has signed")
	c.Flags().StringVar(&set.tokens, "token-file", "", "the tokens that visitors need, in `FILE`")
	c.Flags().BoolVar(&set.api, "api", false, "also take locks for programs, by HTTP requests to /v1/")
	c.Flags().BoolVar(&set.allowBreak, "allow-break", false, "let tokens with the right \"break\" break locks")
	c.Flags().StringArrayVar(&set.hosts, "allowed-host", nil, "browsers reach the page as `NAME`, for example through a proxy")
	c.Flags().StringArrayVar(&set.proxies, "trusted-proxy", nil, "believe X-Forwarded-For of the proxy at `ADDRESS`, or of a network of proxies: a client in it can choose its address")
	c.Flags().StringArrayVar(&set.watch, "watch", nil, "also show `NAME` while it is free, or if the store cannot list names")
	c.Flags().IntVar(&set.maxNames, "max-names", sampler.DefaultMaxNames, "remember the past holds of at most `N` names that are free")
	c.Flags().BoolVar(&set.insecure, "insecure", false, "allow other addresses without TLS or tokens")
	return c
}

// access says what visitors may do. It depends on the flags and on the address.
type access struct {
	tokens  *padlockweb.Tokens
	pairs   *keyPair       // nil: no TLS
	ca      *x509.CertPool // nil: clients need no certificate
	proxies proxies
	open    bool // reading needs no token
}

// judge decides what an address needs:
//
//	address                        needs                      reading needs a token
//	this machine only              nothing                    no
//	the same, with --allowed-host  --token-file               yes
//	any other                      TLS and --token-file       yes
//	--insecure                     nothing                    with --token-file
//	--allow-break, anywhere        --token-file
func (set *serving) judge(local bool) (access, error) {
	var acc access
	var err error
	for _, host := range set.hosts {
		if strings.ContainsAny(host, "/: ") || host == "" {
			return acc, usage("--allowed-host %s: give the name alone, such as locks.example.org, without scheme and port", show(host))
		}
	}
	if set.tokens != "" {
		if acc.tokens, err = padlockweb.OpenTokens(set.tokens); err != nil {
			return acc, usage("%s", visible(err.Error()))
		}
	}
	if set.cert != "" || set.key != "" {
		if acc.pairs, err = openKeyPair(set.cert, set.key); err != nil {
			return acc, usage("--tls-cert and --tls-key: %v", err)
		}
	}
	if err := set.judgeClients(&acc); err != nil {
		return acc, err
	}
	private := local && len(set.hosts) == 0
	acc.open = private || set.insecure && acc.tokens == nil
	switch {
	case set.allowBreak && acc.tokens == nil:
		return acc, usage("--allow-break needs --token-file: only a token with the right break may break locks")
	case private || set.insecure:
		return acc, nil
	case local && acc.tokens == nil:
		return acc, usage("--allowed-host makes the page reachable from elsewhere, so --token-file is needed; --insecure goes without")
	case !local && (acc.tokens == nil || acc.pairs == nil):
		return acc, usage("other machines can reach this address, so --tls-cert, --tls-key and --token-file are needed; --insecure goes without")
	}
	return acc, nil
}

func (a *app) serve(ctx context.Context, set *serving) error {
	at, err := set.listener()
	if err != nil {
		return err
	}
	defer at.Close()
	acc, err := set.judge(padlockweb.Loopback(at.Addr()))
	if err != nil {
		return err
	}
	l, err := a.locker(ctx, "")
	if err != nil {
		return err
	}
	defer a.close(l)
	ctx, stop := interruptible(ctx)
	defer stop()
	web, server := a.webServer(ctx, l, set, &acc)
	defer web.Close()
	limited := limitedTo(at, maxConnections)
	limited.shared = acc.proxies.trust
	server.ConnState = limited.note
	at = limited
	if acc.pairs != nil {
		at = tls.NewListener(at, server.TLSConfig)
	}
	if err := a.announce(at.Addr(), set, &acc); err != nil {
		return err
	}
	return finish(ctx, server, at)
}

// webServer makes the server and its handler.
func (a *app) webServer(ctx context.Context, l *padlock.Locker, set *serving, acc *access) (io.Closer, *http.Server) {
	log := slog.New(slog.NewJSONHandler(a.stderr, nil))
	watched := []sampler.Option{sampler.Watch(set.watch...), sampler.MaxNames(set.maxNames)}
	var api *padlockapi.API
	if set.api {
		api = a.apiHandler(log, set, acc)
		watched = append(watched, sampler.LocalWaiters(api.Waiting))
	}
	watcher := sampler.New(l, watched...)
	go watcher.Run(ctx)
	if acc.pairs != nil && acc.pairs.exposed() {
		log.Warn("every user of this machine can read the TLS key; chmod 600 the file", "file", acc.pairs.key)
	}
	opts := []padlockweb.Option{
		padlockweb.Sampler(watcher), padlockweb.Logger(log), padlockweb.Place(a.storeName()), padlockweb.Hosts(set.hostNames(acc.pairs)...),
		padlockweb.History(a.history(a.opened)),
	}
	if acc.tokens != nil {
		opts = append(opts, padlockweb.Accept(acc.tokens))
	}
	if acc.open {
		opts = append(opts, padlockweb.ReadWithoutToken())
	}
	if set.allowBreak {
		opts = append(opts, padlockweb.AllowBreak())
	}
	web := padlockweb.Handler(l, opts...)
	handler, closer := http.Handler(web), io.Closer(web)
	if set.api {
		both := &pageAndAPI{web, api}
		handler, closer = both, both
	}
	server := &http.Server{
		Handler: acc.guard(handler), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // any client can cause these lines
	}
	if acc.pairs != nil {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: acc.pairs.getCertificate, NextProtos: []string{"h2", "http/1.1"}}
		if acc.ca != nil {
			server.TLSConfig.ClientCAs, server.TLSConfig.ClientAuth = acc.ca, tls.VerifyClientCertIfGiven // guard refuses the others
		}
	}
	server.RegisterOnShutdown(func() { closer.Close() }) // ends the streams and the waits
	return closer, server
}

// served is what serve prints in JSON when it listens.
type served struct {
	URL   string `json:"url"`
	Store string `json:"store"`
}

// announce prints the address of the page.
func (a *app) announce(at net.Addr, set *serving, acc *access) error {
	scheme := "http"
	if acc.pairs != nil {
		scheme = "https"
	}
	out := served{scheme + "://" + set.reachable(at, acc.pairs) + "/", a.storeName()}
	if at.Network() == "unix" {
		out.URL = "unix:" + at.String()
	}
	if a.json {
		return a.print(a.stdout, out)
	}
	_, err := fmt.Fprintf(a.stdout, "the locks of %s are at %s\n", a.place(), out.URL)
	return err
}

// reachable returns the address as a browser can open it. If the server listens on all addresses of
// the machine, that is one of its names.
func (set *serving) reachable(at net.Addr, pairs *keyPair) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	names := slices.Clone(set.hosts)
	if pairs != nil {
		names = append(names, pairs.certificateNames()...)
	}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return net.JoinHostPort(append(names, "localhost")[0], strconv.Itoa(tcp.Port))
}

// shutdownPatience is how long requests that are under way may take after a signal.
const shutdownPatience = 5 * time.Second

// finish serves until ctx ends, and then lets the requests that are under way finish.
func finish(ctx context.Context, server *http.Server, at net.Listener) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
		defer cancel()
		err := server.Shutdown(ctx)
		if err != nil { // a client that does not read
			err = server.Close()
		}
		stopped <- err
	})
	err := server.Serve(at)
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fail(exitUnavailable, "unavailable", "", "serve ended: %s", strings.TrimSpace(err.Error()))
	}
	<-stopped // Serve returns when Shutdown begins
	return nil
}
