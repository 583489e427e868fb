package peers

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/redis/rueidis"
)

// TestPHPUsesOurToken has PHP refresh, demote and release a hold of padlock.
func TestPHPUsesOurToken(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	ours := request("job")
	g := take(t, s, ours)
	same := p.lockAs("job", ours.Token.Text())
	same.must("held")
	if a := same.ask("refresh", 200); !a.OK || a.Token != ours.Token.Text() {
		t.Fatalf("%+v", a)
	}
	after, err := s.Extend(t.Context(), "job", ours.Token.Text(), 0)
	if err != nil || after.TTL < 2*time.Minute || after.Fence != g.Fence {
		t.Errorf("after PHP's refresh: %+v, %v; the fence was %d", after, err, g.Fence)
	}
	same.must("read") // PHP demotes it
	reader := p.lock("job")
	reader.must("read")
	for _, ttl := range []time.Duration{0, 4 * time.Minute} {
		if g, err := s.Extend(t.Context(), "job", ours.Token.Text(), ttl); err != nil || !g.Shared {
			t.Errorf("Extend by %v of a hold that PHP demoted: %+v, %v", ttl, g, err)
		}
	}
	same.cannot("acquire")
	reader.must("release")
	same.must("acquire") // and promotes it
	if g, err := s.Extend(t.Context(), "job", ours.Token.Text(), 0); err != nil || g.Shared {
		t.Errorf("Extend of a hold that PHP promoted: %+v, %v", g, err)
	}
	refused(t, s, reading("job"))
	same.must("release")
	_, err = s.Extend(t.Context(), "job", ours.Token.Text(), time.Minute)
	wantIs(t, err, driver.ErrLost, "Extend after PHP released the hold")
	if out, err := s.Release(t.Context(), "job", ours.Token.Text(), 0); err != nil || out != driver.OutcomeGone {
		t.Errorf("Release after PHP released the hold: %v, %v", out, err)
	}
	safety.Rises(t, take(t, s, request("job")).Fence, g.Fence)
}

// TestPHPDemotesOurLock lets PHP demote a lock. Package padlock reports it as shared after it has
// asked the store.
func TestPHPDemotesOurLock(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	l, p := locker(t, srv), startPHP(t, srv, "")
	lock, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	token := member(t, rawClient(t, srv), "job")
	p.lockAs("job", token).must("read")
	p.lock("job").must("read")
	if err := lock.Check(t.Context()); err != nil || !lock.Shared() {
		t.Errorf("Check of a lock that PHP demoted: %v; it says shared: %v", err, lock.Shared())
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// member returns the token of the holder of name.
func member(t *testing.T, c rueidis.Client, name string) string {
	t.Helper()
	all, err := c.Do(t.Context(), c.B().Zrange().Key(name).Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m != "__write__" {
			return m
		}
	}
	t.Fatalf("nobody holds %q", name)
	return ""
}

// TestWeUsePHPsToken verifies, extends, demotes and releases a hold of PHP's.
func TestWeUsePHPsToken(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	theirs := p.lock("job")
	token := theirs.must("acquire").Token
	if len(token) != 44 {
		t.Fatalf("PHP's token has %d bytes", len(token))
	}
	g, err := s.Extend(t.Context(), "job", token, 4*time.Minute)
	if err != nil || g.TTL < 3*time.Minute {
		t.Fatalf("Extend with PHP's token: %+v, %v", g, err)
	}
	theirs.must("held")
	if until := foreign(t, s, request("job"), false).Until; time.Until(until) < 3*time.Minute {
		t.Errorf("after our Extend the hold ends at %v", until)
	}
	wrong, err := s.Release(t.Context(), "job", newToken(), 0)
	if err != nil || wrong == driver.OutcomeReleased {
		t.Errorf("Release with a token that nobody has: %v, %v", wrong, err)
	}
	theirs.must("held")
	if out, err := s.Release(t.Context(), "job", token, 0); err != nil || out != driver.OutcomeReleased {
		t.Errorf("Release with PHP's token: %v, %v", out, err)
	}
	theirs.cannot("held")
	theirs.cannot("refresh")
	take(t, s, request("job"))
}

// TestWeAdoptFromPHP replaces PHP's token by one of padlock's own, with a fence. After that PHP no
// longer holds the lock.
func TestWeAdoptFromPHP(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	for _, do := range []string{"acquire", "read"} {
		theirs := p.lock(do)
		r := request(do)
		r.Shared = do == "read"
		r.Replaces = driver.TokenOf(theirs.must(do).Token)
		g, err := s.Acquire(t.Context(), r)
		if err != nil || g.Fence == 0 {
			t.Fatalf("Acquire that replaces PHP's hold: %+v, %v", g, err)
		}
		theirs.cannot("held")
		theirs.cannot("refresh")
		theirs.must("release") // of a lock that is lost: PHP says nothing
		if _, err := s.Extend(t.Context(), do, r.Token.Text(), time.Minute); err != nil {
			t.Errorf("Extend after PHP's vain release: %v", err)
		}
		st, err := s.Inspect(t.Context(), do)
		if err != nil || len(st.Holds) != 1 || st.Holds[0].Foreign || st.Holds[0].Shared != r.Shared || st.Holds[0].Label != "nightly" {
			t.Errorf("%+v, %v", st, err)
		}
	}
}
