package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestStoreID: each prefix and each database has its own id. The id is written once, and a new one
// is made after the data was lost.
func TestStoreID(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	s := opened(t, srv.Addr(), redisstore.RestartGuard(redisstore.GuardOff))
	id := func(s *redisstore.Store) string {
		t.Helper()
		id, err := s.StoreID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	take(t, s, request("job"))
	if n := askBy(t, c, "EXISTS", "padlock:{id}"); n != "0" {
		t.Error("a hold has written an id")
	}
	first := id(s)
	if askBy(t, c, "GET", "padlock:{id}") != first || askBy(t, c, "PTTL", "padlock:{id}") != "-1" {
		t.Errorf("the id is %q, and the key is not", first)
	}
	if other := id(opened(t, srv.Addr(), redisstore.PlainStrings())); other != first {
		t.Errorf("a second store has the id %q, the first %q", other, first)
	}
	if other := id(opened(t, srv.Addr(), redisstore.Prefix("app:"))); other == first || askBy(t, c, "GET", "app:padlock:{id}") != other {
		t.Errorf("a store with a prefix has the id %q", other)
	}
	elsewhere := at(srv.Addr())
	elsewhere.DB = 1
	d, err := redisstore.Open(t.Context(), elsewhere, fresh(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if id(d) == first {
		t.Error("another database has the same id")
	}
	srv.Restart(false)
	eventually(t, "a new id after the data was lost", func() bool {
		next, err := s.StoreID(t.Context())
		return err == nil && next != first
	})
}

// TestStoreIDInARace opens many stores at once: all have one id.
func TestStoreIDInARace(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Cluster: true})
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		s, err := fromURL("redis+cluster://" + srv.Addr() + "?prefix=a{b}:")(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		wg.Go(func() {
			var err error
			if ids[i], err = s.(*redisstore.Store).StoreID(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("the ids are %q", ids)
		}
	}
}

// TestStoreIDOfAnotherProgram: StoreID fails if its key holds something else.
func TestStoreIDOfAnotherProgram(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	askBy(t, c, "SET", "padlock:{id}", "not an id")
	s := opened(t, srv.Addr())
	_, err := s.StoreID(t.Context())
	wantIs(t, err, driver.ErrUnavailable, "StoreID with something else at its key")
	askBy(t, c, "DEL", "padlock:{id}")
	if _, err := s.StoreID(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStoreIDOfASilentServer asks a frozen server for the id, twice at the same time. The second
// call ends with its context, although the first one goes on.
func TestStoreIDOfASilentServer(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr()) // is patient, so that the first call does not give up before the second one
	srv.Pause()
	defer srv.Resume()
	long, endLong := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		_, err := s.StoreID(long)
		ended <- err
	}()
	<-time.After(100 * time.Millisecond) // the first call has been sent
	short, endShort := context.WithCancel(t.Context())
	go func() {
		_, err := s.StoreID(short)
		ended <- err
	}()
	<-time.After(100 * time.Millisecond)
	endShort()
	// If it waited for the first call, it would go on until that one gives up, with another error.
	wantIs(t, <-ended, context.Canceled, "the second call")
	endLong()
	wantIs(t, <-ended, context.Canceled, "the first call")
}
