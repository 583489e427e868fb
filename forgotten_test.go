package padlock_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/memstore"
)

// syncBuffer is for a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A lock that nobody can release any more is told of, and stays held. Those that
// were released, exported, or are still in somebody's hands are not.
func TestForgottenLock(t *testing.T) {
	t.Parallel()
	var rec recorder
	var log syncBuffer
	l := padlock.New(memstore.New(), padlock.OnEvent(rec.on), padlock.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	defer l.Close(t.Context())
	kept := acquire(t, l, "kept")
	release(t, acquire(t, l, "released"))
	if _, err := acquire(t, l, "exported").Export(); err != nil {
		t.Fatal(err)
	}
	acquire(t, l, "forgotten")
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), "forgotten"); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("nobody is told of a forgotten lock")
		}
	}
	for range 3 {
		runtime.GC()
	}
	for _, e := range rec.all() {
		if e.Kind == padlock.EventForgotten && e.Name != "forgotten" {
			t.Errorf("%q counts as forgotten", e.Name)
		}
	}
	if rec.last(padlock.EventForgotten).Name != "forgotten" {
		t.Error("OnEvent is not told")
	}
	if _, err := l.TryAcquire(t.Context(), "forgotten"); err == nil {
		t.Error("a forgotten lock was given up, though somebody may rely on it")
	}
	release(t, kept)
}
