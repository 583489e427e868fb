package etcdstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// TestKeysOfAnotherProgram: a key that padlock did not write, at the place of a key of padlock's,
// is neither changed nor deleted. Every verb refuses the name, and names the key.
func TestKeysOfAnotherProgram(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	c := newClient(t, srv.Addr())
	s := mustOpen(t, []string{srv.Addr()})
	for i, kv := range [][2]string{
		{"padlock/l/n/k/", "theirs"}, {"padlock/l/n/k/", `{"id":"7"}`}, {"padlock/l/n/r/x", "theirs"}, {"padlock/l/n/c/7", "[]"},
		{"padlock/l/n/t/other", "theirs"}, {"padlock/l/n/note", "theirs"},
		{"padlock/f/n", "theirs"}, {"padlock/f/n", ""}, {"padlock/f/n", `"json"`}, {"padlock/f/n", "77"},
	} {
		if _, err := c.Put(t.Context(), kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
		want := func(verb string, err error) {
			t.Helper()
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), kv[0]) {
				t.Errorf("%d: %q: %s: %v", i, kv, verb, err)
			}
		}
		r := request("n", "a")
		_, err := s.Acquire(t.Context(), r)
		want("Acquire", err)
		_, err = s.Wait(t.Context(), r, true)
		want("Wait", err)
		r.Shared = true
		_, err = s.Acquire(t.Context(), r)
		want("Acquire shared", err)
		_, err = s.Break(t.Context(), "n", 0)
		if kv[1] != "77" || !errors.Is(err, driver.ErrLost) { // its fence is not the one that was seen
			want("Break", err)
		}
		_, err = s.Inspect(t.Context(), "n")
		want("Inspect", err)
		if _, err := s.Extend(t.Context(), "n", "a", time.Minute); err == nil {
			t.Errorf("%q: Extend succeeds", kv)
		}
		if o, err := s.Release(t.Context(), "n", "a", 0); o != driver.OutcomeGone || err != nil {
			t.Errorf("%q: Release: %v, %v", kv, o, err)
		}
		if list, err := s.List(t.Context(), ""); len(list) != 0 || err != nil {
			t.Errorf("%q: listed: %+v, %v", kv, list, err)
		}
		reply, err := c.Get(t.Context(), kv[0])
		if err != nil || len(reply.Kvs) != 1 || string(reply.Kvs[0].Value) != kv[1] || reply.Kvs[0].Version != 1 {
			t.Errorf("%q: was changed to %v, %v", kv, reply, err)
		}
		if _, err := c.Delete(t.Context(), kv[0]); err != nil {
			t.Fatal(err)
		}
		take(t, s, request("n", "b"))
		if _, err := s.Release(t.Context(), "n", "b", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Delete(t.Context(), "padlock/f/n"); err != nil {
			t.Fatal(err)
		}
	}
}
