package replay

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Test is a store that is tested with a recording.
type Test struct {
	File string // the recording; those of other services of this kind stand beside it
	// Place is the URL of the place in the stand-in.
	Place string
	// StandIn is the service of a recording that is made without an account.
	StandIn http.Handler
	// Open opens the store at a place. With account, it uses the login in the environment.
	Open func(ctx context.Context, place *url.URL, account bool, transport http.RoundTripper) (driver.Store, error)
}

// Run uses a store as programs do, and checks what it returns. The service is a recording, or a
// true one of which Run makes a recording.
func Run(t *testing.T, test Test) {
	where, err := url.Parse(os.Getenv(variable))
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(test.Place)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{next: inMemory{test.StandIn}}
	switch {
	case where.Scheme == at.Scheme:
		r.next, at = http.DefaultTransport, where
	case where.Path != "stand-in":
		test.playAll(t)
		return
	}
	shown := published(at)
	r.public = strings.NewReplacer(namesOf(at, shown)...)
	use(t, func(ctx context.Context) (driver.Store, error) { return test.Open(ctx, at, at == where, r) })
	if t.Failed() {
		return
	}
	r.kept.Place = shown.String()
	file := test.File
	if name := os.Getenv(nameVariable); name != "" {
		file = strings.TrimSuffix(file, ".json") + "-" + name + ".json"
	}
	if err := write(file, r.kept); err != nil {
		t.Fatal(err)
	}
}

// published returns the URL of a place as it stands in a recording.
func published(at *url.URL) *url.URL {
	shown, q := *at, at.Query()
	shown.Host = place
	if q.Has(endpoint) {
		q.Set(endpoint, "http://"+host)
		shown.RawQuery = q.Encode()
	}
	return &shown
}

// namesOf returns each name of a place, and after it the one that stands in a recording.
func namesOf(at, shown *url.URL) []string {
	names := []string{at.Host, shown.Host}
	if service, err := url.Parse(at.Query().Get(endpoint)); err == nil && service.Host != "" {
		names = append(names, service.Host, host)
	}
	return names
}

// endpoint is the parameter of a URL that says where the service is.
const endpoint = "endpoint"

// inMemory is the transport to a stand-in.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Set("Content-Length", strconv.FormatInt(q.ContentLength, 10)) // gofakes3 reads it
	w := httptest.NewRecorder()
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	m.ServeHTTP(w, q)
	p := w.Result()
	p.Header = w.Header() // some stand-ins set headers last
	return p, nil
}

func (test Test) playAll(t *testing.T) {
	files, err := filepath.Glob(strings.TrimSuffix(test.File, ".json") + "*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there is no recording ", test.File, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { test.play(t, file) })
	}
}

func (test Test) play(t *testing.T, file string) {
	kept, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(kept.Place)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{kept: kept}
	use(t, func(ctx context.Context) (driver.Store, error) { return test.Open(ctx, at, false, p) })
	for _, asked := range p.rest() {
		t.Errorf("the store did not ask %s", asked)
	}
}

const (
	lease = time.Minute
	keep  = 30 * time.Second
)

// A user calls the methods of a store, and notes what it did not expect.
type user struct {
	*testing.T
	driver.Store
}

func use(t *testing.T, open func(context.Context) (driver.Store, error)) {
	var users [2]user
	for i := range users {
		store, err := open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		users[i] = user{t, store}
	}
	one, two := users[0], users[1]
	one.acquire("job", "first", false)
	two.refused("job", "second", false)
	one.extend("job", "first", nil)
	one.holders("job", 1)
	one.names("job")
	one.release("job", "first", keep, driver.OutcomeReleased)
	two.refused("job", "second", false) // it cools down

	one.acquire("an odd name/ü%2F?", "first", false)
	one.release("an odd name/ü%2F?", "first", 0, driver.OutcomeReleased)
	one.release("an odd name/ü%2F?", "first", 0, driver.OutcomeGone)

	one.acquire("readers", "first", true)
	two.acquire("readers", "second", true)
	one.refused("readers", "third", false)
	two.holders("readers", 2)
	two.release("readers", "second", 0, driver.OutcomeReleased)

	// The second store changes the value of a hold that the first one knows.
	one.acquire("broken", "first", false)
	two.breakHold("broken")
	one.extend("broken", "first", driver.ErrLost)
	two.acquire("broken", "second", false)
	one.release("broken", "first", 0, driver.OutcomeTaken)
	two.extend("broken", "second", nil)
}

func (u user) acquire(name, token string, shared bool) {
	u.Helper()
	g, err := u.Acquire(u.Context(), request(name, token, shared))
	if err != nil || g.Fence == 0 || g.TTL <= 0 || g.TTL > 2*lease {
		u.Errorf("Acquire of %q by %s: %+v, %v", name, token, g, err)
	}
}

func (u user) refused(name, token string, shared bool) {
	u.Helper()
	_, err := u.Acquire(u.Context(), request(name, token, shared))
	if !errors.Is(err, driver.ErrHeld) {
		u.Errorf("Acquire of %q by %s: %v, want ErrHeld", name, token, err)
	}
}

func request(name, token string, shared bool) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), Shared: shared, TTL: lease, Holder: driver.Holder{Host: "host", PID: 7, Label: token}}
}

func (u user) extend(name, token string, want error) {
	u.Helper()
	if _, err := u.Extend(u.Context(), name, token, lease); !errors.Is(err, want) {
		u.Errorf("Extend of %q by %s: %v, want %v", name, token, err, want)
	}
}

func (u user) release(name, token string, keep time.Duration, want driver.Outcome) {
	u.Helper()
	if out, err := u.Release(u.Context(), name, token, keep); out != want || err != nil {
		u.Errorf("Release of %q by %s: %v, %v, want %v", name, token, out, err, want)
	}
}

func (u user) state(name string) driver.State {
	u.Helper()
	st, err := u.Store.(driver.Admin).Inspect(u.Context(), name)
	if err != nil {
		u.Errorf("Inspect of %q: %v", name, err)
	}
	return st
}

func (u user) holders(name string, want int) {
	u.Helper()
	if st := u.state(name); len(st.Holds) != want || st.Holds[0].Holder.Host != "host" {
		u.Errorf("Inspect of %q: %+v, want %d holds", name, st, want)
	}
}

func (u user) names(want string) {
	u.Helper()
	found := 0
	all, err := u.Store.(driver.Admin).List(u.Context(), "")
	if err != nil {
		u.Errorf("List: %v", err)
	}
	for _, st := range all {
		if st.Name == want {
			found++
		}
	}
	if found != 1 {
		u.Errorf("List: %q stands there %d times", want, found)
	}
}

func (u user) breakHold(name string) {
	u.Helper()
	if _, err := u.Store.(driver.Admin).Break(u.Context(), name, u.state(name).Fence); err != nil {
		u.Errorf("Break of %q: %v", name, err)
	}
}
