package secrets

import (
	"context"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// marker is a secret of the caller's.
const marker = "marker-7f3a9c51e2"

// spy is a store that notes the tokens that it gets. To the Locker it is in another process.
type spy struct {
	*memstore.Store
	mu     sync.Mutex
	tokens []string
}

func (s *spy) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.InProcess = false
	return g
}

func (s *spy) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	s.note(r)
	return s.Store.Acquire(ctx, r)
}

func (s *spy) Wait(ctx context.Context, r driver.Request, queue bool) (driver.Grant, error) {
	s.note(r)
	return s.Store.Wait(ctx, r, queue)
}

func (s *spy) note(r driver.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, r.Token.Text())
}

func isMemory(t reflect.Type) bool {
	return slices.Contains([]reflect.Type{
		reflect.TypeFor[*spy](), reflect.TypeFor[*memstore.Store](), reflect.TypeFor[*sessionstore.Memory](), reflect.TypeFor[*sessiontest.Blobs](),
	}, t)
}

// rootValues returns values of the types of package padlock, each of which knows a secret, and the
// secrets. The Locker has holds and waiters. The caller calls end.
func rootValues(t *testing.T) (values map[string][]any, secrets func() []string, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var events []any
	var mu sync.Mutex
	store := &spy{Store: memstore.New()}
	l := padlock.New(store, padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})))
	other := padlock.New(store, padlock.KeepStoreOpen())
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	lock, err := l.Acquire(ctx, "job", padlock.Token(marker))
	must(err)
	shared, err := l.Acquire(ctx, "reader", padlock.Shared())
	must(err)
	locks, err := l.AcquireAll(ctx, []string{"a", "b"})
	must(err)
	key, err := lock.Export(ctx)
	must(err)
	made, err := padlock.KeyFor("job", marker, padlock.ModeExclusive)
	must(err)
	read, err := other.Acquire(ctx, "elsewhere")
	must(err)
	var waiting sync.WaitGroup
	for _, opt := range []padlock.Option{nil, padlock.Token(marker + "-2"), padlock.Slots(1)} {
		waiting.Go(func() { l.Acquire(ctx, "elsewhere", opt) })
	}
	_, held := l.TryAcquire(ctx, "elsewhere", padlock.Token(marker+"-3"))
	_, adopted := other.Adopt(ctx, made, padlock.Token(marker))
	if held == nil || adopted == nil {
		t.Fatal("a call should have failed")
	}
	state, err := l.Inspect(ctx, "job")
	must(err)
	values = map[string][]any{
		"Key": {key, made, padlock.Key{}}, "Lock": {lock, shared, lock.Context()}, "Grant": {padlock.GrantFrom(lock.Context()), padlock.GrantsFrom(locks.Context())}, "Locks": {locks}, "Locker": {l, other, read},
		"Option": {padlock.Token(marker)}, "LockerOption": {padlock.LockerOption(padlock.Token(marker))},
		"Error": {held, adopted}, "HeldError": {held}, "State": {state}, "Hold": {state.Holds[0]}, "Stats": {l.Stats()},
		"Event": nil,
	}
	secrets = func() []string {
		mu.Lock()
		defer mu.Unlock()
		values["Event"] = slices.Clone(events)
		store.mu.Lock()
		defer store.mu.Unlock()
		return append(slices.Clone(store.tokens), marker)
	}
	return values, secrets, func() {
		cancel()
		waiting.Wait()
		other.Close(context.Background())
		l.Close(context.Background())
	}
}

func TestRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values, secretsOf, end := rootValues(t)
		defer end()
		synctest.Wait() // so that the waiters wait, and nothing changes while the values are printed
		secrets := secretsOf()
		if len(secrets) < 8 {
			t.Fatalf("%d secrets: the test is worth nothing", len(secrets))
		}
		for typ, why := range checked["."] {
			if _, ok := values[typ]; why == printed && !ok {
				t.Errorf("%s: no value is printed", typ)
			}
		}
		for typ, all := range values {
			for _, v := range all {
				for _, how := range shown(secrets, v) {
					t.Errorf("%s (%T): %s", typ, v, how)
				}
			}
		}
	})
}

// A panic prints its value by the runtime's own rules.
func TestPanic(t *testing.T) {
	if os.Getenv("PADLOCK_TEST_PANIC") != "" {
		values, _, _ := rootValues(t)
		var all []any
		for _, v := range values {
			all = append(all, v...)
		}
		panicWith(all)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestPanic$")
	child.Env = append(os.Environ(), "PADLOCK_TEST_PANIC=yes")
	out, err := child.CombinedOutput()
	if err == nil || strings.Count(string(out), "panic: ") < 10 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, form := range formsOf(marker) {
		if strings.Contains(string(out), form) {
			t.Errorf("a panic shows %s: %s", form, out)
		}
	}
}

// panicWith panics with each of the values: the runtime prints all of them.
func panicWith(all []any) {
	if len(all) == 0 {
		return
	}
	defer panicWith(all[1:])
	panic(all[0])
}

// The walker and the forms find what there is to find.
func TestShown(t *testing.T) {
	open := struct{ p *hidden }{&hidden{[]byte(marker)}}
	for _, v := range []any{marker, []byte(marker), open, map[string]*hidden{"k": {marker}}} {
		if !slices.ContainsFunc(shown([]string{marker}, v), func(how string) bool { return strings.HasPrefix(how, "unexported field, walker") }) {
			t.Errorf("%T: the walker finds nothing", v)
		}
	}
	if !slices.ContainsFunc(shown([]string{marker}, []byte(marker)), func(how string) bool { return strings.HasPrefix(how, "value, json") }) {
		t.Error("base64 is not found")
	}
}

// A store that logs what it is asked and what it answers shows no token, and not where a session has
// moved.
func TestRequests(t *testing.T) {
	token := driver.TokenOf(marker)
	r := driver.Request{Name: "job", Token: token, Replaces: token, Spent: []driver.Token{token, token}}
	moved := sessionstore.Moved{To: sessionstore.KeyOf(marker)}
	for _, v := range []any{token, &token, r, &r, fast.Extension{Name: "job", Token: token}, []fast.Extension{{Token: token}},
		moved, sessionstore.Change{Move: moved}, sessionstore.Record{Moved: moved}, moved.To, &sessionstore.MovedError{Moved: moved}} {
		for _, how := range shown([]string{marker}, v) {
			t.Errorf("%T: %s", v, how)
		}
	}
	if token.Text() != marker || r.Replaces.Text() != marker || (driver.Token{}).Text() != "" {
		t.Error("the token has another text")
	}
}
