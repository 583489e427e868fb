package zkstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// soon is how long a test waits at most. To elect a leader, three servers that start over and over
// need several seconds, and more on a busy machine.
const soon = 40 * time.Second

// openStore opens a store. If that fails, it returns a nil interface.
func openStore(ctx context.Context, addr string, opts ...zkstore.Option) (driver.Store, error) {
	s, err := openAt(ctx, zkstore.Config{Servers: []string{addr}}, opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openAt opens a store. It tries again while the servers cannot be reached: a store waits for a
// connection for a second at most, and the machine may be busy. The first TLS handshake of a server
// is slow, too.
func openAt(ctx context.Context, c zkstore.Config, opts ...zkstore.Option) (*zkstore.Store, error) {
	for end := time.Now().Add(soon); ; {
		s, err := zkstore.Open(ctx, c, opts...)
		if !errors.Is(err, driver.ErrUnavailable) || time.Now().After(end) || ctx.Err() != nil {
			return s, err
		}
	}
}

func mustOpen(t testing.TB, addr string, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	return mustOpenAt(t, zkstore.Config{Servers: []string{addr}}, opts...)
}

// mustOpenAt opens a store. Its session is long, unless opts say something else: a store gives a
// connection up when the server is silent for a quarter of the session timeout.
func mustOpenAt(t testing.TB, c zkstore.Config, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	s, err := openAt(t.Context(), c, append([]zkstore.Option{zkstore.SessionTimeout(patient)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: time.Minute}
}

func reader(name string) driver.Request {
	r := request(name)
	r.Shared = true
	return r
}

// take acquires a name that is free.
func take(t testing.TB, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	var g driver.Grant
	whileUncertain(t, "Acquire of "+r.Name, func() (err error) { g, err = s.Acquire(t.Context(), r); return err })
	return g
}

func release(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	var out driver.Outcome
	uncertain := false // whether an earlier try may have released it
	whileUncertain(t, "Release of "+r.Name, func() (err error) {
		out, err = s.Release(t.Context(), r.Name, r.Token.Text(), 0)
		uncertain = uncertain || errors.Is(err, driver.ErrUncertain)
		return err
	})
	if out != driver.OutcomeReleased && (!uncertain || out != driver.OutcomeGone) {
		t.Fatalf("Release of %q: %v", r.Name, out)
	}
}

// refused checks that a name is held.
func refused(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	waitUntil(t, "a refusal of "+r.Name, func() bool {
		_, err := s.Acquire(t.Context(), r)
		safety.Refused(t, err, r.Name)
		if noAnswer := errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain); !noAnswer && !errors.Is(err, driver.ErrHeld) {
			t.Fatalf("Acquire of %q, want a HeldError: %v", r.Name, err)
		}
		return errors.Is(err, driver.ErrHeld)
	})
}

// waitUntil calls a function until it returns true.
func waitUntil(t testing.TB, what string, yes func() bool) {
	t.Helper()
	end := time.After(soon)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for !yes() {
		select {
		case <-pause.C:
		case <-end:
			t.Fatalf("%s: not within %v", what, soon)
		}
	}
}

// eventually tries until the name is granted.
func eventually(t testing.TB, s driver.Store, name string) (r driver.Request, g driver.Grant) {
	t.Helper()
	waitUntil(t, "a grant of "+name, func() bool {
		r = request(name)
		var err error
		g, err = s.Acquire(t.Context(), r)
		return err == nil
	})
	return r, g
}

// awaitEnd waits for the end of a Bound.
func awaitEnd(t testing.TB, bound context.Context) {
	t.Helper()
	select {
	case <-bound.Done():
	case <-time.After(soon):
		t.Fatal("Grant.Bound has not ended")
	}
	if err := context.Cause(bound); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the cause is %v", err)
	}
}

// findingOf waits for a finding of Status whose value begins with a text. The store gives a server
// a second for its answer, which may be too short for a busy machine.
func findingOf(t testing.TB, s driver.Reporter, name, value string) (f driver.Finding) {
	t.Helper()
	waitUntil(t, name+" is "+value, func() bool {
		f = finding(t, s, name)
		return strings.HasPrefix(f.Value, value)
	})
	return f
}

// finding returns a finding of Status.
func finding(t testing.TB, s driver.Reporter, name string) driver.Finding {
	t.Helper()
	var found []driver.Finding
	whileUncertain(t, "Status", func() (err error) { found, err = s.Status(t.Context()); return err })
	for _, f := range found {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no finding %q among %+v", name, found)
	return driver.Finding{}
}

func containsLine(text, line string) bool { return slices.Contains(strings.Split(text, "\n"), line) }
