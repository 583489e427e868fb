package fence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memstore"
)

// sendRequest has h answer one request with the given fence headers.
func sendRequest(h http.Handler, method, path string, fences ...string) *http.Response {
	req := httptest.NewRequest(method, path, nil)
	for _, f := range fences {
		req.Header.Add("padlock-fence", f)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	resp := w.Result()
	resp.Request = req
	return resp
}

var served = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })

func TestMiddleware(t *testing.T) {
	h := (&fence.Middleware{}).Wrap(served)
	for _, test := range []struct {
		path   string
		fences []string
		status int
	}{
		{"/a", []string{"5"}, 200},
		{"/a", []string{"5"}, 200},
		{"/a", []string{"9007199254740991"}, 200},
		{"/a", []string{"6"}, 412},
		{"/b", []string{"6"}, 200},
		{"/a", nil, 428},
		{"/a", []string{""}, 400},
		{"/a", []string{"0"}, 400},
		{"/a", []string{"9007199254740992"}, 400},
		{"/a", []string{"-7"}, 400},
		{"/a", []string{"+7"}, 400},
		{"/a", []string{"07"}, 400},
		{"/a", []string{"7 "}, 400},
		{"/a", []string{"0x7"}, 400},
		{"/a", []string{"seven"}, 400},
		{"/a", []string{"5, 6"}, 400},
		{"/a", []string{"5", "5"}, 400},
		{"/a", []string{strings.Repeat("9", 10000)}, 400},
	} {
		resp := sendRequest(h, "PUT", test.path, test.fences...)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != test.status || (string(body) == "served") != (test.status == 200) || len(body) > 200 {
			t.Errorf("%s %.50q: %d %s", test.path, test.fences, resp.StatusCode, body)
		}
		if test.status == 412 {
			wantStale(t, fence.CheckResponse(resp), "/a", 6, 1<<53-1)
		} else if err := fence.CheckResponse(resp); err != nil {
			t.Error(err)
		}
	}
}

func TestMiddlewareOptions(t *testing.T) {
	var reg fence.Register
	m := fence.Middleware{Register: &reg, Optional: true, Name: func(r *http.Request) string { return r.URL.Query().Get("id") }}
	h := m.Wrap(served)
	if resp := sendRequest(h, "GET", "/a?id=x"); resp.StatusCode != 200 {
		t.Errorf("without a fence, which is optional: %d", resp.StatusCode)
	}
	sendRequest(h, "PUT", "/a?id=x", "5")
	if resp := sendRequest(h, "PUT", "/other?id=x", "4"); resp.StatusCode != 412 {
		t.Errorf("a stale fence for the same name: %d", resp.StatusCode)
	}
	if resp := sendRequest(h, "PUT", "/a?id=x", "bad"); resp.StatusCode != 400 {
		t.Errorf("a malformed fence, though none is needed: %d", resp.StatusCode)
	}
	if reg.Seen("x") != 5 {
		t.Errorf("the Register has seen %d", reg.Seen("x"))
	}
}

// The guard covers the whole handler: the request of a later holder waits until the handler of an
// earlier request has returned, or until its own context ends.
func TestMiddlewareGuardsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&fence.Middleware{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(time.Minute) }))
		start := time.Now()
		go sendRequest(h, "PUT", "/a", "1")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := httptest.NewRequest("PUT", "/a", nil).WithContext(ctx)
		fence.SetHeader(req.Header, 2)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != 503 || time.Since(start) != time.Second {
			t.Errorf("%d after %v", w.Code, time.Since(start))
		}
		if resp := sendRequest(h, "PUT", "/a", "3"); resp.StatusCode != 200 || time.Since(start) != 2*time.Minute {
			t.Errorf("%d after %v", resp.StatusCode, time.Since(start))
		}
	})
}

