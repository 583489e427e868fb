package redisstore_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// A caller's own token (padlock.Token) looks like no token of padlock's. The key of its lock expires
// with the lease all the same, or the lock of a process that died would stay in the server.
func TestOwnTokensExpire(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, c := opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	shared, above, replaces := reading(request("shared")), request("above"), request("replaces")
	above.FenceAbove = 1
	take(t, s, replaces)
	replaces.Replaces = replaces.Token
	for i, r := range []driver.Request{request("plain"), shared, above, replaces} {
		r.Token = driver.TokenOf("job-" + strconv.Itoa(i))
		take(t, s, r)
		if left, err := strconv.Atoi(askBy(t, c, "PTTL", r.Name)); err != nil || left <= 0 {
			t.Errorf("%s: the key of a lock with a caller's own token expires in %d ms, %v", r.Name, left, err)
		}
	}
}

// Neither the token nor the hold that it replaces is live: the error is ErrLost, even if the lease of
// the token has expired and nobody has come since.
func TestReplaceAfterTheEnd(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, c := opened(t, srv.Addr(), redisstore.OnlyPadlock()), rawClient(t, single(srv.Addr()))
	r := request("job")
	take(t, s, r)
	askBy(t, c, "DEL", "job") // as at the end of its lease
	if _, err := s.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); !errors.Is(err, driver.ErrExpired) {
		t.Fatalf("Extend after the end of the lease: %v", err)
	}
	r.Replaces = driver.TokenOf("another")
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrLost) {
		t.Errorf("a request that replaces nothing, with a token whose lease has expired: %v, want %v", err, driver.ErrLost)
	}
}

// A reader wants to be promoted, and its lease ends. The same token takes the lock exclusively and is
// demoted. It does not wait for a promotion any more, so it keeps no new readers out.
func TestDemotionEndsTheIntent(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, c := opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	other, mine, third := reading(request("job")), reading(request("job")), reading(request("job"))
	take(t, s, other)
	take(t, s, mine)
	mine.Shared = false
	if _, err := s.Convert(t.Context(), mine); !errors.Is(err, driver.ErrHeld) {
		t.Fatalf("a promotion beside another reader: %v", err)
	}
	askBy(t, c, "ZREM", "job", mine.Token.Text()) // as at the end of its lease
	free(t, s, other)
	take(t, s, mine)
	mine.Shared = true
	if _, err := s.Convert(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), third); err != nil {
		t.Errorf("a new reader beside a demoted lock: %v", err)
	}
}
