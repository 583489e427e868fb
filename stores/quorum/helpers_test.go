package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

var tokens atomic.Int64

func request(name string) driver.Request {
	return driver.Request{
		Name: name, Token: driver.TokenOf(fmt.Sprintf("token-%d", tokens.Add(1))), TTL: 10 * time.Second,
		Holder: driver.Holder{Host: "here", PID: int(tokens.Load()), Label: "test"},
	}
}

func reader(name string) driver.Request {
	r := request(name)
	r.Shared = true
	return r
}

// take acquires r, which must succeed.
func take(t *testing.T, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return g
}

func wantErr(t *testing.T, err, want error, not ...error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("want %q, got: %v", want, err)
	}
	for _, n := range not {
		if errors.Is(err, n) {
			t.Fatalf("errors.Is(%q, %q) is true", err, n)
		}
	}
}

func wantOutcome(t *testing.T, s driver.Store, r driver.Request, want driver.Outcome) {
	t.Helper()
	out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0)
	if err != nil || out != want {
		t.Fatalf("Release: %v, %v; want %v", out, err, want)
	}
}

func wantHolders(t *testing.T, c cluster, name string, want ...int) {
	t.Helper()
	if got := c.holders(name); !slices.Equal(got, want) {
		t.Fatalf("held at members %v, want %v", got, want)
	}
}

func wantLive(t *testing.T, s driver.Store, r driver.Request) {
	t.Helper()
	if _, err := s.Extend(t.Context(), r.Name, r.Token.Text(), 0); err != nil {
		t.Fatalf("the hold must be live: %v", err)
	}
}

// pass waits until the time d has passed in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// bubble runs f with a cluster of n servers and a function that opens clients. It closes the
// clients.
func bubble(t *testing.T, n int, f func(t *testing.T, c cluster, open func() *client)) {
	t.Helper()
	bubbleOf(t, quorum.Majority, n, f)
}

func bubbleOf(t *testing.T, rule quorum.Rule, n int, f func(t *testing.T, c cluster, open func() *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(n)
		f(t, c, func() *client {
			cl := c.client(t, rule)
			t.Cleanup(func() { cl.Close() })
			return cl
		})
	})
}

// took returns how long f runs.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// together calls f n times at once and returns the errors.
func together(t *testing.T, n int, f func(ctx context.Context, i int) error) []error {
	errs := make(chan reply[int], n)
	for i := range n {
		go func() { errs <- reply[int]{i, f(t.Context(), i)} }()
	}
	out := make([]error, n)
	for range n {
		r := <-errs
		out[r.v] = r.err
	}
	return out
}

// wantModes checks in which mode each member has name: 's', 'x' or '-'.
func wantModes(t *testing.T, c cluster, name, want string) {
	t.Helper()
	got := ""
	for _, srv := range c {
		s, _ := srv.now().Inspect(context.Background(), name)
		switch {
		case len(s.Holds) == 0:
			got += "-"
		case s.Holds[0].Shared:
			got += "s"
		default:
			got += "x"
		}
	}
	if got != want {
		t.Fatalf("the members have it as %s, want %s", got, want)
	}
}

func errOf[T any](_ T, err error) error { return err }