func TestTransport(t *testing.T) {
	var reg fence.Register
	srv := httptest.NewServer((&fence.Middleware{Register: &reg}).Wrap(served))
	defer srv.Close()
	client := &http.Client{Transport: &fence.Transport{Base: srv.Client().Transport}}
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	put := func(ctx context.Context, header string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, "PUT", srv.URL+"/a", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set(fence.Header, header)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := req.Header.Get(fence.Header); got != header {
			t.Errorf("the caller's request was changed: %q", got)
		}
		return resp
	}
	late := l.Do(t.Context(), "a", func(ctx context.Context) error {
		mine, _ := padlock.FenceFrom(ctx)
		if resp := put(ctx, ""); resp.StatusCode != 200 || reg.Seen("/a") != mine {
			t.Errorf("%d, seen %d, want %d", resp.StatusCode, reg.Seen("/a"), mine)
		}
		put(ctx, "9007199254740991") // the request's own header is not replaced
		return fence.CheckResponse(put(ctx, ""))
	})
	if !errors.Is(late, fence.ErrStale) {
		t.Errorf("stale: %v", late)
	}
	if resp := put(t.Context(), ""); resp.StatusCode != 428 {
		t.Errorf("without a lock: %d", resp.StatusCode)
	}
}

// roundTrip is a RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A request that no http.Client has prepared may have no headers. The response to it may have no
// Request.
func TestTransportBare(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	lock, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		if got, err := fence.FromHeader(req.Header); got != lock.Fence() || err != nil {
			t.Errorf("it sent %d, %v", got, err)
		}
		return &http.Response{StatusCode: 412}, nil
	})
	resp, err := (&fence.Transport{Base: base}).RoundTrip((&http.Request{Method: "PUT"}).WithContext(lock.Context()))
	if err != nil || fence.CheckResponse(resp) != nil {
		t.Error(err, fence.CheckResponse(resp))
	}
}

// Methods that write nothing need no fence, but a stale fence is refused.
func TestMiddlewareSafeMethods(t *testing.T) {
	h := (&fence.Middleware{}).Wrap(served)
	sendRequest(h, "PUT", "/a", "5")
	for method, status := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 200, "TRACE": 200, "POST": 428, "DELETE": 428, "PATCH": 428, "get": 428, "": 428} {
		req := httptest.NewRequest("PUT", "/a", nil)
		req.Method = method
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, req); w.Code != status {
			t.Errorf("%q without a fence: %d", method, w.Code)
		}
	}
	if resp := sendRequest(h, "GET", "/a", "4"); resp.StatusCode != 412 {
		t.Errorf("GET with a stale fence: %d", resp.StatusCode)
	}
}

// The clients choose the paths, so a Middleware remembers only a bounded number of them.
func TestMiddlewareForgets(t *testing.T) {
	server.Thorough(t)
	h := (&fence.Middleware{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	sendRequest(h, "PUT", "/a", "5")
	for i := range 100_000 {
		req := &http.Request{Method: "PUT", URL: &url.URL{Path: "/" + strconv.Itoa(i)}, Header: http.Header{fence.Header: {"5"}}}
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
	if resp := sendRequest(h, "PUT", "/a", "4"); resp.StatusCode != 200 {
		t.Errorf("the first of 100,001 paths is not forgotten: %d", resp.StatusCode)
	}
	if resp := sendRequest(h, "PUT", "/1", "4"); resp.StatusCode != 412 {
		t.Errorf("a later one is: %d", resp.StatusCode)
	}
}

func TestA412OfSomethingElse(t *testing.T) {
	other := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(412) })
	for _, f := range []string{"", "7"} {
		if err := fence.CheckResponse(sendRequest(other, "PUT", "/", f)); err != nil {
			t.Error(err)
		}
	}
}

func FuzzFromHeader(f *testing.F) {
	f.Add("1")
	f.Add("9007199254740991")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, text string) {
		h := http.Header{fence.Header: {text}}
		got, err := fence.FromHeader(h)
		if err != nil {
			return
		}
		again := http.Header{}
		fence.SetHeader(again, got)
		if again.Get(fence.Header) != text || got == 0 || got >= 1<<53 {
			t.Errorf("%q was read as %d", text, got)
		}
	})
}
