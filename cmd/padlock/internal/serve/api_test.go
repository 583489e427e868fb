package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
)

// serveHere runs the server of "padlock serve" with a store in memory and at most n connections,
// and returns its URL.
func serveHere(t *testing.T, set *Flags, acc *access, n int) string {
	t.Helper()
	return serveWith(t, page, set, acc, n)
}

func serveWith(t *testing.T, what handlerOf, set *Flags, acc *access, n int) string {
	t.Helper()
	store := inMemory(t)
	web, server := Source{Locker: padlock.New(store), Store: store, Log: io.Discard}.webServer(t.Context(), set, acc, what)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := limitedTo(at, n)
	limited.shared, server.ConnState = acc.proxies.trust, limited.note
	url, listener := "http://"+at.Addr().String(), net.Listener(limited)
	if acc.pairs != nil {
		url, listener = "https://"+at.Addr().String(), tls.NewListener(limited, server.TLSConfig)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
		web.Close()
	})
	return url
}

// patientClient keeps no connections, and waits longer than any test shall need.
func patientClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

func fetch(t *testing.T, c *http.Client, method, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	reply, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	read, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(read)
}

// Any number of connections that are idle, or that never send a request, do not delay others: the
// connection closes that has been idle for longest.
func TestServeIdleConnections(t *testing.T) {
	const most = 8
	url := serveHere(t, &Flags{api: true, maxNames: 1}, &access{open: true}, most)
	for i := range 10 * most {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Read(make([]byte, 4096)); n == 0 {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	began := time.Now()
	if status, _ := fetch(t, patientClient(nil), http.MethodGet, url+"/healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz is %d", status)
	}
	if took := time.Since(began); took > patience/2 { // an idle connection would end after a minute
		t.Errorf("/healthz took %v", took)
	}
}

// The page counts each client that waits at its server. The store counts them as one.
func TestServeCountsWaits(t *testing.T) {
	url := serveHere(t, &Flags{api: true, maxNames: 1, Watch: []string{"a"}}, &access{open: true}, 16)
	ask := func(token string, waitMS int) (int, string) {
		body := fmt.Sprintf(`{"name":"a","token":"token-%s-0123456789","wait_ms":%d}`, token, waitMS)
		return fetch(t, patientClient(nil), http.MethodPost, url+"/v1/acquire", body)
	}
	if status, text := ask("one", 0); status != http.StatusOK {
		t.Fatalf("acquire: %d %s", status, text)
	}
	var waits sync.WaitGroup
	for _, token := range []string{"two", "three", "four"} {
		waits.Go(func() { ask(token, 20_000) })
	}
	server.Eventually(t, func() error {
		_, text := fetch(t, patientClient(nil), http.MethodGet, url+"/api/locks", "")
		if !strings.Contains(text, `"waiters":3`) {
			return errors.New("the page has not three waiters: " + text)
		}
		return nil
	})
	for _, token := range []string{"one", "two", "three", "four"} {
		fetch(t, patientClient(nil), http.MethodPost, url+"/v1/release", fmt.Sprintf(`{"name":"a","token":"token-%s-0123456789"}`, token))
	}
	waits.Wait()
}

// A request that waits outlives the time limits of the server for requests.
func TestServeLongPoll(t *testing.T) {
	server.Thorough(t)
	url := serveHere(t, &Flags{api: true, maxNames: 1}, &access{open: true}, 8)
	const body = `{"name":"a","token":"token-one-0123456789","ttl_ms":12000}`
	if status, text := fetch(t, patientClient(nil), http.MethodPost, url+"/v1/acquire", body); status != http.StatusOK {
		t.Fatalf("acquire: %d %s", status, text)
	}
	waits := strings.NewReplacer("one", "two", "12000", `30000,"wait_ms":25000`).Replace(body)
	if status, text := fetch(t, patientClient(nil), http.MethodPost, url+"/v1/acquire", waits); status != http.StatusOK {
		t.Errorf("a wait of 12 seconds: %d %s", status, text)
	}
}

// One address has at most half of the connections. The address of a trusted proxy has all.
func TestServeConnectionsOfOneAddress(t *testing.T) {
	busy := func(l *limitedListener, address string) bool {
		c := &limitedConn{from: netip.MustParseAddr(address)} // a request is under way
		added, _ := l.add(c)
		return added
	}
	l := limitedTo(nil, 4)
	l.shared = proxies{netip.MustParsePrefix("10.0.0.0/8")}.trust
	got := []bool{busy(l, "192.0.2.1"), busy(l, "192.0.2.1"), busy(l, "192.0.2.1"), busy(l, "10.1.1.1"), busy(l, "10.1.1.1"), busy(l, "10.1.1.1")}
	for i, want := range []bool{true, true, false, true, true, false} {
		if got[i] != want {
			t.Errorf("connection %d: %v", i, got[i])
		}
	}
}

// A client with IPv6 has a whole network, which counts as one address.
func TestServeConnectionsOfOneNetwork(t *testing.T) {
	l := limitedTo(nil, 4)
	for i, address := range []string{"2001:db8::1", "2001:db8::2%eth0", "2001:db8::3", "2001:db8:0:1::1"} {
		c := &limitedConn{from: netip.MustParseAddr(address)} // a request is under way
		if added, _ := l.add(c); added != (i != 2) {
			t.Errorf("%s: %v", address, added)
		}
	}
}

// X-Forwarded-For counts only if it comes from a trusted proxy, and only up to the first address
// that is not trusted.
func TestTrustedProxy(t *testing.T) {
	p := proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}
	for _, c := range []struct {
		remote string
		header []string
		want   string
	}{
		{"192.0.2.1:5", []string{"1.1.1.1"}, "192.0.2.1:5"},
		{"10.0.0.1:5", nil, "10.0.0.1:0"},
		{"10.0.0.1:5", []string{"1.1.1.1"}, "1.1.1.1:0"},
		{"10.0.0.1:5", []string{"6.6.6.6, 1.1.1.1"}, "1.1.1.1:0"},
		{"10.0.0.1:5", []string{"6.6.6.6", "1.1.1.1, 10.0.0.2"}, "1.1.1.1:0"},
		{"10.0.0.1:5", []string{"6.6.6.6, nonsense, 10.0.0.2"}, "10.0.0.2:0"},
		{"10.0.0.1:5", []string{"10.0.0.3"}, "10.0.0.3:0"},
		{"[::ffff:10.0.0.1]:5", []string{"2001:db8::7"}, "[2001:db8::7]:0"},
		{"[2001:db8::1]:5", []string{"1.1.1.1"}, "1.1.1.1:0"},
		{"10.0.0.1:5", []string{"203.0.113.9:4711"}, "203.0.113.9:0"},
		{"10.0.0.1:5", []string{"6.6.6.6, 203.0.113.9:4711, 10.0.0.2:80"}, "203.0.113.9:0"},
		{"10.0.0.1:5", []string{"[2001:db8::7]:4711"}, "[2001:db8::7]:0"},
		{"10.0.0.1:5", []string{"[2001:db8::7]"}, "[2001:db8::7]:0"},
		{"@", []string{"1.1.1.1"}, "@"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.header}}
		if got := p.client(r).RemoteAddr; got != c.want || r.RemoteAddr != c.remote {
			t.Errorf("%s, %q: %s, want %s", c.remote, c.header, got, c.want)
		}
	}
}

