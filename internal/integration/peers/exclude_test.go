package peers

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestPHPExcludes has each side meet the other's exclusive and shared holds.
func TestPHPExcludes(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, prefix := range []string{"", "shop:"} {
		s, p := opened(t, srv, redisstore.Prefix(prefix)), startPHP(t, srv, prefix)
		for _, name := range []string{"job", "report/42:daily run", "{a}{b", "é\x00\xff\n", "__write__"} {
			theirs, second := p.lock(name), p.lock(name)
			ours := request(name)
			take(t, s, ours)
			theirs.cannot("acquire")
			theirs.cannot("read")
			free(t, s, ours)

			theirs.must("acquire")
			second.cannot("acquire")
			foreign(t, s, request(name), false)
			foreign(t, s, reading(name), false)
			theirs.must("release")

			ours = reading(name)
			take(t, s, ours)
			theirs.cannot("acquire")
			theirs.must("read")
			refused(t, s, request(name))
			free(t, s, ours)
			foreign(t, s, request(name), true)
			ours = reading(name)
			take(t, s, ours)
			second.must("read")
			theirs.must("release")
			second.must("release")
			free(t, s, ours)
		}
	}
}

// TestPHPPromotesAndDemotes has each side meet the other's conversions.
func TestPHPPromotesAndDemotes(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	theirs, ours := p.lock("job"), reading("job")

	theirs.must("read")
	take(t, s, ours)
	theirs.cannot("acquire") // its promotion, while we read
	theirs.must("held")      // its shared hold is as it was
	free(t, s, ours)
	theirs.must("acquire")
	foreign(t, s, reading("job"), false)
	theirs.must("read") // its demotion
	ours = reading("job")
	before := take(t, s, ours)

	exclusive := ours
	exclusive.Shared = false
	_, err := s.Convert(t.Context(), exclusive)
	wantIs(t, err, driver.ErrHeld, "our promotion, while PHP reads")
	theirs.must("release")
	g, err := s.Convert(t.Context(), exclusive)
	if err != nil || !safety.Rises(t, g.Fence, before.Fence) {
		t.Fatalf("our promotion, when PHP has gone: %+v, %v", g, err)
	}
	theirs.cannot("read")
	if _, err := s.Convert(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	theirs.must("read")
	theirs.cannot("acquire")
	free(t, s, ours)
}

// TestPHPReadersPassOurPromotion documents a limit: PHP prefers readers, and does not see that a
// writer waits or that a reader waits for a promotion. Padlock's readers do see it.
func TestPHPReadersPassOurPromotion(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	first, second := p.lock("job"), p.lock("job")
	first.must("read")
	ours := reading("job")
	take(t, s, ours)
	promoted := ours
	promoted.Shared = false
	for kept := false; !kept; {
		asked := time.Now()
		_, err := s.Convert(t.Context(), promoted)
		wantIs(t, err, driver.ErrHeld, "our promotion, while PHP reads")
		r := reading("job")
		if _, err = s.Acquire(t.Context(), r); err == nil && time.Since(asked) > 1900*time.Millisecond {
			free(t, s, r) // the intent lasts for two seconds, and they were over
			continue
		}
		wantIs(t, err, driver.ErrHeld, "our reader, while the intent keeps it out")
		kept = true
	}
	second.must("read")
	free(t, s, ours)

	l := locker(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, "job")
		done <- err
	}()
	eventually(t, "our writer waits", func() bool {
		st, err := s.Inspect(t.Context(), "job")
		return err == nil && st.Waiters == 1
	})
	refused(t, s, reading("job"))
	first.must("release")
	first.must("read")
	cancel()
	wantIs(t, <-done, context.Canceled, "our writer, when it gave up")
}

