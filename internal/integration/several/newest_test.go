package several

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/newest"
)

// newest has a holder and two callers that wait: the second one runs, and the first is dropped.
func (s site) newest(t *testing.T) {
	job := name("newest")
	l, other := s.locker(t), s.locker(t)
	first, err := newest.Acquire(t.Context(), l, job)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Log("not on this store")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	older, newer := make(chan error, 1), make(chan error, 1)
	wait := func(l *padlock.Locker, result chan error) {
		result <- newest.Do(t.Context(), l, job, func(context.Context) error { return nil }, padlock.Wait(time.Minute))
	}
	go wait(other, older)
	marks(t, l, job, 1)
	go wait(l, newer)
	marks(t, l, job, 2)
	<-padlock.Asked(first.Context())
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	if err := <-newer; err != nil {
		t.Errorf("the newest: %v", err)
	}
	if err := <-older; !errors.Is(err, newest.ErrSuperseded) {
		t.Errorf("the older one: %v", err)
	}
}

// marks waits until n callers wait.
func newestWaiting(job string) string { return fast.NewestName(job, "waiting") }

func marks(t *testing.T, l *padlock.Locker, job string, n int) {
	t.Helper()
	for {
		state, err := l.Inspect(t.Context(), newestWaiting(job))
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Holds) == n {
			return
		}
	}
}
