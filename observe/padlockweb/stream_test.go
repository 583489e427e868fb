package padlockweb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A stream shows a lock when it is taken and no longer when it is released. It ends with the
// Handler.
func TestStream(t *testing.T) {
	s := newSite(t, padlockweb.ReadWithoutToken())
	status, next := s.events("view=table")
	if event, data := next(); status != http.StatusOK || event != "locks" || !strings.Contains(data, "Nothing is held.") {
		t.Fatalf("the stream begins with %d, %s: %s", status, event, data)
	}
	k := s.lock("nightly")[0]
	if event, data := next(); event != "locks" || !strings.Contains(data, "job of nightly") {
		t.Errorf("after the acquire: %s: %s", event, data)
	}
	if err := k.Release(); err != nil {
		t.Fatal(err)
	}
	s.sample()
	if event, data := next(); event != "locks" || strings.Contains(data, "job of nightly") {
		t.Errorf("after the release: %s: %s", event, data)
	}
	s.web.Close()
	if event, _ := next(); event != "bye" {
		t.Errorf("after Close: %s", event)
	}
	if event, _ := next(); event != "end" {
		t.Errorf("after the end: %s", event)
	}
	if status, _ := s.events(""); status != http.StatusServiceUnavailable {
		t.Errorf("a stream of a closed Handler: %d", status)
	}
}

// The number of streams is limited, and one client cannot use them all.
func TestManyStreams(t *testing.T) {
	s := newSite(t, padlockweb.MaxStreams(8), padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken())
	opened := map[string]int{}
	for _, token := range []string{"", reader, breaker, shopOnly, shopBreak} {
		for range 5 {
			if status, _ := s.events("", with(token)); status == http.StatusOK {
				opened[token]++
			} else if status != http.StatusServiceUnavailable {
				t.Errorf("a stream: %d", status)
			}
		}
	}
	if opened[""] != 2 || opened[reader] != 2 || opened[breaker] != 2 || opened[shopOnly] != 2 || opened[shopBreak] != 0 {
		t.Errorf("each client opened %v, want 2 each and 8 in all", opened)
	}
	if a := s.get(""); a.StatusCode != http.StatusOK {
		t.Errorf("the page: %d", a.StatusCode)
	}
	if n := padlockweb.OpenStreams(s.web); n != 8 {
		t.Errorf("%d streams are open", n)
	}
}

// A visitor whose visit ends sees no later event.
func TestStreamEndsWithTheVisit(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)))
	cookie := s.ask(http.MethodPost, "login", form("token", reader)).Cookies()[0]
	visit := func(r *http.Request) { r.AddCookie(cookie) }
	_, next := s.events("", visit)
	next()
	s.ask(http.MethodPost, "logout", "", visit)
	s.lock("later")
	if event, data := next(); event != "bye" {
		t.Errorf("after the logout: %s: %s", event, data)
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

func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}

// A reader that does not read loses its stream, and one that reads keeps it, whatever
// http.Server.ReadTimeout and WriteTimeout say.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		w := padlockweb.Handler(l, padlockweb.ReadWithoutToken())
		at := make(pipes)
		server := &http.Server{Handler: w, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(at) // it ends with Close
		}()
		slow, quick := at.dial(), at.dial()
		for _, c := range []net.Conn{slow, quick} {
			fmt.Fprint(c, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, quick)
			ended <- err
		}()
		synctest.Wait()
		if n := padlockweb.OpenStreams(w); n != 2 {
			t.Errorf("%d streams are open, want 2", n)
		}
		<-time.After(11 * time.Second)
		synctest.Wait()
		if n := padlockweb.OpenStreams(w); n != 1 {
			t.Errorf("%d streams are open, want that of the quick reader", n)
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if n := padlockweb.OpenStreams(w); n != 1 {
			t.Errorf("after five minutes %d streams are open", n)
		}
		w.Close()
		synctest.Wait()
		if n := padlockweb.OpenStreams(w); n != 0 {
			t.Errorf("after Close %d streams are open", n)
		}
		slow.Close()
		quick.Close()
		<-ended
		close(at)
		server.Close()
		<-done
	})
}

// hanging is a store that does not answer while hang is true.
type hanging struct {
	*memstore.Store
	hang *atomic.Bool
}

func (s hanging) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if s.hang.Load() {
		<-ctx.Done()
		return nil, driver.ErrUnavailable
	}
	return s.Store.List(ctx, prefix)
}

// openReply is a reply that can be read while it is written.
type openReply struct {
	logText
	header http.Header
}

func (r *openReply) Header() http.Header { return r.header }
func (r *openReply) WriteHeader(int)     {}
func (r *openReply) Flush()              {}

