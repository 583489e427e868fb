package facetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// reserving is a server that hands names over as reservations, and knows when each was made. The
// field late is how long the message about a hand-over travels.
type reserving struct {
	*remote
	late time.Duration
}

func (r reserving) Wait(ctx context.Context, q driver.Request, reserve bool) (g driver.Grant, err error) {
	q.TTL, q.AtLeast = driver.MaxReservation, 0
	c := call{op: "wait", name: q.Name, token: q.Token, shared: q.Shared, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { g, err = r.Store.Wait(ctx, q, reserve); return err })
	if err == nil && r.late > 0 {
		<-time.After(r.late)
	}
	return g, err
}

// handedOver returns a lock that l got from another process by a hand-over, and the number of
// requests that l had sent when Acquire returned.
func handedOver(t *testing.T, l *padlock.Locker, r reserving, opts ...padlock.Option) (h *padlock.Lock, sent int) {
	t.Helper()
	other := padlock.New(connect(r.Store))
	before := acquire(t, other, "job")
	got := make(chan *padlock.Lock)
	go func() { got <- acquire(t, l, "job", append(opts, padlock.Wait(time.Minute))...) }()
	synctest.Wait()
	release(t, before)
	h = <-got
	sent = len(r.log("acquire"))
	if err := other.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return h, sent
}

// inReservation runs f in a bubble with a Locker that waits at a server with reservations.
func inReservation(t *testing.T, late time.Duration, f func(t *testing.T, l *padlock.Locker, r reserving)) {
	synctest.Test(t, func(t *testing.T) {
		r := reserving{connect(memstore.New()), late}
		f(t, newLocker(t, r), r)
	})
}

// A short use of a reservation sends no claim, and a longer one sends one.
func TestReservationIsUsedBeforeItsClaim(t *testing.T) {
	for hold, claims := range map[time.Duration]int{10 * time.Millisecond: 0, 400 * time.Millisecond: 1, time.Hour: 1} {
		inReservation(t, 0, func(t *testing.T, l *padlock.Locker, r reserving) {
			h, sent := handedOver(t, l, r)
			if sent != 1 || h.Fence() == 0 || h.Remaining() > driver.MaxReservation {
				t.Fatalf("with a reservation: %d requests, fence %d, %v left", sent, h.Fence(), h.Remaining())
			}
			<-time.After(hold)
			if claims > 0 && h.Remaining() < 10*time.Second {
				t.Errorf("after %v, %v are left", hold, h.Remaining())
			}
			release(t, h)
			if n := len(r.log("acquire")) - sent; n != claims {
				t.Errorf("a hold of %v sent %d claims, want %d", hold, n, claims)
			}
			if claims == 0 && (len(r.log("extend")) > 0 || len(r.log("release")) != 1 || l.Stats().Renewals != 0) {
				t.Errorf("%d extends, %d releases, %+v", len(r.log("extend")), len(r.log("release")), l.Stats())
			}
		})
	}
}

