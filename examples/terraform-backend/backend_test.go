package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/filestore"
)

const dirEnv = "BACKEND_DIR"

// TestMain is a server in a process of its own if a test starts it with a directory.
func TestMain(m *testing.M) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	b, err := open(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(httptest.NewServer(b.routes()).URL)
	io.Copy(io.Discard, os.Stdin) // until the test ends
}

// startServer starts a server in a process of its own. kill ends it as kill -9 does.
func startServer(t *testing.T, dir string) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), func() { cmd.Process.Kill(); cmd.Wait() }
}

// here is a server in the process of the test.
func here(t *testing.T, dir string) (*backend, string) {
	t.Helper()
	b, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(b.routes())
	t.Cleanup(func() { srv.Close(); b.locker.Close(context.Background()) })
	return b, srv.URL
}

// run is the info that Terraform sends for a run with an ID.
func runInfo(id string) string {
	return `{"ID":"` + id + `","Operation":"OperationTypeApply","Info":"","Who":"ann@web-3","Version":"1.11.4",` +
		`"Created":"2026-11-21T18:40:00.123456789Z","Path":""}`
}

const (
	first  = "11111111-2222-3333-4444-555555555555"
	second = "99999999-2222-3333-4444-555555555555"
)

// want sends a request as Terraform does, and returns the body of the answer.
func want(t *testing.T, status int, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != status {
		t.Errorf("%s %s: %d %q, want %d", method, url, answer.StatusCode, text, status)
	}
	return string(text)
}

// A run writes while another one is refused, on two servers in two processes. The first of them
// dies, and the lock and the state stay.
func TestTwoServers(t *testing.T) {
	dir := t.TempDir()
	a, kill := startServer(t, dir)
	b, _ := startServer(t, dir)
	want(t, 404, "GET", a+"/shop", "")
	want(t, 200, "LOCK", a+"/shop", runInfo(first))
	want(t, 200, "LOCK", b+"/shop", runInfo(first)) // Terraform repeats a request whose answer was lost
	var other lockInfo
	if err := json.Unmarshal([]byte(want(t, 423, "LOCK", b+"/shop", runInfo(second))), &other); err != nil {
		t.Error(err)
	}
	if other.ID != first || other.Who != "ann@web-3" || other.Operation != "OperationTypeApply" {
		t.Errorf("the refusal names %+v", other)
	}
	want(t, 200, "LOCK", b+"/stock", runInfo(second)) // another state is free
	want(t, 409, "POST", b+"/shop?ID="+second, "evil")
	want(t, 200, "POST", b+"/shop?ID="+first, "one")
	kill()
	want(t, 423, "LOCK", b+"/shop", runInfo(second))
	want(t, 200, "POST", b+"/shop?ID="+first, "two")
	if got := want(t, 200, "GET", b+"/shop", ""); got != "two" {
		t.Errorf("the state is %q", got)
	}
	want(t, 409, "UNLOCK", b+"/shop", runInfo(second))
	want(t, 200, "UNLOCK", b+"/shop", runInfo(first))
	want(t, 200, "UNLOCK", b+"/shop", runInfo(first)) // a repeat
	want(t, 200, "LOCK", b+"/shop", runInfo(second))
}

// A server that is stopped leaves the locks of the runs.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	b, url := here(t, dir)
	want(t, 200, "LOCK", url+"/shop", runInfo(first))
	if err := b.locker.Close(t.Context()); err != nil {
		t.Error(err)
	}
	_, url = here(t, dir)
	want(t, 423, "LOCK", url+"/shop", runInfo(second))
	want(t, 200, "POST", url+"/shop?ID="+first, "one")
}

// force-unlock takes the lock away in the middle of a run: its next write is refused, whether
// or not another run has the lock by then, and its unlock does not release that one.
func TestForceUnlock(t *testing.T) {
	_, url := here(t, t.TempDir())
	for _, body := range []string{"", "{}", runInfo(first)} { // as OpenTofu, and as newer versions of Terraform
		want(t, 200, "LOCK", url+"/shop", runInfo(first))
		want(t, 200, "POST", url+"/shop?ID="+first, "one")
		want(t, 200, "UNLOCK", url+"/shop", body)
		want(t, 409, "POST", url+"/shop?ID="+first, "late")
		want(t, 200, "LOCK", url+"/shop", runInfo(second))
		want(t, 409, "POST", url+"/shop?ID="+first, "late")
		want(t, 409, "UNLOCK", url+"/shop", runInfo(first))
		want(t, 423, "LOCK", url+"/shop", runInfo(first))
		want(t, 200, "UNLOCK", url+"/shop", runInfo(second))
		if got := want(t, 200, "GET", url+"/shop", ""); got != "one" {
			t.Errorf("the state is %q", got)
		}
	}
	want(t, 200, "UNLOCK", url+"/shop", "") // nobody has it
}

