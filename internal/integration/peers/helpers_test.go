package peers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/rueidis"
)

// patience is how long a test waits for an event.
const patience = time.Minute

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// runIDs remembers nothing. The server of an earlier test may have had the same port, and must not
// look like a server that has restarted.
type runIDs struct{}

func (runIDs) Load(string) (string, error) { return "", nil }

func (runIDs) Store(string, string) error { return nil }

// opened opens a store that is closed with the test.
func opened(t testing.TB, srv *server.Server, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	// PHP's leases last for 300 s.
	opts = append([]redisstore.Option{redisstore.RememberRunIDs(runIDs{}), redisstore.MaxTTL(5 * time.Minute)}, opts...)
	s, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{srv.Addr()}}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// locker is a process of padlock.
func locker(t testing.TB, srv *server.Server, opts ...redisstore.Option) *padlock.Locker {
	t.Helper()
	l := padlock.New(opened(t, srv, opts...))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func newToken() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(newToken()), TTL: 50 * time.Second, Holder: driver.Holder{Host: "host.example", PID: 4711, Label: "nightly"}}
}

func reading(name string) driver.Request {
	r := request(name)
	r.Shared = true
	return r
}

func take(t testing.TB, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("Acquire of %q: %v", r.Name, err)
	}
	return g
}

func free(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	if out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil || out != driver.OutcomeReleased {
		t.Fatalf("Release of %q: %v, %v", r.Name, out, err)
	}
}

// refused wants a request refused because somebody has the name.
func refused(t testing.TB, s driver.Store, r driver.Request) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), r)
	safety.Refused(t, err, r.Name)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire of %q, which others have: %v", r.Name, err)
	}
	return held
}

// foreign checks that a request is refused because of one hold of another program, of which only
// the end is known.
func foreign(t testing.TB, s driver.Store, r driver.Request, shared bool) driver.Hold {
	t.Helper()
	held := refused(t, s, r)
	if len(held.Holds) != 1 {
		t.Fatalf("%q is held by %+v", r.Name, held.Holds)
	}
	h := held.Holds[0]
	if !h.Foreign || h.Shared != shared || h.Cooling || h.Holder != (driver.Holder{}) || !h.Since.IsZero() || h.Until.IsZero() {
		t.Errorf("%q is held by %+v", r.Name, h)
	}
	return h
}

func wantIs(t testing.TB, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: want %v, got: %v", what, target, err)
	}
}

// eventually calls yes until it returns true.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for !yes() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-tick.C
	}
}
