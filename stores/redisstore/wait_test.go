package redisstore_test

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

func mustParse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// waiting is a waiter in a goroutine of its own.
type waiting struct {
	t      testing.TB
	s      *redisstore.Store
	r      driver.Request
	cancel context.CancelFunc
	done   chan waited
}

type waited struct {
	g   driver.Grant
	err error
	at  time.Time
}

// waits starts a waiter, and returns when the waiter is in the queue.
func waits(t testing.TB, s *redisstore.Store, name string) *waiting {
	t.Helper()
	return waitsFor(t, s, request(name))
}

func waitsFor(t testing.TB, s *redisstore.Store, r driver.Request) *waiting {
	t.Helper()
	return waitsFrom(t, s, s, r)
}

// waitsFrom asks another store whether the waiter is in the queue.
func waitsFrom(t testing.TB, s, looker *redisstore.Store, r driver.Request) *waiting {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiting{t, looker, r, cancel, make(chan waited, 1)}
	before := w.queued()
	go func() {
		g, err := s.Wait(ctx, r, true)
		w.done <- waited{g, err, time.Now()}
	}()
	t.Cleanup(cancel)
	eventually(t, "the waiter is in the queue", func() bool { return w.queued() > before })
	w.s = s
	return w
}

func (w *waiting) queued() int {
	st, err := w.s.Inspect(context.Background(), w.r.Name)
	if err != nil {
		w.t.Fatal(err)
	}
	return st.Waiters
}

// got waits until the name is handed over, and claims it. If the reservation had lapsed before the
// claim, the name may have been granted anew.
func (w *waiting) got() (g driver.Grant, at time.Time) {
	w.t.Helper()
	var a waited
	select {
	case a = <-w.done:
	case <-time.After(time.Minute):
		w.t.Fatal("the name was not handed over within a minute")
	}
	if a.err != nil || a.g.TTL <= 0 {
		w.t.Fatalf("Wait: %+v, %v", a.g, a.err)
	}
	g, err := w.s.Acquire(w.t.Context(), w.r)
	if err != nil || g.Fence != a.g.Fence && !lapsed(a.g) {
		w.t.Fatalf("the claim of fence %d: %+v, %v", a.g.Fence, g, err)
	}
	return g, a.at
}

// lapsed reports whether a reservation may have ended before it was used, as on a busy machine. Its
// fence is the time of the hand-over on the server's clock, which is this machine's clock.
func lapsed(g driver.Grant) bool {
	return time.Since(time.UnixMicro(int64(g.Fence))) >= driver.MaxReservation
}

// TestFirstComeFirstServed lets fifty processes wait for one name.
func TestFirstComeFirstServed(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, opts := range [][]redisstore.Option{nil, {redisstore.PlainStrings(), redisstore.Prefix("s:")}} {
		first := opened(t, srv.Addr(), opts...)
		r := request("job")
		take(t, first, r)
		var line []*waiting
		for range 50 {
			w := waits(t, opened(t, srv.Addr(), opts...), "job")
			defer w.s.Close()
			line = append(line, w)
		}
		free(t, first, r)
		last := uint64(0)
		for i, w := range line {
			g, _ := w.got()
			if g.Fence <= last {
				t.Fatalf("waiter %d has fence %d, the one before it %d", i, g.Fence, last)
			}
			last = g.Fence
			for _, other := range line[i+1:] {
				if len(other.done) > 0 {
					t.Fatalf("somebody was called before waiter %d had released", i)
				}
			}
			free(t, w.s, w.r)
		}
	}
}