func (r *openReply) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// A page hears within seconds that the store hangs, although the sampler still waits for it. It
// hears from the server at least every few seconds, whatever the store does.
func TestStreamOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := new(atomic.Bool)
		l := padlock.New(hanging{memstore.New(), hang})
		defer l.Close(context.WithoutCancel(t.Context()))
		w := padlockweb.Handler(l, padlockweb.ReadWithoutToken())
		reply := &openReply{header: http.Header{}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.ServeHTTP(reply, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/events", nil))
		}()
		since := func(d time.Duration) string {
			before := len(reply.text())
			<-time.After(d)
			synctest.Wait()
			return reply.text()[before:]
		}
		if text := since(3 * time.Second); !strings.Contains(text, "Nothing is held.") {
			t.Errorf("the stream begins with %s", text)
		}
		hang.Store(true)
		if text := since(7 * time.Second); !regexp.MustCompile(`event: beat\ndata: [4-7]\n`).MatchString(text) {
			t.Errorf("after the store hung, the stream has %s", text)
		}
		if text := since(20 * time.Second); !strings.Contains(text, "The store cannot be read") {
			t.Errorf("after the sampler gave up, the stream has %s", text)
		}
		hang.Store(false)
		since(11 * time.Second)
		if text := since(5 * time.Second); strings.Contains(text, "data: 1") || strings.Contains(text, "cannot be read") {
			t.Errorf("when the store answers again, the stream has %s", text)
		}
		w.Close()
		<-done
	})
}

// Requests that break off, or that are no HTTP, break nothing and leave nothing behind.
func TestTruncatedRequests(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken(), padlockweb.AllowBreak())
	k := s.lock("a")[0]
	body := form("n", "a", "fence", fmt.Sprint(k.Fence()), "reason", "x")
	head := "POST /break HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + breaker + "\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	for _, text := range []string{
		"", "\x16\x03\x01", "POST /bre", head,
		head + "Content-Length: 500\r\n\r\n" + body,
		head + "Transfer-Encoding: chunked\r\n\r\n10\r\n" + body[:10],
		head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + body,
		head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + body,
		strings.Replace(head, "HTTP/1.1\r\n", "HTTP/1.1\r\nX: "+strings.Repeat("x", 2<<20)+"\r\n", 1),
	} {
		c, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(s.url, "http://"), "/"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, text) // the server may hang up
		_ = c.(*net.TCPConn).CloseWrite()
		reply, _ := io.ReadAll(c)
		c.Close()
		if strings.Contains(string(reply), "HTTP/1.1 200") {
			t.Errorf("%.90q: %.200s", text, reply)
		}
	}
	if err := k.Context().Err(); err != nil || s.fence("a") != k.Fence() {
		t.Error("a request that broke off has broken the lock")
	}
	if a := s.get(""); a.StatusCode != http.StatusOK {
		t.Errorf("afterwards the page is %d", a.StatusCode)
	}
}

// BenchmarkStreams opens streams on a table of 50 names and shows how much memory each takes, its
// connection and goroutines included.
func BenchmarkStreams(b *testing.B) {
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	for i := range 50 {
		if _, err := l.TryAcquire(b.Context(), fmt.Sprint("name-", i)); err != nil {
			b.Fatal(err)
		}
	}
	const n = 200
	w := padlockweb.Handler(l, padlockweb.MaxStreams(4*n), padlockweb.ReadWithoutToken())
	server := httptest.NewServer(w)
	defer server.Close()
	defer w.Close()
	for b.Loop() {
		before := memory()
		var all []net.Conn
		for range n {
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprint(c, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
			all = append(all, c)
		}
		buffer := make([]byte, 64<<10)
		for _, c := range all { // the first event of each
			for text := ""; !strings.Contains(text, "</footer>"); {
				n, err := c.Read(buffer)
				if err != nil {
					b.Fatal(err)
				}
				text += string(buffer[:n])
			}
		}
		b.ReportMetric(float64(memory()-before)/n, "B/stream")
		for _, c := range all {
			if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				b.Fatal(err)
			}
		}
	}
}

// memory returns the bytes of the heap and of the stacks that are in use.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkSlowConnections opens connections whose requests never become whole, and shows how much
// memory each takes until the server's time-out ends it.
func BenchmarkSlowConnections(b *testing.B) {
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	const n = 200
	w := padlockweb.Handler(l, padlockweb.ReadWithoutToken())
	server := httptest.NewServer(w)
	defer server.Close()
	defer w.Close()
	for b.Loop() {
		before, goroutines := memory(), runtime.NumGoroutine()
		var all []net.Conn
		for range n {
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprint(c, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
			all = append(all, c)
		}
		for runtime.NumGoroutine() < goroutines+n { // one goroutine for each connection
			runtime.Gosched()
		}
		b.ReportMetric(float64(memory()-before)/n, "B/connection")
		for _, c := range all {
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
