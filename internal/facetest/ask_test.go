package facetest

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
)

// isAsked reports whether the holder of the lock in ctx was asked.
func isAsked(ctx context.Context) bool {
	select {
	case <-padlock.Asked(ctx):
		return true
	default:
		return false
	}
}

// ask asks, and returns the question.
func ask(t *testing.T, l *padlock.Locker, name, reason string) padlock.Question {
	t.Helper()
	q, err := l.Ask(t.Context(), name, reason)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// everyAsked runs f with each kind of store that shows its holders.
func everyAsked(t *testing.T, f func(t *testing.T, s padlock.Store)) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		if _, ok := driver.As[driver.Admin](s); ok {
			f(t, s)
		}
	})
}

// TestAsk: who holds the name learns within a second that somebody asks, and who. It keeps its lock. The
// next holder is not asked.
func TestAsk(t *testing.T) {
	everyAsked(t, func(t *testing.T, s padlock.Store) {
		l, other := newLocker(t, s), newLocker(t, s)
		k := acquire(t, l, "job")
		if isAsked(k.Context()) {
			t.Error("asked before anybody asks")
		}
		<-time.After(3 * time.Second / 2)
		began := time.Now()
		q := ask(t, other, "job", "a new version")
		if again := ask(t, l, "job", "another reason"); again.Reason != q.Reason {
			t.Errorf("a second question: %+v, want the first one", again)
		}
		<-padlock.Asked(k.Context())
		if d := time.Since(began); d > time.Second {
			t.Errorf("the holder learns it after %v", d)
		}
		got, ok := padlock.QuestionFrom(k.Context())
		if !ok || got.Name != "job" || got.Fence != k.Fence() || got.Reason != "a new version" || got.By.PID != os.Getpid() || got.At.IsZero() {
			t.Errorf("the question is %+v, %v", got, ok)
		}
		if err := k.Check(t.Context()); err != nil || k.Context().Err() != nil {
			t.Errorf("the question has ended the lock: %v", err)
		}
		release(t, k)
		next := acquire(t, l, "job")
		padlock.Asked(next.Context())
		<-time.After(5 * time.Second)
		if isAsked(next.Context()) {
			t.Error("the next holder is asked, too")
		}
		release(t, next)
	})
}

// TestAskTheNextHolder: a question to the earlier holder does not keep the next one from being asked.
func TestAskTheNextHolder(t *testing.T) {
	everyAsked(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		k := acquire(t, l, "job")
		ask(t, l, "job", "first")
		release(t, k)
		next := acquire(t, l, "job")
		if s.Guarantees().InProcess {
			ask(t, l, "job", "second")
		} else { // the store breaks nothing, so the first question ends with its lease
			if _, err := l.Ask(t.Context(), "job", "second"); !errors.Is(err, padlock.ErrHeld) {
				t.Errorf("a question beside one to an earlier holder: %v", err)
			}
			<-time.After(time.Minute)
			ask(t, l, "job", "second")
		}
		<-padlock.Asked(next.Context())
		if q, _ := padlock.QuestionFrom(next.Context()); q.Reason != "second" || q.Fence != next.Fence() {
			t.Errorf("the question is %+v", q)
		}
		release(t, next)
	})
}

// TestAskReaders: all readers are asked, and a reader who came later is not.
func TestAskReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		a, b := newLocker(t, s), newLocker(t, s)
		one, two := acquire(t, a, "job", padlock.Shared()), acquire(t, b, "job", padlock.Shared())
		padlock.Asked(one.Context())
		ask(t, a, "job", "")
		<-padlock.Asked(one.Context())
		<-padlock.Asked(two.Context())
		release(t, one)
		release(t, two)
		three := acquire(t, a, "job", padlock.Shared())
		padlock.Asked(three.Context())
		<-time.After(5 * time.Second)
		if isAsked(three.Context()) {
			t.Error("a reader who came later is asked")
		}
		release(t, three)
	})
}

