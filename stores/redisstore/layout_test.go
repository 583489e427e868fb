package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestSetOnTheWire looks at the keys as Symfony would.
func TestSetOnTheWire(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	c := rawClient(t, single(srv.Addr()))
	members := func() map[string]float64 {
		t.Helper()
		all, err := c.Do(t.Context(), c.B().Zrange().Key("job").Min("0").Max("-1").Withscores().Build()).AsZScores()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, m := range all {
			out[m.Member] = m.Score
		}
		return out
	}
	r := request("job")
	take(t, s, r)
	m := members()
	if len(m) != 2 || m[r.Token.Text()] == 0 || m[r.Token.Text()] != m["__write__"] {
		t.Errorf("an exclusive hold is kept as %v", m)
	}
	if left := time.Until(time.UnixMilli(int64(m[r.Token.Text()]))); left > r.TTL || left < r.TTL-10*time.Second {
		t.Errorf("the score says %v, the lease is %v", left, r.TTL)
	}
	if at := askBy(t, c, "PEXPIRETIME", "job"); at != strconv.FormatFloat(m[r.Token.Text()], 'f', 0, 64) {
		t.Errorf("the key expires at %s, the lease ends at %v", at, m[r.Token.Text()])
	}
	if out, err := s.Release(t.Context(), "job", r.Token.Text(), time.Minute); err != nil || out != driver.OutcomeReleased {
		t.Fatal(out, err)
	}
	if m = members(); len(m) != 2 || m["__write__"] == 0 || m[r.Token.Text()] != 0 {
		t.Errorf("a cool-down is kept as %v: PHP would not honour it", m)
	}
	askBy(t, c, "DEL", "job")
	one, two := reading(request("job")), reading(request("job"))
	take(t, s, one)
	take(t, s, two)
	if m = members(); len(m) != 2 || m["__write__"] != 0 || m[one.Token.Text()] == 0 || m[two.Token.Text()] == 0 {
		t.Errorf("two readers are kept as %v", m)
	}
}

// TestSymfonyWithOurToken lets PHP refresh, demote and release a hold of padlock. PHP can do that
// after it got a serialised key.
func TestSymfonyWithOurToken(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, c := opened(t, srv.Addr(), redisstore.MaxTTL(5*time.Minute)), rawClient(t, single(srv.Addr()))
	r := request("job")
	take(t, s, r)
	later := strconv.FormatInt(time.Now().Add(4*time.Minute).UnixMilli(), 10)
	for _, member := range []string{r.Token.Text(), "__write__"} {
		askBy(t, c, "ZADD", "job", later, member)
	}
	askBy(t, c, "PEXPIREAT", "job", later)
	g, err := s.Extend(t.Context(), "job", r.Token.Text(), 0)
	if err != nil || g.TTL < 3*time.Minute || g.Shared {
		t.Errorf("after a refresh by PHP: %+v, %v", g, err)
	}
	askBy(t, c, "ZREM", "job", "__write__") // saveRead with the same token
	other := reading(request("job"))
	take(t, s, other)
	for _, ttl := range []time.Duration{0, 5 * time.Minute, 0} {
		if g, err := s.Extend(t.Context(), "job", r.Token.Text(), ttl); err != nil || !g.Shared {
			t.Errorf("Extend by %v after PHP demoted the hold: %+v, %v", ttl, g, err)
		}
	}
	third := reading(request("job"))
	take(t, s, third) // Extend did not make it exclusive again
	free(t, s, third)
	askBy(t, c, "ZREM", "job", r.Token.Text(), "__write__") // delete
	_, err = s.Extend(t.Context(), "job", r.Token.Text(), 50*time.Second)
	wantIs(t, err, driver.ErrLost, "Extend after PHP released the hold")
	if out, err := s.Release(t.Context(), "job", r.Token.Text(), 0); err != nil || out != driver.OutcomeGone {
		t.Errorf("Release after PHP released the hold: %v, %v", out, err)
	}
	if _, err := s.Extend(t.Context(), "job", other.Token.Text(), 0); err != nil {
		t.Errorf("another reader, after that: %v", err)
	}
}

// TestReleaseOfWhatSymfonyDemoted releases a hold that PHP has demoted with its token, while
// another reader holds the name and a writer waits: the writer goes on waiting.
func TestReleaseOfWhatSymfonyDemoted(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, c := opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	r := request("job")
	take(t, s, r)
	w := waits(t, s, "job")
	later, foreign := strconv.FormatInt(time.Now().Add(4*time.Minute).UnixMilli(), 10), newToken()
	askBy(t, c, "ZREM", "job", "__write__")
	askBy(t, c, "ZADD", "job", later, foreign)
	askBy(t, c, "PEXPIREAT", "job", later)
	free(t, s, r)
	if st, err := s.Inspect(t.Context(), "job"); err != nil || len(st.Holds) != 1 || !st.Holds[0].Foreign || !st.Holds[0].Shared || st.Waiters != 1 {
		t.Errorf("a waiting writer with a foreign reader: %+v, %v", st, err)
	}
	askBy(t, c, "ZREM", "job", foreign)
	w.got()
}