// TestPHPExpires has each side outlive a lease of the other.
func TestPHPExpires(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p, crashes := opened(t, srv), startPHP(t, srv, ""), startPHP(t, srv, "")

	ends := time.Now().Add(10 * time.Second) // the lease begins later than now
	if a := crashes.lock("job").ask("acquire", 10); !a.OK {
		t.Fatalf("%+v", a)
	}
	crashes.kill()
	until := foreign(t, s, request("job"), false).Until
	ours := request("job")
	ours.TTL = 10 * time.Second
	var g driver.Grant
	eventually(t, "PHP's lease ends", func() (ok bool) {
		var err error
		g, err = s.Acquire(t.Context(), ours)
		return err == nil
	})
	// Until was worked out from a remaining time; it may be early by a few ms, and late on a slow
	// machine.
	early := ends.Add(-100 * time.Millisecond)
	if until.Before(early) || time.Now().Before(early) || g.Fence == 0 {
		t.Errorf("PHP's lease ended at %v or later, was said to end at %v, and padlock has %+v", ends, until, g)
	}

	theirs := p.lock("job")
	theirs.cannot("acquire")
	eventually(t, "our lease ends", func() bool { return theirs.ask("acquire", 0).OK })
	_, err := s.Extend(t.Context(), "job", ours.Token.Text(), time.Minute)
	wantIs(t, err, driver.ErrLost, "Extend of a lease that ended")
	if out, err := s.Release(t.Context(), "job", ours.Token.Text(), 0); err != nil || out == driver.OutcomeReleased {
		t.Errorf("Release of a lease that ended: %v, %v", out, err)
	}
	theirs.must("held")
}

// TestPHPFirstLeaseIsFiveMinutes documents a limit: PHP takes a lock for 300 s, and only its next
// request sets the TTL that the program asked for. A process that dies in between leaves the name
// taken for 300 s.
func TestPHPFirstLeaseIsFiveMinutes(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	p.lock("job").must("save")
	p.kill()
	if left := time.Until(foreign(t, s, request("job"), false).Until); left < 3*time.Minute {
		t.Errorf("the first lease of PHP's lasts %v", left)
	}
}

// TestPHPHonoursCoolDowns: PHP does not get a name that is kept taken, by a cool-down.
func TestPHPHonoursCoolDowns(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	for name, cool := range map[string]time.Duration{"cool": 90 * time.Second, "brief": time.Second} {
		r := request(name)
		take(t, s, r)
		if out, err := s.Release(t.Context(), name, r.Token.Text(), cool); err != nil || out != driver.OutcomeReleased {
			t.Fatal(out, err)
		}
	}
	theirs := p.lock("cool")
	theirs.cannot("acquire")
	theirs.cannot("read")
	eventually(t, "the cool-down is over for PHP", func() bool { return p.lock("brief").ask("acquire", 0).OK })
	p.lock("cool").cannot("acquire")
}

// TestPHPKnowsNoFence documents a limit: a hold of PHP makes no fence. So the fences of two padlock
// holds do not show that PHP held the name in between, and a guard at the resource does not stop
// PHP.
func TestPHPKnowsNoFence(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	ours := request("job")
	first := take(t, s, ours)
	free(t, s, ours)
	theirs := p.lock("job")
	theirs.must("acquire")
	st, err := s.Inspect(t.Context(), "job")
	if err != nil || st.Fence != first.Fence || len(st.Holds) != 1 || !st.Holds[0].Foreign {
		t.Errorf("while PHP holds the name: %+v, %v; our fence was %d", st, err, first.Fence)
	}
	theirs.must("release")
	safety.Rises(t, take(t, s, request("job")).Fence, first.Fence)
}

// TestPHPDoesNotShareOurKeys documents a limit: a name that looks like one of padlock's own keys is
// kept at another key, so that the two are not confused.
func TestPHPDoesNotShareOurKeys(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	const name = "padlock:{abc}f:job"
	take(t, s, request(name))
	p.lock(name).must("acquire")
	refused(t, s, request(name))
	take(t, s, request("job"))
	p.lock("padlock:x").must("acquire")
	foreign(t, s, request("padlock:x"), false)
}

// TestNamesOfPHPOnly uses names that PHP locks and padlock refuses. Nobody else gets in while PHP
// holds them.
func TestNamesOfPHPOnly(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, p := opened(t, srv), startPHP(t, srv, "")
	for _, name := range []string{"", strings.Repeat("x", 1025)} {
		p.lock(name).must("acquire")
		_, err := s.Acquire(t.Context(), request(name))
		wantIs(t, err, driver.ErrInvalid, "Acquire of a name with "+strconv.Itoa(len(name))+" bytes")
	}
	longest := strings.Repeat("x", 1024)
	p.lock(longest).must("acquire")
	foreign(t, s, request(longest), false)
}