// TestAskErrors: nobody to ask, and stores that cannot keep a question.
func TestAskErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		for name, want := range map[string]error{"free": padlock.ErrLost, fast.SlotName("job", 1): errors.ErrUnsupported, "": padlock.ErrInvalid} {
			_, err := l.Ask(t.Context(), name, "")
			var e *padlock.Error
			if !errors.Is(err, want) || !errors.As(err, &e) || e.Op != padlock.OpAsk {
				t.Errorf("Ask %q: %v, want %v", name, err, want)
			}
		}
		k := acquire(t, l, "job", padlock.Slots(2))
		if padlock.Asked(k.Context()) != nil || padlock.Asked(t.Context()) != nil {
			t.Error("a permit, or a context without a lock, can be asked")
		}
		release(t, k)
		unable := newRemote()
		unable.guarantees.Fence = driver.FenceNone
		l = newLocker(t, unable)
		k = acquire(t, l, "job")
		if _, err := l.Ask(t.Context(), "job", ""); !errors.Is(err, errors.ErrUnsupported) || padlock.Asked(k.Context()) != nil {
			t.Errorf("without fences: %v", err)
		}
		release(t, k)
	})
}

// TestLooksForQuestions: a holder who does not look for questions sends nothing for them, and one who
// looks sends one request a second until its lock is over.
func TestLooksForQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{remote: newRemote()}
		l := newLocker(t, store)
		k := acquire(t, l, "job")
		<-time.After(10 * time.Second)
		before := store.looks.Load()
		padlock.Asked(k.Context())
		padlock.Asked(k.Context())
		<-time.After(10*time.Second - time.Millisecond)
		during := store.looks.Load()
		release(t, k)
		<-time.After(10 * time.Second)
		if before != 0 || during != 10 || store.looks.Load() != 10 {
			t.Errorf("requests without Asked %d, in 10 s with it %d, after the lock %d; want 0, 10, 0", before, during, store.looks.Load()-during)
		}
	})
}

// counted counts Inspect.
type counted struct {
	*remote
	looks atomic.Int64
}

func (c *counted) Inspect(ctx context.Context, name string) (driver.State, error) {
	c.looks.Add(1)
	return c.remote.Inspect(ctx, name)
}

// TestAskOfTheSlow: an asker that saw an earlier holder does not take the question to the present one
// away.
func TestAskOfTheSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		late := &outdated{Store: s, waits: make(chan struct{}), goes: make(chan struct{})}
		l, slow := newLocker(t, s), newLocker(t, late)
		k := acquire(t, l, "job")
		result := make(chan error)
		go func() {
			_, err := slow.Ask(t.Context(), "job", "first")
			result <- err
		}()
		<-late.waits
		release(t, k)
		next := acquire(t, l, "job")
		ask(t, l, "job", "second")
		close(late.goes)
		if err := <-result; !errors.Is(err, padlock.ErrLost) {
			t.Errorf("the slow asker: %v, want that its holder has left", err)
		}
		select {
		case <-padlock.Asked(next.Context()):
		case <-time.After(3 * time.Second):
			t.Fatal("the present holder is not told")
		}
		if q, _ := padlock.QuestionFrom(next.Context()); q.Reason != "second" {
			t.Errorf("the question is %+v", q)
		}
		release(t, next)
	})
}

// outdated returns what it saw of a name only later.
type outdated struct {
	*memstore.Store
	waits, goes chan struct{}
	once        sync.Once
}

func (o *outdated) Inspect(ctx context.Context, name string) (driver.State, error) {
	state, err := o.Store.Inspect(ctx, name)
	o.once.Do(func() {
		close(o.waits)
		<-o.goes
	})
	return state, err
}

// TestTwoAskInstead: two callers replace the question to an earlier holder at the same time. The later one
// gets the question of the other.
func TestTwoAskInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		late := &slowBreak{Store: s, waits: make(chan struct{}), goes: make(chan struct{})}
		l, slow := newLocker(t, s), newLocker(t, late)
		k := acquire(t, l, "job")
		ask(t, l, "job", "to the earlier holder")
		release(t, k)
		next := acquire(t, l, "job")
		go func() {
			<-late.waits
			ask(t, l, "job", "to the present holder")
			close(late.goes)
		}()
		if q := ask(t, slow, "job", "the same"); q.Reason != "to the present holder" || q.Fence != next.Fence() {
			t.Errorf("the question is %+v", q)
		}
		release(t, next)
	})
}

// slowBreak breaks only later.
type slowBreak struct {
	*memstore.Store
	waits, goes chan struct{}
}

func (b *slowBreak) Break(ctx context.Context, name string, fence uint64) (uint64, error) {
	close(b.waits)
	<-b.goes
	return b.Store.Break(ctx, name, fence)
}
