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
	"github.com/padlock-go/padlock/internal/safety"
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
	if err != nil || !safety.Rises(t, g.Fence, before.Fence) {
		t.Fatalf("%+v after %+v, %v", g, before, err)
	}
	refused(t, other, shared("job", "them"))
	if h := inspect(t, other, "job").Holds; len(h) != 1 || h[0].Shared || h[0].Label != "us" {
		t.Errorf("%+v", h)
	}
	if d := demote(t, s, "job", "us"); d.Fence != g.Fence {
		t.Errorf("demotion changed the fence from %d to %d", g.Fence, d.Fence)
	}
	safety.Keeps(t, take(t, other, shared("job", "them")).Fence, g.Fence)
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
// exclusive lock. No holder ever sees another holder that writes. If the callers wait for their
// turn, a promotion does not fail because the kernel just wakes another reader.
func TestConversionsUnderContention(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		convertMuch(t, t.TempDir(), waits)
	}
}

func convertMuch(t *testing.T, dir string, waits bool) {
	var all sync.WaitGroup
	var readers, writers, promotions atomic.Int64
	for i := range 4 {
		s := open(t, dir)
		token := string(rune('a' + i))
		all.Go(func() {
			for range 300 {
				if i == 0 {
					writeOnce(t, s, token, waits, &readers, &writers)
				} else if promoteOnce(t, s, token, waits, &readers, &writers) {
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

// get waits for a lock if waits is true, and otherwise tries once.
func get(t *testing.T, s *Store, r driver.Request, waits bool) bool {
	if waits {
		if g, err := s.Wait(background, r, true); err != nil || g.Fence == 0 {
			t.Error(g, err)
			return false
		}
	}
	_, err := s.Acquire(background, r)
	return err == nil
}

func writeOnce(t *testing.T, s *Store, token string, waits bool, readers, writers *atomic.Int64) {
	if !get(t, s, request("job", token), waits) {
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

func promoteOnce(t *testing.T, s *Store, token string, waits bool, readers, writers *atomic.Int64) bool {
	if !get(t, s, shared("job", token), waits) {
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

// A promotion lets a reader in the kernel's queue finish first, because the kernel may grant it the
// shared lock at any time. But the reader may be stopped.
func TestPromotionLetsAReaderFinish(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "us"))
	reader := reopened(t, s)
	reader.markQueued(true)
	f, err := s.enter("job")
	if err != nil {
		t.Fatal(err)
	}
	defer s.endCall(f)
	r := request("job", "us")
	var m manners
	for range maxGaveBack {
		if no, refused := s.promote(background, f, f.find("us"), &r, &m).(*refusal); !refused || !no.queued {
			t.Fatalf("it did not let the reader finish: %+v", no)
		}
	}
	lateRequest := shared("job", "late")
	late := &waiter{f: f, r: &lateRequest}
	f.drop()
	f.spare = reopened(t, s)
	if no, refused := s.standInQueue(background, late).(*refusal); !refused || no.intent == 0 {
		t.Fatalf("a reader came in the middle of a promotion: %+v", no)
	}
	f.spare.unmark()
	f.spare = nil
	if err := s.promote(background, f, f.find("us"), &r, &m); err != nil {
		t.Error(err)
	}
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