// A lock by a user with a long name is reported with its ID and its time.
func TestLongWho(t *testing.T) {
	_, url := here(t, t.TempDir())
	want(t, 200, "LOCK", url+"/shop", strings.Replace(runInfo(first), "ann@web-3", strings.Repeat("ann", 40)+"@web-3", 1))
	var info struct {
		ID      string
		Created time.Time
	}
	body := want(t, 423, "LOCK", url+"/shop", runInfo(second))
	if err := json.Unmarshal([]byte(body), &info); err != nil || info.ID != first || info.Created.Year() != 2026 {
		t.Errorf("%+v, %v of %s", info, err, body)
	}
}

// A write is between its check and its file when force-unlock comes: that one waits, so the state
// does not change after it. Its client goes, and nothing is broken.
func TestForceUnlockWaitsForAWrite(t *testing.T) {
	store, err := filestore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan string, 9)
	b := &backend{padlock.New(store, padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
		if e.Kind == padlock.EventContended {
			waits <- e.Name
		}
	}))), t.TempDir(), time.Hour}
	defer b.locker.Close(context.Background())
	ask := func(ctx context.Context, method, id, body string) int {
		w := httptest.NewRecorder()
		b.routes().ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/shop"+id, strings.NewReader(body)))
		return w.Code
	}
	if got := ask(t.Context(), "LOCK", "", runInfo(first)); got != 200 {
		t.Fatal(got)
	}
	writing, err := b.locker.Acquire(t.Context(), "write:shop")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() { done <- ask(ctx, "UNLOCK", "", "") }()
	select {
	case got := <-waits:
		if got != "write:shop" {
			t.Error(got)
		}
	case got := <-done:
		t.Fatalf("force-unlock did not wait for the write: %d", got)
	}
	cancel()
	if got := <-done; got != 503 {
		t.Errorf("force-unlock during a write: %d", got)
	}
	writing.Release()
	if got := ask(t.Context(), "POST", "?ID="+first, "one"); got != 200 {
		t.Errorf("the run wrote: %d", got)
	}
}

// A run with -lock=false has no ID. It writes only if no other run has the lock.
func TestWithoutLock(t *testing.T) {
	_, url := here(t, t.TempDir())
	want(t, 200, "POST", url+"/shop", "one")
	want(t, 200, "LOCK", url+"/shop", runInfo(first))
	want(t, 423, "POST", url+"/shop", "two")
	want(t, 423, "DELETE", url+"/shop", "")
	want(t, 200, "UNLOCK", url+"/shop", runInfo(first))
	want(t, 200, "DELETE", url+"/shop", "")
	want(t, 404, "GET", url+"/shop", "")
	want(t, 404, "DELETE", url+"/shop", "")
}

// The lease of a run that died ends, and a run that is older than that cannot write any more.
func TestTheLeaseEnds(t *testing.T) {
	b, url := here(t, t.TempDir())
	b.lease = 2 * time.Second
	want(t, 200, "LOCK", url+"/shop", runInfo(first))
	lock, err := b.locker.Acquire(t.Context(), "run:shop", padlock.Wait(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	want(t, 409, "POST", url+"/shop?ID="+first, "late")
	want(t, 423, "POST", url+"/shop", "late")
	lock.Release()
	want(t, 409, "POST", url+"/shop?ID="+first, "late")
	want(t, 200, "UNLOCK", url+"/shop", runInfo(first))
}

func TestBadRequests(t *testing.T) {
	_, url := here(t, t.TempDir())
	want(t, 400, "LOCK", url+"/shop", "")
	want(t, 400, "LOCK", url+"/shop", "{")
	want(t, 400, "LOCK", url+"/shop", `{"ID":"a b"}`)
	want(t, 400, "GET", url+"/..%2Fmain", "")
	want(t, 400, "GET", url+"/shop.tfstate", "")
	want(t, 400, "GET", url+"/Shop", "") // on some disks it would be the file of "shop"
	want(t, 404, "GET", url+"/a/b", "")
	want(t, 405, "PUT", url+"/shop", "")
	long := strings.Replace(runInfo(first), "ann", strings.Repeat("ann", 100), 1)
	want(t, 200, "LOCK", url+"/shop", long)
	if got := want(t, 423, "LOCK", url+"/shop", runInfo(second)); !strings.Contains(got, first) {
		t.Errorf("the refusal is %q", got)
	}
}
