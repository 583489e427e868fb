package facetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
)

// behindAWriter lets n readers, and then one writer, wait behind a writer, and calls release when
// all of them wait. It returns how many readers had the lock at the same time.
func behindAWriter(t *testing.T, s *remote, l *padlock.Locker, n int, release func(*padlock.Lock), opts ...padlock.Option) (together int) {
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
		writers--
		mu.Unlock()
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	release(first)
	all.Wait()
	if !free(t, s, "job") {
		t.Error("something is left in the store")
	}
	return together
}

func withReaders(t *testing.T, f func(t *testing.T, s *remote, l *padlock.Locker)) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		f(t, s, l)
		if st := l.Stats(); st.Held != 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Readers that waited for a writer come in together, one request each.
func TestReadersComeInTogether(t *testing.T) {
	withReaders(t, func(t *testing.T, s *remote, l *padlock.Locker) {
		const n = 300
		if together := behindAWriter(t, s, l, n, func(h *padlock.Lock) { release(t, h) }); together != n {
			t.Errorf("%d readers came in together", together)
		}
	})
}

// Replies are lost, and readers give up meanwhile: each reader gets the lock or its error, and
// nothing is left behind.
func TestReadersInTrouble(t *testing.T) {
	for what, c := range map[string]struct {
		set func(s *remote)
		all bool // every reader gets the lock
	}{
		"a lost reply":   {func(s *remote) { s.reply("acquire", first(2, lost)) }, true},
		"a lost request": {func(s *remote) { s.request("acquire", first(2, lost)) }, true},
		"a slow request": {func(s *remote) { s.request("acquire", takes(2*time.Second)) }, false},
		"a slow reply":   {func(s *remote) { s.reply("acquire", takes(2*time.Second)) }, false},
		"a slow lost reply": {func(s *remote) {
			s.reply("acquire", first(1, func(ctx context.Context, n int) error { return errors.Join(sleep(ctx, 2*time.Second), errReset) }))
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			withReaders(t, func(t *testing.T, s *remote, l *padlock.Locker) {
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
		s := newRemote()
		l, other := padlock.New(s), connect(s.Store)
		s.reply("acquire", takes(time.Second))
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
