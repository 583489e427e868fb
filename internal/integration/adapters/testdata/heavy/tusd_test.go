package adapters

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
)

func tusServer(dir string, l *padlock.Locker) (*httptest.Server, error) {
	composer := handler.NewStoreComposer()
	filestore.New(dir).UseIn(composer)
	composer.UseLocker(uploadLocks{l})
	h, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		return nil, err
	}
	return httptest.NewServer(http.StripPrefix("/files/", h)), nil
}

func init() { roles["tusd"] = runTusd }

func runTusd(p *process) error {
	srv, err := tusServer(p.dir, p.locker)
	if err != nil {
		return err
	}
	p.say(srv.URL)
	p.next()
	return nil
}

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
		hanging, client := io.Pipe()
		first := make(chan int, 1)
		go func() {
			first <- tusRequest(t, http.MethodPatch, a+"/files"+id, hanging, "Upload-Offset", "0").StatusCode
		}()
		io.WriteString(client, "01234")
		if held(t, newLocker(t, url), "upload:"+id[1:]).Waiters < 0 {
			client.Close() // the store does not know who waits
			<-first
		}
		head := tusRequest(t, http.MethodHead, b+"/files"+id, nil)
		offset, err := strconv.Atoi(head.Header.Get("Upload-Offset"))
		if err != nil || head.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", head.Status, err)
		}
		client.Close()
		rest := strings.NewReader("0123456789"[offset:])
		last := tusRequest(t, http.MethodPatch, b+"/files"+id, rest, "Upload-Offset", strconv.Itoa(offset))
		if last.StatusCode != http.StatusNoContent || last.Header.Get("Upload-Offset") != "10" {
			t.Errorf("%v, offset %q", last.Status, last.Header.Get("Upload-Offset"))
		}
	})
}

// held returns the state of a name when it is held.
func held(t *testing.T, l *padlock.Locker, name string) padlock.State {
	t.Helper()
	for {
		s, err := l.Inspect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Holds) > 0 {
			return s
		}
	}
}

// A loss interrupts the upload, and a caller that gives up gets tusd's own error.
func TestTusdLossAndCancel(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	lock, err := uploadLocks{l}.NewLock("1")
	if err != nil {
		t.Fatal(err)
	}
	interrupted := make(chan struct{})
	if err := lock.Lock(t.Context(), func() { close(interrupted) }); err != nil {
		t.Fatal(err)
	}
	second, err := uploadLocks{l}.NewLock("1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.Lock(ctx, nil); !errors.Is(err, handler.ErrLockTimeout) {
		t.Error(err)
	}
	script.Lose("upload:1")
	<-interrupted
	if err := lock.Unlock(); !errors.Is(err, padlock.ErrLost) {
		t.Error(err)
	}
}
