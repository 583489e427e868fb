//go:build linux

package filestore

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

func promote(s *Store, name, token string) (driver.Grant, error) {
	return s.Convert(background, request(name, token))
}

func demote(t testing.TB, s *Store, name, token string) driver.Grant {
	t.Helper()
	g, err := s.Convert(background, shared(name, token))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPromotionAlone(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	before := take(t, s, shared("job", "us"))
	g, err := promote(s, "job", "us")
	if err != nil || g.Fence <= before.Fence {
		t.Fatalf("%+v after %+v, %v", g, before, err)
	}
	refused(t, other, shared("job", "them"))
	if h := inspect(t, other, "job").Holds; len(h) != 1 || h[0].Shared || h[0].Label != "us" {
		t.Errorf("%+v", h)
	}
	if d := demote(t, s, "job", "us"); d.Fence != g.Fence {
		t.Errorf("demotion changed the fence from %d to %d", g.Fence, d.Fence)
	}
	if r := take(t, other, shared("job", "them")); r.Fence < g.Fence {
		t.Errorf("a reader after a writer: %d after %d", r.Fence, g.Fence)
	}
	if h := inspect(t, s, "job").Holds; len(h) != 2 || !h[0].Shared || h[0].Label == h[1].Label {
		t.Errorf("%+v", h)
	}
}

// A reader whose promotion is refused keeps the shared lock. The error names the other readers.
// After that, no new reader gets the lock.
func TestRefusedPromotion(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	take(t, s, shared("job", "us"))
	take(t, other, shared("job", "reader"))
	file := foreign(t, s, "job", syscall.LOCK_SH)
	_, err := promote(s, "job", "us")
	var no *driver.HeldError
	if !errors.As(err, &no) || len(no.Holds) != 2 {
		t.Fatalf("got %v", err)
	}
	labels := map[string]bool{no.Holds[0].Label: true, no.Holds[1].Label: true}
	if !labels["reader"] || labels["us"] || !no.Foreign() {
		t.Errorf("in the way: %+v", no.Holds)
	}
	held(t, s, "job", "us")
	unlockFile(t, file)
	_, err = other.Acquire(patience(t), shared("job", "new"))
	_, second := promote(other, "job", "reader")
	if !errors.As(err, &no) || len(no.Holds) != 1 || no.Holds[0].Label != "us" {
		t.Fatalf("a new reader: %v", err)
	}
	if !errors.Is(second, driver.ErrPromotionConflict) {
		t.Errorf("the second promotion: %v", second)
	}
	release(t, other, "job", "reader", driver.OutcomeReleased)
	if _, err := promote(s, "job", "us"); err != nil {
		t.Errorf("alone now: %v", err)
	}
}

// A failed promotion takes the shared lock again. If another process has the lock by then, the hold
// is lost.
func TestPromotionLosesToAForeignWriter(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "us"))
	// This has the same effect as a writer that gets the lock between the two locks of the
	// promotion.
	unlocked, err := s.File("job", "us")
	if err != nil {
		t.Fatal(err)
	}
	defer unlocked.Close()
	if err := syscall.Flock(int(unlocked.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	f, _ := s.enter("job")
	h := f.find("us")
	h.passed = false // otherwise verify would notice the loss first
	s.endCall(f)
	foreign(t, s, "job", syscall.LOCK_EX)
	if _, err := promote(s, "job", "us"); !errors.Is(err, driver.ErrLost) {
		t.Errorf("got %v", err)
	}
	lost(t, s, "job", "us")
	release(t, s, "job", "us", driver.OutcomeGone)
}

// Readers of several stores read, are promoted and are demoted, and other callers take the
// exclusive lock. No holder ever sees another holder that writes.
func TestConversionsUnderContention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	var readers, writers, promotions atomic.Int64
	for i := range 4 {
		s := open(t, dir)
		token := string(rune('a' + i))
		all.Go(func() {
			for range 300 {
				if i == 0 {
					writeOnce(t, s, token, &readers, &writers)
				} else if promoteOnce(t, s, token, &readers, &writers) {
					promotions.Add(1)
				}
			}
		})
	}
	all.Wait()
	if promotions.Load() == 0 {
		t.Error("no promotion succeeded, so nothing was tried")
	}
}

func writeOnce(t *testing.T, s *Store, token string, readers, writers *atomic.Int64) {
	if _, err := s.Acquire(background, request("job", token)); err != nil {
		return
	}
	write(t, readers, writers, 0)
	if o, err := s.Release(background, "job", token, 0); o != driver.OutcomeReleased {
		t.Error(o, err)
	}
}

// write does the work of a writer. If the writer also counts as a reader, own is 1, otherwise 0.
func write(t *testing.T, readers, writers *atomic.Int64, own int64) {
	w := writers.Add(1)
	if r := readers.Load(); w != 1 || r != own {
		t.Errorf("a writer sees %d writers and %d readers", w, r)
	}
	writers.Add(-1)
}

func promoteOnce(t *testing.T, s *Store, token string, readers, writers *atomic.Int64) bool {
	if _, err := s.Acquire(background, shared("job", token)); err != nil {
		return false
	}
	readers.Add(1)
	if w := writers.Load(); w != 0 {
		t.Errorf("a reader sees %d writers", w)
	}
	readers.Add(-1)
	_, err := promote(s, "job", token)
	if err == nil {
		write(t, readers, writers, 0)
		demote(t, s, "job", token)
	} else if !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrPromotionConflict) {
		t.Error(err)
	}
	if _, err := s.Convert(background, shared("job", token)); err != nil { // removes the intent
		t.Error(err)
	}
	if o, err := s.Release(background, "job", token, 0); o != driver.OutcomeReleased {
		t.Error(o, err)
	}
	return err == nil
}

// A process was stopped while it had the record lock. New readers and promotions get an error that
// says so. Writers can still take the lock.
func TestGateIsStuck(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "us"))
	s.config.recordLockPatience = 50 * time.Millisecond
	recordLock, err := s.lockRecord(background, &file{path: pathOf(s, "job")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Acquire(background, shared("job", "reader"))
	wantErr(t, err, driver.ErrUnavailable, "gate", "stopped")
	_, err = promote(s, "job", "us")
	wantErr(t, err, driver.ErrUnavailable, "gate")
	release(t, s, "job", "us", driver.OutcomeReleased)
	take(t, s, request("job", "writer"))
	recordLock.close()
}

// A reader that died during its promotion keeps other callers out, but not for longer than
// driver.MaxIntent.
func TestIntentOfTheDead(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	take(t, s, shared("job", "us"))
	take(t, other, shared("job", "reader"))
	if _, err := promote(s, "job", "us"); !errors.Is(err, driver.ErrHeld) {
		t.Fatal(err)
	}
	abandon(s, "job", "us")
	before := time.Now()
	if g := wait(t, other, shared("job", "new")).get(t); g.Fence == 0 {
		t.Error("nothing was handed over")
	}
	if d := time.Since(before); d > driver.MaxIntent+10*time.Second {
		t.Errorf("the intent of the dead lasted %v", d)
	}
}

// abandon ends a hold in the same way as the death of its process would. A child of another test
// that is being started may have a copy of the descriptor, which would keep the lock.
func abandon(s *Store, name, token string) {
	f, _ := s.enter(name)
	h := f.find(token)
	f.forget(h)
	syscall.ForkLock.RLock()
	h.conn.close()
	syscall.ForkLock.RUnlock()
	s.endCall(f)
}
