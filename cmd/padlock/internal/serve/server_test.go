package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// Each address needs the protection that the table of Flags.judge names.
func TestServeNeeds(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	reads, breaks := file("reads", "a 0123456789abcdefghij read\n"), file("breaks", "a 0123456789abcdefghij break\n")
	cert, key := certificate(t, dir, "locks.example.org")
	for _, c := range []struct {
		what  string
		local bool
		set   Flags
		open  bool
		want  string // "" if it may start
	}{
		{"this machine", true, Flags{}, true, ""},
		{"this machine, tokens", true, Flags{tokens: reads}, true, ""},
		{"this machine, break", true, Flags{tokens: breaks, allowBreak: true}, true, ""},
		{"this machine, break without tokens", true, Flags{allowBreak: true}, false, "needs --token-file"},
		{"this machine, break, tokens that only read so far", true, Flags{tokens: reads, allowBreak: true}, true, ""},
		{"proxy", true, Flags{hosts: []string{"x"}}, false, "--allowed-host"},
		{"proxy, tokens", true, Flags{hosts: []string{"x"}, tokens: reads}, false, ""},
		{"proxy, a URL", true, Flags{hosts: []string{"https://x"}, insecure: true}, false, "without scheme"},
		{"proxy, a port", true, Flags{hosts: []string{"x:8443"}, insecure: true}, false, "without scheme"},
		{"proxy, insecure", true, Flags{hosts: []string{"x"}, insecure: true}, true, ""},
		{"network", false, Flags{}, false, "other machines"},
		{"network, tokens", false, Flags{tokens: reads}, false, "other machines"},
		{"network, TLS", false, Flags{cert: cert, key: key}, false, "other machines"},
		{"network, TLS and tokens", false, Flags{cert: cert, key: key, tokens: reads}, false, ""},
		{"network, insecure", false, Flags{insecure: true}, true, ""},
		{"network, insecure, tokens", false, Flags{insecure: true, tokens: reads}, false, ""},
		{"network, insecure, break", false, Flags{insecure: true, allowBreak: true}, false, "needs --token-file"},
		{"half of the TLS files", true, Flags{cert: cert}, false, "both are needed"},
		{"a CA without TLS", true, Flags{clientCA: cert}, false, "--client-ca needs"},
		{"a CA", true, Flags{cert: cert, key: key, clientCA: cert}, true, ""},
		{"a CA that is a key", true, Flags{cert: cert, key: key, clientCA: key}, false, "there is no certificate"},
		{"no CA", true, Flags{cert: cert, key: key, clientCA: filepath.Join(dir, "none")}, false, "--client-ca"},
		{"a proxy that is no address", true, Flags{proxies: []string{"proxy"}}, false, "--trusted-proxy"},
		{"a proxy", true, Flags{proxies: []string{"10.0.0.7", "2001:db8::/32"}}, true, ""},
		{"a wrong key", true, Flags{cert: cert, key: reads}, false, "--tls-key"},
		{"no such tokens", true, Flags{tokens: filepath.Join(dir, "none")}, false, "cannot be read"},
		{"bad tokens", true, Flags{tokens: file("bad", "x")}, false, "line 1"},
	} {
		acc, err := c.set.judge(c.local)
		var wrong *Error
		switch {
		case c.want == "" && (err != nil || acc.open != c.open):
			t.Errorf("%s: %v, reading without a token: %v", c.what, err, acc.open)
		case c.want != "" && (!errors.As(err, &wrong) || !wrong.Usage || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

// The address that serve prints can be opened, even if serve listens on all addresses.
func TestServeAnnouncesAnAddressToOpen(t *testing.T) {
	cert, key := certificate(t, t.TempDir(), "locks.example.org")
	pairs, err := openKeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	every, one := &net.TCPAddr{IP: net.IPv6unspecified, Port: 7925}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7925}
	for _, c := range []struct {
		at    *net.TCPAddr
		hosts []string
		pairs *keyPair
		want  string
	}{
		{one, nil, nil, "http://127.0.0.1:7925/"},
		{one, []string{"a.example.org"}, pairs, "https://127.0.0.1:7925/"},
		{every, nil, nil, "http://" + host + ":7925/"},
		{&net.TCPAddr{IP: net.IPv4zero, Port: 7925}, nil, nil, "http://" + host + ":7925/"},
		{every, nil, pairs, "https://locks.example.org:7925/"},
		{every, []string{"a.example.org"}, pairs, "https://a.example.org:7925/"},
	} {
		if got := (&Flags{hosts: c.hosts}).url(c.at, c.pairs); got != c.want {
			t.Errorf("%v, %v: %s, want %s", c.at, c.hosts, got, c.want)
		}
	}
}

// A TLS key that every user can read is reported in the log.
func TestServeReportsAnOpenKey(t *testing.T) {
	cert, key := certificate(t, t.TempDir(), "locks.example.org")
	pairs, err := openKeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(inMemory(t))
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: runtime.GOOS != "windows"} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		web, _ := Source{Locker: l, Log: &log}.webServer(ctx, &Flags{maxNames: 1}, &access{open: true, pairs: pairs}, page)
		cancel()
		web.Close()
		if got := strings.Contains(log.String(), `"msg":"every user of this machine can read the TLS key; chmod 600 the file"`); got != want {
			t.Errorf("mode %o: %q", mode, log.String())
		}
	}
}

// pipes is a listener without a network, for synctest.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// Clients that send a request slowly, or nothing, lose their connection; requests of others are
// answered meanwhile.
func TestServeSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := open.Store(t.Context(), "memory:")
		if err != nil {
			t.Fatal(err)
		}
		l := padlock.New(store)
		defer l.Close(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		_, server := Source{Locker: l, Log: io.Discard}.webServer(ctx, &Flags{}, &access{open: true}, page)
		at := make(pipes)
		served := make(chan error, 1)
		go func() { served <- finish(ctx, server, limitedTo(at, 4)) }()
		dial := func(text string) net.Conn {
			client, remote := net.Pipe()
			at <- remote
			if text != "" {
				io.WriteString(client, text)
			}
			return client
		}
		began := time.Now()
		ended := make(chan time.Duration, 3)
		for _, text := range []string{
			"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
			"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\ntok",
			"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", // and no second request
		} {
			c := dial(text)
			go func() {
				_, _ = io.Copy(io.Discard, c)
				ended <- time.Since(began)
			}()
		}
		quick := dial("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		reply, err := http.ReadResponse(bufio.NewReader(quick), nil)
		if err != nil || reply.StatusCode != http.StatusOK {
			t.Errorf("the quick client: %v, %v", reply, err)
		}
		for i, most := range []time.Duration{6 * time.Second, 11 * time.Second, 61 * time.Second} {
			if after := <-ended; after > most {
				t.Errorf("slow client %d has kept its connection for %v of the server's time, at most %v", i, after, most)
			}
		}
		cancel()
		synctest.Wait()
		close(at) // a real listener is closed by Shutdown
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// Connections above the limit wait until another one ends, if requests are under way on all of
// them.
func TestServeConnections(t *testing.T) {
	inner := make(pipes, 4)
	at := limitedTo(inner, 2)
	accepted := make(chan net.Conn, 4)
	go func() {
		for {
			c, err := at.Accept()
			if err != nil {
				close(accepted)
				return
			}
			at.note(c, http.StateActive)
			accepted <- c
		}
	}()
	for range 3 {
		_, remote := net.Pipe()
		inner <- remote
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Error("a third connection was accepted")
	default:
	}
	first.Close()
	first.Close() // gives its place back only once
	third := <-accepted
	_, remote := net.Pipe()
	inner <- remote
	at.note(second, http.StateIdle) // makes room, too
	fourth := <-accepted
	third.Close()
	fourth.Close()
	at.Close()
	close(inner)
	if _, ok := <-accepted; ok {
		t.Error("a closed listener accepts")
	}
}