// TestForeignHolds meets holds of other programs in each layout.
func TestForeignHolds(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	set, plain := opened(t, srv.Addr()), opened(t, srv.Addr(), redisstore.PlainStrings())
	phpRelease, err := symfony(c, "php", "foreign", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plainLock(c, "go", "foreign", time.Minute); err != nil {
		t.Fatal(err)
	}
	askBy(t, c, "SET", "endless", "foreign")
	for _, row := range []struct {
		s    driver.Store
		name string
	}{{set, "php"}, {set, "go"}, {plain, "go"}, {plain, "endless"}} {
		_, err := row.s.Acquire(t.Context(), request(row.name))
		var held *driver.HeldError
		if !errors.As(err, &held) || !held.Foreign() || held.Until.IsZero() != (row.name == "endless") {
			t.Errorf("Acquire of %s with a foreign hold: %v", row.name, err)
		}
	}
	// A lease that has run out blocks nobody, and neither does a member of the set whose lease has
	// run out.
	if _, err := symfony(c, "php for a second", "foreign", time.Second); err != nil {
		t.Fatal(err)
	}
	r := request("php for a second")
	eventually(t, "Acquire after PHP's lease ended", func() bool { _, err := set.Acquire(t.Context(), r); return err == nil })
	if err := phpRelease(); err != nil {
		t.Fatal(err)
	}
	take(t, set, request("php"))
}

func TestWrongTypes(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	set, plain := opened(t, srv.Addr()), opened(t, srv.Addr(), redisstore.PlainStrings())
	bare := opened(t, srv.Addr(), redisstore.PlainStrings(), redisstore.NoFences())
	askBy(t, c, "RPUSH", "list", "x")
	askBy(t, c, "HSET", "hash", "f", "v")
	askBy(t, c, "ZADD", "zset", "1", "x")
	askBy(t, c, "SET", "string", "x")
	for _, row := range []struct {
		s     *redisstore.Store
		names []string
	}{{set, []string{"list", "hash", "string"}}, {plain, []string{"list", "hash", "zset"}}, {bare, []string{"list", "zset"}}} {
		for _, name := range row.names {
			r := request(name)
			_, err := row.s.Acquire(t.Context(), r)
			wantIs(t, err, driver.ErrInvalid, "Acquire of a name whose key holds a "+name)
			if !strings.Contains(err.Error(), name) {
				t.Errorf("the error does not say what the key holds: %v", err)
			}
			_, err = row.s.Wait(t.Context(), r, true)
			wantIs(t, err, driver.ErrInvalid, "Wait")
			_, err = row.s.Release(t.Context(), name, r.Token.Text(), 0)
			wantIs(t, err, driver.ErrInvalid, "Release")
			_, err = row.s.Extend(t.Context(), name, r.Token.Text(), r.TTL)
			wantIs(t, err, driver.ErrInvalid, "Extend")
			_, err = row.s.Inspect(t.Context(), name)
			wantIs(t, err, driver.ErrInvalid, "Inspect")
			_, err = row.s.Break(t.Context(), name, 0)
			wantIs(t, err, driver.ErrInvalid, "Break")
		}
	}
	for _, name := range []string{"list", "hash", "zset", "string"} {
		if got := askBy(t, c, "TYPE", name); got != name {
			t.Errorf("a refused call made a %s of a %s", got, name)
		}
	}
}

// TestOnlyPadlock: if a lease ran out and nobody has taken the name since, the hold is reported as
// expired.
func TestOnlyPadlock(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, opts := range [][]redisstore.Option{{redisstore.OnlyPadlock()}, {redisstore.OnlyPadlock(), redisstore.PlainStrings(), redisstore.Prefix("s:")}} {
		s := opened(t, srv.Addr(), opts...)
		r := request("job")
		r.TTL = driver.MinTTL
		take(t, s, r)
		lapses := func() {
			eventually(t, "the lease runs out", func() bool {
				st, err := s.Inspect(t.Context(), "job")
				return err == nil && len(st.Holds) == 0
			})
		}
		lapses()
		_, err := s.Extend(t.Context(), "job", r.Token.Text(), r.TTL)
		wantIs(t, err, driver.ErrExpired, "Extend of a lease that ran out")
		if out, err := s.Release(t.Context(), "job", r.Token.Text(), 0); err != nil || out != driver.OutcomeExpired {
			t.Errorf("Release of a lease that ran out: %v, %v", out, err)
		}
		if out, err := s.Release(t.Context(), "job", r.Token.Text(), 0); err != nil || out != driver.OutcomeGone {
			t.Errorf("a second Release: %v, %v", out, err)
		}
		next := request("job")
		take(t, s, next)
		free(t, s, next)
		_, err = s.Extend(t.Context(), "job", next.Token.Text(), r.TTL)
		wantIs(t, err, driver.ErrLost, "Extend of a hold that was released")
		r = request("job")
		r.TTL = driver.MinTTL
		take(t, s, r)
		lapses()
		take(t, s, request("job"))
		if out, err := s.Release(t.Context(), "job", r.Token.Text(), 0); err != nil || out != driver.OutcomeGone && out != driver.OutcomeTaken {
			t.Errorf("Release of a lease that was taken: %v, %v", out, err)
		}
		if !s.Guarantees().Shared {
			continue
		}
		r.Name = "read"
		take(t, s, r)
		reader := reading(request("read"))
		eventually(t, "a reader takes the name", func() bool { _, err := s.Acquire(t.Context(), reader); return err == nil })
		free(t, s, reader)
		_, err = s.Extend(t.Context(), "read", r.Token.Text(), r.TTL)
		wantIs(t, err, driver.ErrLost, "Extend of a lease after a reader had the name")
		if out, err := s.Release(t.Context(), "read", r.Token.Text(), 0); err != nil || out != driver.OutcomeGone {
			t.Errorf("Release of a lease after a reader had the name: %v, %v", out, err)
		}
	}
}

// TestLateAcquire: an Acquire that arrives after the release of its token is refused.
func TestLateAcquire(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, opts := range [][]redisstore.Option{nil, {redisstore.PlainStrings(), redisstore.Prefix("s:")}} {
		s := opened(t, srv.Addr(), opts...)
		r := request("job")
		if out, err := s.Release(t.Context(), "job", r.Token.Text(), 0); err != nil || out != driver.OutcomeGone {
			t.Fatal(out, err)
		}
		_, err := s.Acquire(t.Context(), r)
		wantIs(t, err, driver.ErrLost, "an Acquire that comes after its token's Release")
		take(t, s, request("job"))
	}
}

// TestNothingStays: after each kind of request, every key has an expiry.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	for _, opts := range [][]redisstore.Option{nil, {redisstore.PlainStrings(), redisstore.Prefix("s:")}, {redisstore.Foreign(), redisstore.Prefix("f:")}} {
		s := opened(t, srv.Addr(), opts...)
		r := request("waited for")
		take(t, s, r)
		w, gone := waits(t, s, r.Name), waits(t, s, r.Name)
		gone.cancel()
		<-gone.done
		free(t, s, r)
		w.got()
		late := request("late")
		if _, err := s.Release(t.Context(), late.Name, late.Token.Text(), 0); err != nil {
			t.Fatal(err)
		}
		cooling := request("cooling")
		take(t, s, cooling)
		if _, err := s.Release(t.Context(), cooling.Name, cooling.Token.Text(), 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		if s.Guarantees().Shared {
			readers(t, s)
		}
	}
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil || len(keys) < 20 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		if ttl := askBy(t, c, "PTTL", key); strings.HasPrefix(ttl, "-") || len(ttl) < 4 {
			t.Errorf("%s stays: PTTL %s", key, ttl)
		}
	}
}

