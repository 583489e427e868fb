package padlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// sharing is a server that takes several shared holds with one request, up to a limit.
type sharing struct {
	*remote
	most int
}

func (s sharing) AcquireShared(ctx context.Context, rs []driver.Request) (grants []driver.Grant, err error) {
	err = s.on(call{op: "shared", ctx: ctx, name: rs[0].Name}, func(ctx context.Context) error {
		for _, r := range rs[:min(len(rs), s.most)] {
			g, err := s.Store.Acquire(ctx, r)
			if errors.Is(err, driver.ErrHeld) {
				break
			}
			if err != nil {
				return err
			}
			g.From = 0
			grants = append(grants, g)
		}
		return nil
	})
	return grants, err
}

// behindAWriter lets n readers, and then one writer, wait behind a writer, and calls release when
// all of them wait. It returns how many readers had the lock at the same time.
func behindAWriter(t *testing.T, s sharing, l *padlock.Locker, n int, release func(*padlock.Lock), opts ...padlock.Option) (together int) {
	t.Helper()
	first := acquire(t, l, "job")
	var all sync.WaitGroup
	var mu sync.Mutex
	inside, writers := 0, 0
	for range n {
		all.Go(func() {
			h, err := l.Acquire(context.Background(), "job", append(opts, padlock.Shared())...)
			if err != nil {
				if !errors.Is(err, padlock.ErrHeld) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			if inside++; writers > 0 {
				t.Error("a reader came in next to the writer")
			}
			together = max(together, inside)
			mu.Unlock()
			<-time.After(10 * time.Second)
			mu.Lock()
			inside--
			mu.Unlock()
			if err := h.Release(); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	all.Go(func() {
		h := acquire(t, l, "job", padlock.Wait(5*time.Minute)) // much less than the leases of the readers
		mu.Lock()
		if writers++; inside > 0 {
			t.Errorf("the writer came in next to %d readers", inside)
		}
		mu.Unlock()
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	release(first)
	all.Wait()
	if !free(t, s.remote, "job") {
		t.Error("something is left in the store")
	}
	return together
}

func withReaders(t *testing.T, most int, f func(t *testing.T, s sharing, l *padlock.Locker)) {
	synctest.Test(t, func(t *testing.T) {
		s := sharing{newRemote(), most}
		l := newLocker(t, s)
		f(t, s, l)
		if st := l.Stats(); st.Held != 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A thousand readers come in with a few requests.
func TestReadersComeInTogether(t *testing.T) {
	withReaders(t, 1000, func(t *testing.T, s sharing, l *padlock.Locker) {
		const n = 1000
		together := behindAWriter(t, s, l, n, func(h *padlock.Lock) { release(t, h) })
		if asked := len(s.log("shared")); together != n || asked > n/100 || len(s.log("acquire")) > 10 {
			t.Errorf("%d readers came in together, with %d requests for many and %d for one", together, asked, len(s.log("acquire")))
		}
	})
}

// A store may take fewer than it was asked for.
func TestReadersThatWereNotTaken(t *testing.T) {
	withReaders(t, 7, func(t *testing.T, s sharing, l *padlock.Locker) {
		if together := behindAWriter(t, s, l, 100, func(h *padlock.Lock) { release(t, h) }); together != 100 {
			t.Errorf("%d readers came in together", together)
		}
	})
}

// Replies are lost, the store is out of reach or turns out to lack the ability, and readers give up
// meanwhile: each reader gets the lock or its error, and nothing is left behind.
func TestReadersInTrouble(t *testing.T) {
	for what, c := range map[string]struct {
		set func(s sharing)
		all bool // every reader gets the lock
	}{
		"a lost reply":   {func(s sharing) { s.reply("shared", first(2, lost)) }, true},
		"a lost request": {func(s sharing) { s.request("shared", first(2, lost)) }, true},
		"out of reach":   {func(s sharing) { s.request("shared", first(2, fails(driver.ErrUnavailable))) }, true},
		"unsupported":    {func(s sharing) { s.request("shared", fails(errors.ErrUnsupported)) }, true},
		"a slow request": {func(s sharing) { s.request("shared", takes(2*time.Second)) }, false},
		"a slow reply":   {func(s sharing) { s.reply("shared", takes(2*time.Second)) }, false},
		"a slow lost reply": {func(s sharing) {
			s.reply("shared", first(1, func(ctx context.Context, n int) error { return errors.Join(sleep(ctx, 2*time.Second), errReset) }))
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			withReaders(t, 1000, func(t *testing.T, s sharing, l *padlock.Locker) {
				c.set(s)
				wait := padlock.Wait(time.Minute)
				if !c.all {
					wait = padlock.Wait(1100 * time.Millisecond)
				}
				together := behindAWriter(t, s, l, 50, func(h *padlock.Lock) {
					<-time.After(time.Second)
					release(t, h)
				}, wait, padlock.TTL(time.Hour))
				if c.all && together != 50 {
					t.Errorf("%d readers came in together", together)
				}
				<-time.After(time.Minute) // for the clean-ups
			})
		})
	}
}

// Close comes while readers come in.
func TestCloseWhileReadersComeIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sharing{newRemote(), 1000}
		l, other := padlock.New(s), connect(s.Store)
		s.reply("shared", takes(time.Second))
		h := acquire(t, l, "job")
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if h, err := l.Acquire(context.Background(), "job", padlock.Shared()); err == nil {
					h.Release()
				} else if !errors.Is(err, padlock.ErrClosed) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		release(t, h)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
		all.Wait()
		if !free(t, other, "job") {
			t.Error("something is left in the store")
		}
	})
}