// With --client-ca, requests need a certificate of that CA. Health checks need none.
func TestServeClientCertificates(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "localhost")
	client, clientKey := certificate(t, dir, "client.example")
	stranger, strangerKey := certificate(t, dir, "stranger.example")
	set := &Flags{cert: cert, key: key, clientCA: client, api: true, maxNames: 1}
	acc, err := set.judge(true)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(serveHere(t, set, &acc, 8), "127.0.0.1", "localhost", 1)
	roots := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	load := func(cert, key string) []tls.Certificate {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{pair}
	}
	known := patientClient(&tls.Config{RootCAs: roots, Certificates: load(client, clientKey)})
	unknown := patientClient(&tls.Config{RootCAs: roots})
	for _, c := range []struct {
		who          *http.Client
		method, path string
		want         int
	}{
		{known, http.MethodGet, "/", 200},
		{known, http.MethodPost, "/v1/acquire", 200},
		{unknown, http.MethodGet, "/", 403},
		{unknown, http.MethodPost, "/v1/acquire", 403},
		{unknown, http.MethodGet, "/healthz", 200},
	} {
		if status, text := fetch(t, c.who, c.method, url+c.path, `{"name":"a","token":"token-one-0123456789"}`); status != c.want {
			t.Errorf("%s, a certificate: %v: %d, want %d: %s", c.path, c.who == known, status, c.want, text)
		}
	}
	wrong := patientClient(&tls.Config{RootCAs: roots, Certificates: load(stranger, strangerKey)})
	if reply, err := wrong.Get(url + "/"); err == nil {
		reply.Body.Close()
		t.Errorf("a certificate of another CA: %s", reply.Status)
	}
}