// A call that relies on the whole lease claims the reservation first.
func TestClaimBeforeOtherRequests(t *testing.T) {
	ctx := context.Background()
	for what, c := range map[string]struct {
		op string // the request that follows the claim
		f  func(h *padlock.Lock) error
	}{
		"Check":    {"extend", func(h *padlock.Lock) error { return h.Check(ctx) }},
		"Extend":   {"extend", func(h *padlock.Lock) error { return h.Extend(ctx, 0) }},
		"Export":   {"", func(h *padlock.Lock) error { _, err := h.Export(ctx); return err }},
		"Demote":   {"convert", func(h *padlock.Lock) error { return h.Demote(ctx) }},
		"Promote":  {"convert", func(h *padlock.Lock) error { return h.Promote(ctx) }},
		"CoolDown": {"release", func(h *padlock.Lock) error { return h.Release(padlock.CoolDown(time.Second)) }},
	} {
		t.Run(what, func(t *testing.T) {
			inReservation(t, 0, func(t *testing.T, l *padlock.Locker, r reserving) {
				h, sent := handedOver(t, l, r)
				if err := c.f(h); err != nil {
					t.Error(err)
				}
				all := r.log("acquire")
				if len(all) != sent+1 || all[sent].token != all[len(all)-1].token {
					t.Fatalf("%d claims", len(all)-sent)
				}
				if c.op != "" {
					i := slices.IndexFunc(r.calls, func(k call) bool { return k.op == c.op })
					j := slices.IndexFunc(r.calls, func(k call) bool { return k.op == "acquire" && k.token == all[sent].token })
					if i < j {
						t.Errorf("%s was sent before the claim", c.op)
					}
				}
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A holder whose lock others expect to last claims it before Acquire returns.
func TestClaimBeforeUse(t *testing.T) {
	one := func(o padlock.Option) []padlock.Option { return []padlock.Option{o} }
	for what, c := range map[string]struct {
		opts []padlock.Option
		late time.Duration
	}{
		"a short TTL":    {opts: one(padlock.TTL(driver.MaxReservation))},
		"HoldAtLeast":    {opts: one(padlock.HoldAtLeast(time.Minute))},
		"HoldAtMost":     {opts: one(padlock.HoldAtMost(time.Minute))},
		"NoRenewal":      {opts: one(padlock.NoRenewal())},
		"Shared":         {opts: one(padlock.Shared())},
		"CoolDown":       {opts: one(padlock.CoolDown(time.Second))},
		"a late message": {late: driver.MaxReservation - 30*time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			inReservation(t, c.late, func(t *testing.T, l *padlock.Locker, r reserving) {
				h, sent := handedOver(t, l, r, c.opts...)
				if sent != 2 {
					t.Errorf("%d requests, want a try and a claim", sent)
				}
				release(t, h)
			})
		})
	}
}

// A claim whose reply is lost is repeated while the reservation lasts.
func TestClaimIsRepeated(t *testing.T) {
	inReservation(t, 0, func(t *testing.T, l *padlock.Locker, r reserving) {
		h, _ := handedOver(t, l, r)
		r.request("acquire", first(3, lost))
		<-time.After(time.Minute)
		if h.Remaining() == 0 || len(r.log("acquire")) != 5 {
			t.Errorf("expired: %v, after %d requests", h.Remaining() == 0, len(r.log("acquire")))
		}
		release(t, h)
	})
}

// If no claim gets through, the lock ends before the reservation does.
func TestUnclaimedLockEndsInTime(t *testing.T) {
	inReservation(t, 0, func(t *testing.T, l *padlock.Locker, r reserving) {
		h, _ := handedOver(t, l, r)
		r.request("acquire", lost)
		began := time.Now()
		<-h.Context().Done()
		if d := time.Since(began); d > driver.MaxReservation-margins(driver.MaxReservation) || d < driver.MaxReservation/2 {
			t.Errorf("it ended after %v", d)
		}
		r.heal()
		if err := h.Release(); !errors.Is(err, padlock.ErrExpired) {
			t.Errorf("its Release returns %v", err)
		}
	})
}

// A claim that finds another holder, or nobody, is a loss and takes nothing.
func TestClaimNeverTakesAFreeName(t *testing.T) {
	inReservation(t, 0, func(t *testing.T, l *padlock.Locker, r reserving) {
		h, _ := handedOver(t, l, r)
		state, err := r.Store.Inspect(context.Background(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Store.Break(context.Background(), "job", state.Fence); err != nil {
			t.Fatal(err)
		}
		wantOnly(t, h.Check(context.Background()), padlock.OpCheck, padlock.ErrLost)
		if h.Remaining() > 0 || !free(t, r.remote, "job") {
			t.Errorf("expired: %v, free: %v", h.Remaining() == 0, free(t, r.remote, "job"))
		}
		if err := h.Release(); !errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrExpired) {
			t.Error(err)
		}
	})
}