// TestManyBlocked counts the requests of fifty processes, which all wait.
func TestManyBlocked(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	first := opened(t, srv.Addr())
	take(t, first, request("job"))
	var line []*waiting
	for range 50 {
		line = append(line, waits(t, opened(t, srv.Addr()), "job"))
	}
	// Soon after joining, each waiter has looked at the name once more.
	timer := time.NewTimer(4 * time.Second)
	<-timer.C
	const seconds = 5
	before, sent, began := commands(t, srv), callsOf(t, srv, "ping"), time.Now()
	timer.Reset(seconds * time.Second)
	<-timer.C
	n, pings := commands(t, srv)-before, callsOf(t, srv, "ping")-sent
	if took := time.Since(began); float64(n+pings) > 10*took.Seconds() {
		t.Errorf("fifty waiters asked %d times in %v, and sent %d pings", n, took, pings)
	}
	for _, w := range line {
		w.cancel()
	}
}

// TestDeadWaiters: three waiters whose processes are gone stand in front of a living one. If their
// connections are gone too, they cost the living waiter no time. If they are frozen, they cost it
// the time of their reservations, but it does not have to wait for its next regular look.
func TestDeadWaiters(t *testing.T) {
	for _, row := range []struct {
		name   string
		frozen bool
		age    time.Duration
	}{{"killed", false, 0}, {"frozen", true, 0}, {"frozen for long", true, 800 * time.Millisecond}} {
		t.Run(row.name, func(t *testing.T) {
			if row.frozen {
				server.Thorough(t)
			}
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			first := opened(t, srv.Addr())
			r := request(row.name)
			take(t, first, r)
			for range 3 {
				deadWaiter(t, srv, row.name, row.frozen)
			}
			living := waits(t, opened(t, srv.Addr()), row.name)
			pause(t.Context(), row.age)
			if !row.frozen {
				eventually(t, "the server has noticed", func() bool {
					return strings.Count(ask(t, srv, "CLIENT", "LIST", "TYPE", "pubsub"), "\n") == 1
				})
			}
			began := time.Now()
			free(t, first, r)
			st, err := first.Inspect(t.Context(), row.name)
			reserved := len(st.Holds) == 1 || time.Since(began) > driver.MaxReservation
			if !row.frozen && (err != nil || st.Waiters != 0 || !reserved) {
				t.Errorf("after the release: %+v, %v", st, err)
			}
			_, at := living.got()
			t.Logf("three dead waiters ahead cost %v", at.Sub(began).Round(time.Millisecond))
			if at.Sub(began) > 10*time.Second {
				t.Errorf("three dead waiters ahead cost %v", at.Sub(began))
			}
		})
	}
}

// deadWaiter adds a waiter to the queue and then closes its connections. If frozen is set, it
// silences them instead.
func deadWaiter(t *testing.T, srv *server.Server, name string, frozen bool) {
	p := server.NewProxy(t, srv.Addr())
	waits(t, opened(t, p.Addr()), name)
	if frozen {
		p.Silence(true)
		return
	}
	p.Close()
}

// TestGaveUpInAnOutage: forty waiters of one process give up while it cannot reach the server, so
// their places stay in the queue. When the name is handed over to one of them later, the process
// gives it back at once. So they cost the living waiter behind them little time: much less than
// forty reservations.
func TestGaveUpInAnOutage(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	p := server.NewProxy(t, srv.Addr())
	first, s := opened(t, srv.Addr()), opened(t, p.Addr())
	r := request("job")
	take(t, first, r)
	var gone []*waiting
	for range 40 {
		gone = append(gone, waits(t, s, "job"))
	}
	living := waits(t, opened(t, srv.Addr()), "job")
	p.Point("127.0.0.1:1")
	p.Cut()
	for _, w := range gone {
		w.cancel()
	}
	for _, w := range gone {
		<-w.done
	}
	<-time.After(driver.MaxSilence + time.Second) // the clean-ups end, after half of MaxSilence
	p.Point(srv.Addr())
	other := request("other")
	take(t, first, other)
	waits(t, s, "other") // so the process gets messages again
	if n := living.queued(); n != len(gone)+1 {
		t.Fatalf("%d waiters are in the queue; %d have given up", n, len(gone))
	}
	began := time.Now()
	free(t, first, r)
	_, at := living.got()
	if cost := at.Sub(began); cost > time.Duration(len(gone)/2)*driver.MaxReservation {
		t.Errorf("%d waiters that gave up cost %v", len(gone), cost)
	}
}

