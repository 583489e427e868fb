package padlockapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// pipe is a listener with one connection.
type pipe chan net.Conn

func (p pipe) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipe) Close() error   { return nil }
func (p pipe) Addr() net.Addr { return &net.UnixAddr{} }

// slowly returns a store whose requests to acquire take 15 seconds while slow is true.
func slowly(slow *atomic.Bool) *hooked {
	store := &hooked{Store: memstore.New()}
	store.acquire = func(ctx context.Context, r driver.Request) (driver.Grant, error) {
		if slow.Load() {
			select {
			case <-time.After(15 * time.Second):
			case <-ctx.Done():
				return driver.Grant{}, driver.ErrUnavailable
			}
		}
		return store.Store.Acquire(ctx, r)
	}
	return store
}

// A server that stood still finds requests of clients that have gone, got the lock elsewhere and
// released it. Nobody would release the lock that such a request gets.
func TestGoneClientGetsNothing(t *testing.T) {
	a, store := newAPI(t)
	gone, leave := cancellable()
	leave()
	for _, wait := range []string{`"wait_ms":0`, `"wait_ms":1000`} {
		send(t, a, "/v1/acquire", body(one, wait), gone).want(t, wait, 503)
		if s, err := store.(driver.Admin).Inspect(t.Context(), "a"); err != nil || len(s.Holds) > 0 || waitOf(a, one) != nil {
			t.Errorf("%s: %+v, %v", wait, s, err)
		}
	}
}

// A request that repeats a wait first asks the store. Even if that takes longer than the time
// limits of the server and than Grace, the client gets 202 at the end of its wait, and keeps its
// place.
func TestRepeatOutlastsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		a := handlerOn(t, slowly(&slow))
		at, served := make(pipe, 1), make(chan error)
		server := &http.Server{Handler: a, ReadTimeout: 10 * time.Second, WriteTimeout: 12 * time.Second}
		go func() { served <- server.Serve(at) }()
		client, remote := net.Pipe()
		at <- remote
		send(t, a, "/v1/acquire", body(one, `"ttl_ms":58000`)).want(t, "the holder", 200)
		send(t, a, "/v1/acquire", body(two, `"wait_ms":1000`)).want(t, "the first wait", 202)
		before, began := waitOf(a, two), time.Now()
		slow.Store(true)
		text := body(two, `"wait_ms":25000`)
		fmt.Fprintf(client, "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		got, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(got.Body)
		if took := time.Since(began); got.StatusCode != 202 || err != nil || took != MaxPoll {
			t.Errorf("after %v: %d %s %v", took, got.StatusCode, answer, err)
		}
		if waitOf(a, two) != before {
			t.Error("the client has lost its place")
		}
		client.Close()
		close(at)
		<-served
	})
}

// An empty reply is never sent as a success.
func TestNoEmptySuccess(t *testing.T) {
	rw := &recorder{header: http.Header{}}
	reply{}.write(rw)
	if rw.status != http.StatusGatewayTimeout {
		t.Errorf("status %d", rw.status)
	}
}

// A request is under way while the Handler closes. The hold of its token, which another server has
// granted, stays.
func TestCloseDuringRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		slow, goOn := &hooked{Store: store}, make(chan struct{})
		slow.acquire = func(ctx context.Context, r driver.Request) (driver.Grant, error) {
			g, err := store.Acquire(ctx, r)
			<-goOn
			return g, err
		}
		a, b := Handler(slow, WithoutToken()), handlerOn(t, store.Open())
		send(t, b, "/v1/acquire", body(one)).want(t, "the holder", 200)
		got := inBackground(t, a, "/v1/acquire", body(one))
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- a.Close() }()
		synctest.Wait()
		close(goOn)
		(<-got).want(t, "the repeat", 200)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		send(t, b, "/v1/extend", body(one)).want(t, "the holder goes on", 200)
	})
}