// The API asks for tokens if there is a token file, even where reading the page needs none.
func TestServeAPINeedsTokens(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/tokens"
	if err := os.WriteFile(path, []byte("job 0123456789abcdefghij acquire jobs/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := &Flags{tokens: path, api: true, maxNames: 1}
	acc, err := set.judge(true)
	if err != nil || !acc.open {
		t.Fatal(err)
	}
	url := serveHere(t, set, &acc, 8)
	c := patientClient(nil)
	const body = `{"name":"jobs/1","token":"token-one-0123456789"}`
	if status, _ := fetch(t, c, http.MethodGet, url+"/", ""); status != http.StatusOK {
		t.Errorf("the page: %d", status)
	}
	if status, text := fetch(t, c, http.MethodPost, url+"/v1/acquire", body); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, text)
	}
	c.Transport = withToken{c.Transport}
	if status, text := fetch(t, c, http.MethodPost, url+"/v1/acquire", body); status != http.StatusOK {
		t.Errorf("with a token: %d %s", status, text)
	}
	if status, _ := fetch(t, c, http.MethodPost, url+"/v1/acquire", strings.Replace(body, "jobs", "shop", 1)); status != http.StatusForbidden {
		t.Errorf("another name: %d", status)
	}
}

type withToken struct{ http.RoundTripper }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer 0123456789abcdefghij")
	return w.RoundTripper.RoundTrip(r)
}

// Without --api there is no API.
func TestServeWithoutAPI(t *testing.T) {
	url := serveHere(t, &Flags{maxNames: 1}, &access{open: true}, 8)
	if status, text := fetch(t, patientClient(nil), http.MethodPost, url+"/v1/acquire", "{}"); status != http.StatusNotFound || bytes.Contains([]byte(text), []byte("openapi")) {
		t.Errorf("%d %s", status, text)
	}
}

// A server without the page has the API and the health checks, and says where the page is.
func TestServeAPIAlone(t *testing.T) {
	t.Parallel()
	url := serveWith(t, apiAlone, &Flags{api: true, maxNames: 1}, &access{open: true}, 8)
	for _, c := range []struct {
		method, path, says string
		want               int
	}{
		{http.MethodPost, "/v1/acquire", `"fence"`, http.StatusOK},
		{http.MethodGet, "/healthz", "ok", http.StatusOK},
		{http.MethodGet, "/readyz", "ok", http.StatusOK},
		{http.MethodGet, "/", "need padlock-all", http.StatusNotFound},
		{http.MethodGet, "/metrics", "need padlock-all", http.StatusNotFound},
	} {
		status, text := fetch(t, patientClient(nil), c.method, url+c.path, `{"name":"a","token":"token-one-0123456789"}`)
		if status != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s; want %d, %s", c.path, status, text, c.want, c.says)
		}
	}
}
