package several

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
)

// ask asks the holder in another Locker, on a store that can keep questions. The holder learns of it and
// keeps its lock; the next holder is not asked; a second question replaces the one to the holder before.
func (s site) ask(t *testing.T) {
	job := name("ask")
	l, other := s.locker(t), s.locker(t)
	k, err := l.Acquire(t.Context(), job, padlock.Wait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	asked := padlock.Asked(k.Context())
	began := time.Now()
	q, err := other.Ask(t.Context(), job, "a new version")
	if asked == nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Asked has no channel, and Ask returns %v", err)
		}
		t.Log("cannot be asked")
		return
	}
	if err != nil || q.Fence != k.Fence() {
		t.Fatalf("%+v, %v; the holder has the fence %d", q, err, k.Fence())
	}
	<-asked
	t.Logf("known after %v", time.Since(began).Round(time.Millisecond))
	if got, _ := padlock.QuestionFrom(k.Context()); got.Reason != "a new version" || got.By.PID == 0 {
		t.Errorf("the question is %+v", got)
	}
	if err := k.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := k.Release(); err != nil {
		t.Error(err)
	}
	next, err := other.Acquire(t.Context(), job, padlock.Wait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer next.Release()
	if _, err := l.Ask(t.Context(), job, "once more"); err != nil && !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("a question to the next holder: %v", err)
	} else if err == nil {
		<-padlock.Asked(next.Context())
		if got, _ := padlock.QuestionFrom(next.Context()); got.Reason != "once more" || got.Fence != next.Fence() {
			t.Errorf("the question to the next holder is %+v, its fence %d", got, next.Fence())
		}
	}
}