// A client goes away before it knows its permit. Its release ends the permit.
func TestReleaseOfUnknownPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		send(t, a, "/v1/acquire", body(one, `"slots":2`)).want(t, "the first", 200)
		send(t, a, "/v1/acquire", body(two, `"slots":2`)).want(t, "the second", 200)
		send(t, a, "/v1/acquire", body(three, `"slots":2`, `"wait_ms":1000`)).want(t, "the third", 202)
		send(t, a, "/v1/release", body(two, `"slot":1`)).want(t, "a release", 200)
		synctest.Wait() // the third has the permit, and does not know it
		out := send(t, a, "/v1/release", body(three)).want(t, "the third gives up", 200)
		if out.word("outcome") != "released" {
			t.Errorf("the outcome is %s", out.text)
		}
		send(t, a, "/v1/acquire", body(two, `"slots":2`)).want(t, "the permit is free", 200)
	})
}

// A wait was given up, by its client or after Grace, while a request to the store was under way. A
// release waits for that request, even if an earlier release could not.
func TestReleaseAfterPendingRequest(t *testing.T) {
	for name, first := range map[string]string{"given up": "/v1/release", "after Grace": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				stuck := &hooked{Store: store}
				stuck.acquire = func(ctx context.Context, r driver.Request) (driver.Grant, error) {
					<-time.After(30 * time.Second)
					return store.Acquire(context.WithoutCancel(ctx), r)
				}
				a := handlerOn(t, stuck)
				send(t, a, "/v1/acquire", body(one, `"wait_ms":1`, `"ttl_ms":58000`)).want(t, "the wait", 202)
				if first != "" {
					send(t, a, first, body(one)).want(t, "a release during the request", 504)
				} else {
					<-time.After(Grace + time.Second)
				}
				out := send(t, a, "/v1/release", body(one))
				for out.status == 504 {
					out = send(t, a, "/v1/release", body(one))
				}
				out.want(t, "the release", 200)
				<-time.After(20 * time.Second)
				if s, err := store.Inspect(t.Context(), "a"); err != nil || len(s.Holds) != 0 {
					t.Errorf("after %s: %+v, %v", out.text, s.Holds, err)
				}
			})
		})
	}
}

// If the outcome of the last request of a wait is not known, a release that finds nothing is
// repeated.
func TestReleaseAfterUncertainWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hooked{Store: memstore.New()}
		store.acquire = func(ctx context.Context, r driver.Request) (driver.Grant, error) {
			<-ctx.Done()
			return driver.Grant{}, driver.ErrUncertain
		}
		a := handlerOn(t, store)
		send(t, a, "/v1/acquire", body(one, `"wait_ms":1`)).want(t, "the wait", 202)
		send(t, a, "/v1/release", body(one)).want(t, "a release", 504)
		send(t, a, "/v1/release", body(one)).want(t, "the repeat", 200)
	})
}

// A release whose reply was lost stays uncertain, even if the store is closed at the repeat.
func TestReleaseStaysUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hooked{Store: memstore.New()}
		replies := []error{errors.New("the connection broke"), driver.ErrClosed}
		store.release = func(context.Context, string, string, time.Duration) (driver.Outcome, error) {
			err := replies[0]
			replies = replies[1:]
			return driver.OutcomeGone, err
		}
		send(t, handlerOn(t, store), "/v1/release", body(one)).want(t, "release", 504)
	})
}

// late is a clock that jumps by an hour once the store has answered.
type late struct {
	driver.Clock
	answered atomic.Bool
}

func (c *late) Now() driver.Instant {
	if c.answered.Load() {
		return c.Clock.Now().Add(time.Hour)
	}
	return c.Clock.Now()
}

// A pause of the server after the reply of the store does not make valid_ms longer.
func TestValidAfterAPause(t *testing.T) {
	clock, store := &late{Clock: driver.SystemClock()}, &hooked{Store: memstore.New()}
	store.extend = func(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
		clock.answered.Store(true)
		return store.Store.Extend(ctx, name, token, ttl)
	}
	a := handlerOn(t, store)
	a.clock = clock
	send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
	if ext := send(t, a, "/v1/extend", body(one, `"ttl_ms":30000`)).want(t, "extend", 200); ext.number("valid_ms") > 31_000 {
		t.Errorf("extended for %s", ext.text)
	}
}

