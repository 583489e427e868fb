package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// variable is the variable of the environment that asks for a new recording of the stand-in.
const variable = "PADLOCK_RECORD"

// A Test is a store that is tested with a recording.
type Test struct {
	File    string       // the recording of the stand-in
	Place   string       // the URL of the place in the stand-in
	StandIn http.Handler // the service of the tests
	Open    Open
}

// Run uses a store as programs do, and checks what it returns. It plays all recordings, or makes a new
// one of the stand-in.
func Run(t *testing.T, test Test) {
	if os.Getenv(variable) != "stand-in" {
		test.playAll(t)
		return
	}
	at, err := url.Parse(test.Place)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Record(t.Context(), at, func(ctx context.Context) (driver.Store, error) {
		return test.Open(ctx, at, inMemory{test.StandIn})
	})
	if err == nil {
		err = os.WriteFile(test.File, made.File, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A Made is a recording that was made.
type Made struct {
	File     []byte
	Requests int
}

// Record uses two stores at an empty place as programs do, and returns what the service answered. The
// error says what was not as expected. open must use its ctx for the requests of the opening.
func Record(ctx context.Context, at *url.URL, open func(context.Context) (driver.Store, error)) (Made, error) {
	shown := published(at)
	r := &recorder{public: strings.NewReplacer(namesOf(at)...)}
	r.kept.Place = shown.String()
	if err := use(overhttp.Watch(ctx, r.note), open); err != nil {
		return Made{}, err
	}
	file, err := r.kept.encode()
	return Made{file, len(r.kept.Exchanges)}, err
}

// mayPlay lists the parameters of a URL with which a recording can be played.
var mayPlay = []string{endpoint, "region", "path-style", "skew"}

// CanPlay returns an error that says why TestRecorded could not play a recording of a place.
func CanPlay(at *url.URL) error {
	switch {
	case forms[at.Scheme] == nil:
		return errors.New("conversations over HTTP are recorded, with object storage, DynamoDB and Kubernetes")
	case at.Host == "":
		return errors.New("the URL does not name the namespace, which would stand in the recording")
	}
	for name := range at.Query() {
		if !slices.Contains(mayPlay, name) {
			return fmt.Errorf("the tests cannot play a recording with %s=", name)
		}
	}
	return nil
}

// published returns the URL of a place as it stands in a recording.
func published(at *url.URL) *url.URL {
	shown, q := *at, at.Query()
	shown.Host = place
	if q.Has(endpoint) || at.Scheme == "kubernetes" { // whose address may stand in a kubeconfig
		q.Set(endpoint, "http://"+host)
		shown.RawQuery = q.Encode()
	}
	return &shown
}

// forms lists by kind of store where the name of a place stands. It is replaced nowhere else, since it
// may be a word of the records, such as padlock.
var forms = map[string][]string{
	"s3":         {" /%s/", " /%s?", "<Name>%s</Name>", "<BucketName>%s</BucketName>"},
	"gs":         {" /%s/", " /%s?", "<Name>%s</Name>", "<BucketName>%s</BucketName>"},
	"dynamodb":   {`"TableName":"%s"`, `:table/%s"`},
	"kubernetes": {"/namespaces/%s/", `"namespace":"%s"`},
}

// namesOf returns each name of a place in its forms, and after it what stands in a recording.
func namesOf(at *url.URL) (names []string) {
	for _, form := range forms[at.Scheme] {
		names = append(names, fmt.Sprintf(form, at.Host), fmt.Sprintf(form, place))
	}
	if service, err := url.Parse(at.Query().Get(endpoint)); err == nil && service.Host != "" {
		names = append(names, "//"+service.Host, "//"+host)
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

// conversations are the recordings that padlock-verify has made, as a test of a store sees them.
const conversations = "../../docs/certified/*-conversation.json"

// playAll plays the recording of the stand-in, and those of all services of the same kind.
func (test Test) playAll(t *testing.T) {
	files, err := filepath.Glob(conversations) // none in a module without the rest of the tree
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ := strings.Cut(test.Place, ":")
	for _, file := range append(files, test.File) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, at, err := decode(data)
		if err != nil {
			t.Fatal(file, err)
		}
		if at.Scheme == kind {
			t.Run(filepath.Base(file), func(t *testing.T) {
				if err := r.play(t.Context(), at, test.Open); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// An Open opens the store at a place with a transport.
type Open func(ctx context.Context, place *url.URL, transport http.RoundTripper) (driver.Store, error)

// Play uses two stores as Record does. The service is a recording.
func Play(ctx context.Context, data []byte, open Open) error {
	r, at, err := decode(data)
	if err != nil {
		return err
	}
	return r.play(ctx, at, open)
}

func (r *recording) play(ctx context.Context, at *url.URL, open Open) error {
	p := &player{kept: *r}
	err := use(ctx, func(ctx context.Context) (driver.Store, error) { return open(ctx, at, p) })
	for _, asked := range p.rest() {
		err = errors.Join(err, fmt.Errorf("the store did not ask %s", asked))
	}
	return err
}

const (
	lease = time.Minute
	keep  = 30 * time.Second
)

// A user calls the methods of a store, and notes what it did not expect.
type user struct {
	driver.Store
	ctx   context.Context
	wrong *[]error
}

// use uses two stores, and returns what was not as expected.
func use(ctx context.Context, open func(context.Context) (driver.Store, error)) error {
	var wrong []error
	var users [2]user
	for i := range users {
		store, err := open(ctx)
		if err != nil {
			return err
		}
		defer store.Close()
		users[i] = user{store, ctx, &wrong}
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
	return errors.Join(wrong...)
}

func (u user) fault(format string, a ...any) { *u.wrong = append(*u.wrong, fmt.Errorf(format, a...)) }

func (u user) acquire(name, token string, shared bool) {
	g, err := u.Acquire(u.ctx, request(name, token, shared))
	if err != nil || g.Fence == 0 || g.TTL <= 0 || g.TTL > 2*lease {
		u.fault("Acquire of %q by %s: %+v, %v", name, token, g, err)
	}
}

func (u user) refused(name, token string, shared bool) {
	_, err := u.Acquire(u.ctx, request(name, token, shared))
	if !errors.Is(err, driver.ErrHeld) {
		u.fault("Acquire of %q by %s: %v, want ErrHeld", name, token, err)
	}
}

func request(name, token string, shared bool) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), Shared: shared, TTL: lease, Holder: driver.Holder{Host: "host", PID: 7, Label: token}}
}

func (u user) extend(name, token string, want error) {
	if _, err := u.Extend(u.ctx, name, token, lease); !errors.Is(err, want) {
		u.fault("Extend of %q by %s: %v, want %v", name, token, err, want)
	}
}

func (u user) release(name, token string, keep time.Duration, want driver.Outcome) {
	if out, err := u.Release(u.ctx, name, token, keep); out != want || err != nil {
		u.fault("Release of %q by %s: %v, %v, want %v", name, token, out, err, want)
	}
}

func (u user) state(name string) driver.State {
	st, err := u.Store.(driver.Admin).Inspect(u.ctx, name)
	if err != nil {
		u.fault("Inspect of %q: %v", name, err)
	}
	return st
}

func (u user) holders(name string, want int) {
	if st := u.state(name); len(st.Holds) != want || st.Holds[0].Holder.Host != "host" {
		u.fault("Inspect of %q: %+v, want %d holds", name, st, want)
	}
}

func (u user) names(want string) {
	found := 0
	all, err := u.Store.(driver.Admin).List(u.ctx, "")
	if err != nil {
		u.fault("List: %v", err)
	}
	for _, st := range all {
		if st.Name == want {
			found++
		}
	}
	if found != 1 {
		u.fault("List: %q stands there %d times", want, found)
	}
}

func (u user) breakHold(name string) {
	if _, err := u.Store.(driver.Admin).Break(u.ctx, name, u.state(name).Fence); err != nil {
		u.fault("Break of %q: %v", name, err)
	}
}