// TestMissedWakeUp cuts the connections of a waiter, so that messages to it are lost.
func TestMissedWakeUp(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	first := opened(t, srv.Addr())
	for range 5 {
		p := server.NewProxy(t, srv.Addr())
		s := opened(t, p.Addr())
		r := request("job")
		take(t, first, r)
		w := waits(t, s, "job")
		p.Cut()
		free(t, first, r)
		w.got()
		free(t, s, w.r)
	}
	// A server that restarts without data has lost the queue.
	off := redisstore.RestartGuard(redisstore.GuardOff)
	take(t, opened(t, srv.Addr(), off), request("job"))
	w := waits(t, opened(t, srv.Addr(), off), "job")
	srv.Restart(false) // a waiter gives up when the server is away for 3 s
	w.got()
}

// TestLooksWhenItHearsAgain cuts the connections of the last of five waiters. The waiter looks as
// soon as it has a connection again, and not only after 15 s.
func TestLooksWhenItHearsAgain(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	first := opened(t, srv.Addr())
	take(t, first, request("job"))
	for range 4 {
		waits(t, first, "job")
	}
	p := server.NewProxy(t, srv.Addr())
	last := waits(t, opened(t, p.Addr()), "job")
	c := rawClient(t, single(srv.Addr()))
	seen := func() string {
		return askBy(t, c, "HGET", companion(t, c, "h", "job"), "w"+last.r.Token.Text())
	}
	pause(t.Context(), time.Second) // the last waiter has looked once more
	before, began := seen(), time.Now()
	p.Cut()
	eventually(t, "it looks", func() bool { return seen() != before })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it looked after %v", took)
	}
}

// TestBusyQueueStays: a queue in which somebody always waits does not expire, although each waiter
// comes soon after the one before it. A waiter sets the expiries anew if the one before it came in
// an earlier span of 30 s.
func TestBusyQueueStays(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	c := rawClient(t, single(srv.Addr()))
	for name, opts := range map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings()}} {
		s, other := opened(t, srv.Addr(), opts...), opened(t, srv.Addr(), opts...)
		take(t, s, request(name))
		waits(t, other, name)
		queue, records := companion(t, c, "q", name), companion(t, c, "h", name)
		const span = 30_000_000
		before := time.Now().UnixMicro()/span*span - 1
		askBy(t, c, "ZPOPMAX", queue)
		askBy(t, c, "ZADD", queue, strconv.FormatInt(before, 10), "the one before")
		for _, key := range []string{queue, records} {
			askBy(t, c, "PEXPIRE", key, "10000")
		}
		waits(t, other, name)
		for _, key := range []string{queue, records} {
			if left, err := strconv.Atoi(askBy(t, c, "PTTL", key)); err != nil || left < 60_000 {
				t.Errorf("%s expires in %d ms, %v", key, left, err)
			}
		}
	}
}

// TestHeadLooks frees a name without sending a message. The first waiter in the queue notices by
// itself.
func TestHeadLooks(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	take(t, s, request("job"))
	w := waits(t, s, "job")
	ask(t, srv, "DEL", "job")
	w.got()
}

// TestOutage: a waiter gives up when the server stays away, and leaves no place behind in the
// queue.
func TestOutage(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Persist: true})
	s := opened(t, srv.Addr())
	r := request("job")
	take(t, s, r)
	w := waits(t, s, "job")
	srv.Kill()
	a := <-w.done
	wantIs(t, a.err, driver.ErrUnavailable, "Wait while the server is away")
	srv.Restart(true)
	eventually(t, "the queue is empty", func() bool {
		st, err := s.Inspect(t.Context(), "job")
		return err == nil && st.Waiters == 0
	})
}

