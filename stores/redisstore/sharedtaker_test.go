package redisstore_test

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// readersOf returns n requests of readers.
func readersOf(name string, n int) (rs []driver.Request) {
	for range n {
		rs = append(rs, reading(request(name)))
	}
	return rs
}

// TestManyReadersInOneRequest takes 100 shared holds with one request. All have the fence of a
// reader that came earlier.
func TestManyReadersInOneRequest(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, other := opened(t, srv.Addr()), opened(t, srv.Addr())
	alone := reading(request("job"))
	fence := take(t, other, alone).Fence
	rs := readersOf("job", 100)
	if _, err := s.AcquireShared(t.Context(), rs[:1]); err != nil { // the server learns the script
		t.Fatal(err)
	}
	before := commands(t, srv)
	grants, err := s.AcquireShared(t.Context(), rs) // the first of them is a repeat
	if n := commands(t, srv) - before; err != nil || len(grants) != len(rs) || n != 1 {
		t.Fatalf("%d grants with %d requests, %v", len(grants), n, err)
	}
	for i, g := range grants {
		if g.Fence != fence || g.TTL < 50*time.Second {
			t.Fatalf("reader %d: %+v; the first reader has fence %d", i, g, fence)
		}
		if v, err := s.Extend(t.Context(), "job", rs[i].Token, 0); err != nil || v.Fence != fence {
			t.Fatalf("reader %d in the store: %+v, %v", i, v, err)
		}
	}
	_, err = other.Acquire(t.Context(), request("job"))
	wantIs(t, err, driver.ErrHeld, "a writer next to readers")
	for _, r := range append(rs, alone) {
		free(t, s, r)
	}
	if g := take(t, other, request("job")); g.Fence <= fence {
		t.Errorf("the writer after readers with fence %d has %d", fence, g.Fence)
	}
}

// TestReadersThatMustWait: no hold is granted while a writer has the name, in front of waiters,
// or to a token that was released before.
func TestReadersThatMustWait(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	none := func(when string, rs []driver.Request, want int) {
		t.Helper()
		if grants, err := s.AcquireShared(t.Context(), rs); err != nil || len(grants) != want {
			t.Errorf("%s: %d grants, %v", when, len(grants), err)
		}
	}
	writer := request("job")
	take(t, s, writer)
	none("next to a writer", readersOf("job", 3), 0)
	free(t, s, writer)
	reader := reading(request("job"))
	take(t, s, reader)
	w := waits(t, opened(t, srv.Addr()), "job")
	none("in front of a waiter", readersOf("job", 3), 0)
	free(t, s, reader)
	w.got()
	free(t, w.s, w.r)
	late := readersOf("job", 3)
	if _, err := s.Release(t.Context(), "job", late[1].Token, 0); err != nil {
		t.Fatal(err)
	}
	none("with a token that was released", late, 1)
	mixed := readersOf("job", 2)
	mixed[1].Shared = false
	_, err := s.AcquireShared(t.Context(), mixed)
	wantIs(t, err, driver.ErrInvalid, "a writer among the readers")
	_, err = opened(t, srv.Addr(), redisstore.PlainStrings()).AcquireShared(t.Context(), late)
	if err == nil {
		t.Error("strings have no shared mode")
	}
}
