package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
)

// Server is a server that listens and knows what visitors may do.
type Server struct {
	set *Flags
	at  net.Listener
	acc access
}

// Listen checks the flags and listens.
func Listen(set *Flags) (*Server, error) {
	if set.maxNames < 1 {
		return nil, wrongFlags("--max-names %d: give a number from 1", set.maxNames)
	}
	at, err := set.listener()
	if err != nil {
		return nil, err
	}
	acc, err := set.judge(padlockweb.Loopback(at.Addr()))
	if err != nil {
		at.Close()
		return nil, err
	}
	return &Server{set, at, acc}, nil
}

// Close stops to listen.
func (s *Server) Close() error { return s.at.Close() }

// Source is the store whose locks a server shows.
type Source struct {
	Locker   *padlock.Locker
	Store    padlock.Store // of the Locker
	Place    string        // the name of the store, without secrets
	History  *history.Log
	Log      io.Writer
	Announce func(url string) error // is called when the server listens
}

// Run serves the page, and the API if the flags ask for it, until ctx ends.
func (s *Server) Run(ctx context.Context, store Source) error { return s.run(ctx, store, page) }

// RunAPI serves the API without the page. A program that calls only RunAPI has no templates.
func (s *Server) RunAPI(ctx context.Context, store Source) error { return s.run(ctx, store, apiAlone) }

func (s *Server) run(ctx context.Context, store Source, what handlerOf) error {
	web, server := store.webServer(ctx, s.set, &s.acc, what)
	defer web.Close()
	limited := limitedTo(s.at, maxConnections)
	limited.shared = s.acc.proxies.trust
	server.ConnState = limited.note
	at := net.Listener(limited)
	if s.acc.pairs != nil {
		at = tls.NewListener(at, server.TLSConfig)
	}
	if err := store.Announce(s.set.url(at.Addr(), s.acc.pairs)); err != nil {
		return err
	}
	return finish(ctx, server, at)
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
func (set *Flags) judge(local bool) (access, error) {
	var acc access
	var err error
	for _, host := range set.hosts {
		if strings.ContainsAny(host, "/: ") || host == "" {
			return acc, wrongFlags("--allowed-host %s: give the name alone, such as locks.example.org, without scheme and port", texts.Show(host))
		}
	}
	if set.tokens != "" {
		if acc.tokens, err = padlockweb.OpenTokens(set.tokens); err != nil {
			return acc, wrongFlags("%s", texts.Visible(err.Error()))
		}
	}
	if set.cert != "" || set.key != "" {
		if acc.pairs, err = openKeyPair(set.cert, set.key); err != nil {
			return acc, wrongFlags("--tls-cert and --tls-key: %v", err)
		}
	}
	if err := set.judgeClients(&acc); err != nil {
		return acc, err
	}
	private := local && len(set.hosts) == 0
	acc.open = private || set.insecure && acc.tokens == nil
	switch {
	case set.allowBreak && acc.tokens == nil:
		return acc, wrongFlags("--allow-break needs --token-file: only a token with the right break may break locks")
	case private || set.insecure:
		return acc, nil
	case local && acc.tokens == nil:
		return acc, wrongFlags("--allowed-host makes the page reachable from elsewhere, so --token-file is needed; --insecure goes without")
	case !local && (acc.tokens == nil || acc.pairs == nil):
		return acc, wrongFlags("other machines can reach this address, so --tls-cert, --tls-key and --token-file are needed; --insecure goes without")
	}
	return acc, nil
}

// webServer makes the server and its handler.
func (s Source) webServer(ctx context.Context, set *Flags, acc *access, what handlerOf) (io.Closer, *http.Server) {
	log := slog.New(slog.NewJSONHandler(s.Log, nil))
	if acc.pairs != nil && acc.pairs.exposed() {
		log.Warn("every user of this machine can read the TLS key; chmod 600 the file", "file", acc.pairs.key)
	}
	handler := what(ctx, s, log, set, acc)
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
	server.RegisterOnShutdown(func() { handler.Close() }) // ends the streams and the waits
	return handler, server
}

// closingHandler is a handler that ends what it has begun.
type closingHandler interface {
	http.Handler
	io.Closer
}

// handlerOf makes the handler of a server.
type handlerOf func(ctx context.Context, s Source, log *slog.Logger, set *Flags, acc *access) closingHandler

// page makes the handler of the page, and of the API if the flags ask for it.
func page(ctx context.Context, s Source, log *slog.Logger, set *Flags, acc *access) closingHandler {
	watched := []sampler.Option{sampler.Watch(set.Watch...), sampler.MaxNames(set.maxNames)}
	var api *padlockapi.API
	if set.api {
		api = apiHandler(s.Store, log, set, acc)
		watched = append(watched, sampler.LocalWaiters(api.Waiting))
	}
	watcher := sampler.New(s.Locker, watched...)
	go watcher.Run(ctx)
	opts := []padlockweb.Option{
		padlockweb.Sampler(watcher), padlockweb.Logger(log), padlockweb.Place(s.Place), padlockweb.Hosts(set.hostNames(acc.pairs)...),
		padlockweb.History(s.History),
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
	web := padlockweb.Handler(s.Locker, opts...)
	if set.api {
		return &pageAndAPI{web, api}
	}
	return web
}

// url returns the address of the page.
func (set *Flags) url(at net.Addr, pairs *keyPair) string {
	switch {
	case at.Network() == "unix":
		return "unix:" + at.String()
	case pairs != nil:
		return "https://" + set.reachable(at, pairs) + "/"
	}
	return "http://" + set.reachable(at, pairs) + "/"
}

// reachable returns the address as a browser can open it. If the server listens on all addresses of
// the machine, that is one of its names.
func (set *Flags) reachable(at net.Addr, pairs *keyPair) string {
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
		return &Error{Text: "serve ended: " + strings.TrimSpace(err.Error())}
	}
	<-stopped // Serve returns when Shutdown begins
	return nil
}