// TestUnplacedWaiters: waiters that have no place in the queue are all woken.
func TestUnplacedWaiters(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	first, c := opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	r := request("job")
	take(t, first, r)
	var wg sync.WaitGroup
	bells := make(chan waited, 8)
	for range cap(bells) {
		s := opened(t, srv.Addr())
		wg.Go(func() {
			g, err := s.Wait(t.Context(), request("job"), false)
			bells <- waited{g, err, time.Now()}
		})
	}
	eventually(t, "all wait", func() bool { return askBy(t, c, "ZCARD", companion(t, c, "b", "job")) == "8" })
	began := time.Now()
	free(t, first, r)
	wg.Wait()
	for range cap(bells) {
		a := <-bells
		if took := a.at.Sub(began); a.err != nil || a.g != (driver.Grant{}) || took > time.Second { // each waiter looks once in two seconds anyway
			t.Errorf("%+v, %v, after %v", a.g, a.err, took)
		}
	}
}

// TestPromoterIsWoken: a reader waits to be promoted, and a writer waits behind it. The reader is
// woken.
func TestPromoterIsWoken(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, other := opened(t, srv.Addr()), opened(t, srv.Addr())
	one, two := reading(request("job")), reading(request("job"))
	take(t, s, one)
	take(t, other, two)
	writer := waits(t, other, "job")
	up := one
	up.Shared = false
	_, err := s.Convert(t.Context(), up)
	wantIs(t, err, driver.ErrHeld, "promotion with another reader")
	woken := make(chan error, 1)
	go func() { _, err := s.Wait(t.Context(), up, false); woken <- err }()
	c := rawClient(t, single(srv.Addr()))
	eventually(t, "the promoter waits", func() bool { return askBy(t, c, "HEXISTS", companion(t, c, "h", "job"), "p") == "1" })
	free(t, other, two)
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if _, err := s.Convert(t.Context(), up); err != nil {
		t.Errorf("promotion of the last reader: %v", err)
	}
	free(t, s, one)
	writer.got()
}

// TestCancelledWaits cancels waits at the moment of the hand-over.
func TestCancelledWaits(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, other := opened(t, srv.Addr()), opened(t, srv.Addr())
	for i := range 60 {
		r := request("job")
		take(t, s, r)
		w := waits(t, other, "job")
		if i%2 == 0 {
			go w.cancel()
		}
		free(t, s, r)
		if i%2 == 1 {
			w.cancel()
		}
		a := <-w.done
		if a.err != nil && !errors.Is(a.err, context.Canceled) {
			t.Fatal(a.err)
		}
		if a.err == nil {
			if _, err := other.Release(t.Context(), "job", w.r.Token.Text(), 0); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "nothing is left behind", func() bool {
			st, err := s.Inspect(t.Context(), "job")
			return err == nil && st.Waiters == 0 && len(st.Holds) == 0
		})
	}
}

// TestLostQueue: ten processes wait, and most have planned their next look for much later. The server
// loses the queue, as FLUSHALL makes it do. The first waiter that notices tells the others, so they
// join the queue again before they had planned to look.
func TestLostQueue(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, raw := opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	take(t, s, request("job"))
	var all []*waiting
	for range 10 {
		all = append(all, waits(t, opened(t, srv.Addr()), "job"))
	}
	// looks returns when the sixth waiter has looked, and when it looks again, in ms.
	looks := func() (last, next int64) {
		f := append(strings.Fields(askBy(t, raw, "HGET", companion(t, raw, "h", "job"), "w"+all[5].r.Token.Text())), "0", "0")
		last, _ = strconv.ParseInt(f[0], 10, 64)
		next, _ = strconv.ParseInt(f[1], 10, 64)
		return last, next
	}
	var planned int64
	eventually(t, "the sixth waiter looks seldom", func() bool {
		last, next := looks()
		planned = next
		return next-last > 10_000
	})
	askBy(t, raw, "DEL", companion(t, raw, "q", "job"), companion(t, raw, "h", "job"))
	eventually(t, "all wait again", func() bool { return all[0].queued() == len(all) })
	if last, _ := looks(); last >= planned {
		t.Errorf("the sixth waiter joined again at %d, its next look was planned for %d", last, planned)
	}
}