// A store may answer with an earlier renewal. The lease counts from that one, even if it was before
// the client's request.
func TestValidAfterAnEarlierRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, store := driver.SystemClock(), &hooked{Store: memstore.New()}
		store.extend = func(context.Context, string, string, time.Duration) (driver.Grant, error) {
			return driver.Grant{From: clock.Now().Add(-3 * time.Second), TTL: 30 * time.Second}, nil
		}
		ext := send(t, handlerOn(t, store), "/v1/extend", body(one, `"ttl_ms":30000`)).want(t, "extend", 200)
		if ms := ext.number("valid_ms"); ms < 26_000 || ms > 27_000 {
			t.Errorf("a lease that began 3 s ago: %s", ext.text)
		}
	})
}

// A lock that was granted, released or not, needs no memory of the Locker.
func TestGrantsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		for range 5 {
			send(t, a, "/v1/acquire", body(one, `"ttl_ms":58000`)).want(t, "a repeat", 200)
		}
		got := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":20000`))
		synctest.Wait()
		send(t, a, "/v1/release", body(one)).want(t, "a release", 200)
		if granted := (<-got).want(t, "the waiter", 200); granted.number("valid_ms") < 20_000 {
			t.Errorf("the waiter got %s", granted.text)
		}
		if n := a.tenantOf(&Visitor{}).locker.Stats().Held; n != 0 {
			t.Errorf("the Locker has %d holds", n)
		}
		send(t, a, "/v1/extend", body(two)).want(t, "the store has the lock", 200)
	})
}

// A tenant without a prefix would reach every name.
func TestTenantWithoutPrefix(t *testing.T) {
	a, _ := newAPI(t, Authorize(func(*http.Request) Visitor {
		return Visitor{Name: "ann", Read: true, Acquire: true, Tenant: true}
	}))
	if got := send(t, a, "/v1/acquire", body(one)).want(t, "acquire", 403); !strings.Contains(got.text, "prefix") {
		t.Errorf("the answer is %s", got.text)
	}
}

// identified counts how often a store is asked for its id.
type identified struct {
	*memstore.Store
	asked atomic.Int32
}

func (s *identified) StoreID(ctx context.Context) (string, error) {
	s.asked.Add(1)
	return s.Store.StoreID(ctx)
}

// A grant costs no request for the id of the store, which many stores have to ask their server for.
func TestGrantsDoNotAskForTheID(t *testing.T) {
	store := &identified{Store: memstore.New()}
	a := handlerOn(t, store)
	for _, wait := range []string{`"wait_ms":0`, `"wait_ms":1000`} {
		send(t, a, "/v1/acquire", body(one, wait)).want(t, wait, 200)
		send(t, a, "/v1/release", body(one)).want(t, "release", 200)
	}
	if n := store.asked.Load(); n != 0 {
		t.Errorf("two grants asked for the id of the store %d times", n)
	}
	if got := send(t, a, "/v1/store", `{}`).want(t, "store", 200); got.word("id") == "" || store.asked.Load() != 1 {
		t.Errorf("the promises have the id %q, asked for %d times", got.word("id"), store.asked.Load())
	}
}

// A store without room for the cool-down has released the lock: the answer says so at once. It was
// an error, and the client's repeat then found nothing.
func TestReleaseWithoutRoomForTheCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, releases := memstore.New(), 0
		store := &hooked{Store: mem}
		store.release = func(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
			releases++
			out, err := mem.Release(ctx, name, token, 0)
			if err == nil && out == driver.OutcomeReleased {
				err = driver.ErrUnavailable
			}
			return out, err
		}
		a := handlerOn(t, store)
		send(t, a, "/v1/acquire", body(one)).want(t, "the lock", 200)
		out := send(t, a, "/v1/release", body(one, `"keep_ms":60000`))
		if out.want(t, "the release", 200); !strings.Contains(out.text, `"released"`) || releases != 1 {
			t.Errorf("%s after %d releases", out.text, releases)
		}
	})
}
