package command

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// The queue is first come, first served. So the number of waiters ahead is never more than the
// smallest number of waiters that was ever seen.
func TestProgressTellsThePlace(t *testing.T) {
	store, err := open.Store(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(context.Background())
	if !l.Guarantees().FIFO {
		t.Fatal("this store has no queue to tell of")
	}
	if _, err := l.Acquire(t.Context(), "deploy", padlock.Label("holder")); err != nil {
		t.Fatal(err)
	}
	p := &progress{set: &runFlags{}, name: "deploy", locker: l, held: &padlock.HeldError{}, ahead: -1, begun: time.Now()}
	p.askHolder(t.Context())
	if text := p.text(time.Now()); !strings.Contains(text, "(holder)") || strings.Contains(text, "queue") {
		t.Errorf("before anybody waits: %s", text)
	}
	first, leave := context.WithCancel(t.Context())
	defer leave()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits(t, store, first, 1)
	waits(t, store, ctx, 2)
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "(at most 1 ahead): "},
		{func() { leave(); waiting(t, l, 1) }, "(next in the queue): "},
		{func() { waits(t, store, ctx, 2) }, "(next in the queue): "}, // a later waiter is behind
	} {
		step.change()
		p.askHolder(t.Context())
		if text := fitLine(p.text(time.Now()), 80); !strings.Contains(text, step.want) { // on any terminal
			t.Errorf("%s; want %s", text, step.want)
		}
	}
}

// waits puts another waiter, the n-th, into the queue. It is a process of its own, for the callers
// of one Locker have one place.
func waits(t *testing.T, store padlock.Store, ctx context.Context, n int) {
	t.Helper()
	l := padlock.New(store, padlock.KeepStoreOpen())
	t.Cleanup(func() { l.Close(context.Background()) })
	go func() { _, _ = l.Acquire(ctx, "deploy") }() // until the test ends
	waiting(t, l, n)
}

func waiting(t *testing.T, l *padlock.Locker, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		s, err := l.Inspect(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		if s.Waiters == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, want %d", s.Waiters, n)
		}
		<-time.After(time.Millisecond)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"short", 80, "short"}, {"of no width", 0, "of no width"}, {"häßlich", 8, "häßlich"},
		{"häßlich", 7, "häßli…"}, {"a b c d", 6, "a b…"}, {"x", 1, "x"},
	} {
		if got := fitLine(c.line, c.width); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.line, c.width, got, c.want)
		}
	}
}