// readers makes the keys of readers, one of which waits to be promoted.
func readers(t *testing.T, s *redisstore.Store) {
	t.Helper()
	one, two := reading(request("read")), reading(request("read"))
	take(t, s, one)
	take(t, s, two)
	up := one
	up.Shared = false
	if _, err := s.Convert(t.Context(), up); !errors.Is(err, driver.ErrHeld) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Wait(ctx, up, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := s.Wait(ctx, request("read"), false); err == nil {
		t.Fatal("the bell rang")
	}
}

// TestCoolDownSaysWhoseItWas: during the cool-down, the refusal names the last holder.
func TestCoolDownSaysWhoseItWas(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, opts := range [][]redisstore.Option{nil, {redisstore.PlainStrings()}} {
		s := opened(t, srv.Addr(), opts...)
		r := request("job")
		take(t, s, r)
		if _, err := s.Release(t.Context(), "job", r.Token.Text(), time.Minute); err != nil {
			t.Fatal(err)
		}
		_, err := s.Acquire(t.Context(), request("job"))
		var held *driver.HeldError
		if !errors.As(err, &held) || len(held.Holds) != 1 || !held.Holds[0].Cooling || held.Holds[0].Holder != r.Holder {
			t.Errorf("Acquire during the cool-down: %v (%+v)", err, held)
		}
		st, err := s.Inspect(t.Context(), "job")
		if err != nil || len(st.Holds) != 1 || !st.Holds[0].Cooling || st.Holds[0].Holder != r.Holder {
			t.Errorf("Inspect during the cool-down: %+v, %v", st, err)
		}
		ask(t, srv, "FLUSHALL")
	}
}
