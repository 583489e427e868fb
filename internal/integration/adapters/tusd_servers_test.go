//go:build !race

// tusd 2.9.2 interrupts a request in one goroutine and sets the body of the same httpContext in
// another, without a mutex. So this test runs without the race detector; .ci/steps has a step for
// it.

package adapters

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
)

func tusRequest(t *testing.T, method, url string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	r.Header.Set("Content-Type", "application/offset+octet-stream")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return &http.Response{Header: http.Header{}}
	}
	answer.Body.Close()
	return answer
}

// An upload hangs at one server. The client asks another server, in another process: the first one
// gives the upload up, and the client goes on where it ended.
func TestTusdOnTwoServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		a, b := start(t, "tusd", url, dir).hear(), start(t, "tusd", url, dir).hear()
		id := tusRequest(t, http.MethodPost, a+"/files/", nil, "Upload-Length", "10").Header.Get("Location")
		id = id[strings.LastIndex(id, "/"):]
		body, client := io.Pipe()
		hanging := make(chan int, 1)
		go func() {
			hanging <- tusRequest(t, http.MethodPatch, a+"/files"+id, body, "Upload-Offset", "0").StatusCode
		}()
		io.WriteString(client, "01234")
		waitUntilHeld(t, newLocker(t, url), "upload:"+id[1:])
		head := tusRequest(t, http.MethodHead, b+"/files"+id, nil)
		offset, err := strconv.Atoi(head.Header.Get("Upload-Offset"))
		if err != nil || head.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", head.Status, err)
		}
		client.Close()
		if got := <-hanging; got < 400 {
			t.Errorf("the request that hung: %d", got)
		}
		rest := strings.NewReader("0123456789"[offset:])
		last := tusRequest(t, http.MethodPatch, b+"/files"+id, rest, "Upload-Offset", strconv.Itoa(offset))
		if last.StatusCode != http.StatusNoContent || last.Header.Get("Upload-Offset") != "10" {
			t.Errorf("%v, offset %q", last.Status, last.Header.Get("Upload-Offset"))
		}
	})
}

func waitUntilHeld(t *testing.T, l *padlock.Locker, name string) {
	t.Helper()
	for {
		if s, err := l.Inspect(t.Context(), name); len(s.Holds) > 0 {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
