//go:build linux

package filestore

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// calm makes a store patient, because a busy machine delays processes and goroutines. Reservations
// do not lapse, and the record lock may stay taken for long.
func calm(c *config) {
	c.clock = calmClock{driver.SystemClock()}
	c.recordLockPatience = time.Minute
}

type calmClock struct{ driver.Clock }

func (c calmClock) AfterFunc(d time.Duration, f func()) func() bool {
	if d == driver.MaxReservation {
		d = time.Hour
	}
	return c.Clock.AfterFunc(d, f)
}

// open opens a store that is calm, unless opts say otherwise.
func open(t testing.TB, dir string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(dir, append([]Option{calm}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// patience ends a test that hangs.
func patience(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute, Holder: driver.Holder{Host: "here", PID: 7, Label: token}}
}

func shared(name, token string) driver.Request {
	r := request(name, token)
	r.Shared = true
	return r
}

// take acquires a name that must be free.
func take(t testing.TB, s *Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(patience(t), r)
	if err != nil {
		t.Fatalf("Acquire %q for %q: %v", r.Name, r.Token.Text(), err)
	}
	return g
}

// refused asks for a name that must be held.
func refused(t testing.TB, s *Store, r driver.Request) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(patience(t), r)
	safety.Refused(t, err, r.Name)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire %q for %q: %v, want a HeldError", r.Name, r.Token.Text(), err)
	}
	return held
}

func release(t testing.TB, s *Store, name, token string, want driver.Outcome) {
	t.Helper()
	got, err := s.Release(patience(t), name, token, 0)
	if err != nil || got != want {
		t.Fatalf("Release %q of %q: %v, %v, want %v", name, token, got, err, want)
	}
}

// lost extends a hold that must be lost.
func lost(t testing.TB, s *Store, name, token string) {
	t.Helper()
	if _, err := s.Extend(patience(t), name, token, 0); !errors.Is(err, driver.ErrLost) {
		t.Fatalf("Extend %q of %q: %v, want ErrLost", name, token, err)
	}
}

func held(t testing.TB, s *Store, name, token string) driver.Grant {
	t.Helper()
	g, err := s.Extend(patience(t), name, token, 0)
	if err != nil {
		t.Fatalf("Extend %q of %q: %v", name, token, err)
	}
	return g
}

func inspect(t testing.TB, s *Store, name string) driver.State {
	t.Helper()
	state, err := s.Inspect(patience(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func pathOf(s *Store, name string) string { return filepath.Join(s.Dir(), fileName(name)) }

// wantErr checks that err is target and contains each word.
func wantErr(t testing.TB, err, target error, words ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// eventually calls ok until ok returns true. If the patience of the test ends first, the test
// fails.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := patience(t)
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it never came to this: " + what)
		case <-time.After(time.Millisecond):
		}
	}
}
