package facetest

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// defaultLog returns what slog.Default logs until the test ends.
func defaultLog(t *testing.T) *syncBuffer {
	log, before := new(syncBuffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

// awaitLog collects garbage until the log has text.
func awaitLog(t *testing.T, log *syncBuffer, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), text); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("the log lacks %q:\n%s", text, log.String())
		}
	}
}

// Without an observer, a sample of the locks is watched, and each name is logged once.
func TestForgottenLockWithoutObserver(t *testing.T) {
	log := defaultLog(t)
	l := newLocker(t, memstore.New())
	l.ShowNames(strings.ToUpper)
	for i := range 3 * 64 {
		switch name := fmt.Sprintf("n%d", i); i {
		case 0, 64:
			acquireToForget(t, l, "lost", padlock.Shared())
		case 128:
			acquireToForget(t, l, "last")
		default:
			release(t, acquireToForget(t, l, name))
		}
	}
	awaitLog(t, log, "LAST")
	awaitLog(t, log, "LOST")
	for range 3 {
		runtime.GC()
	}
	if text := log.String(); strings.Count(text, "name=LOST") != 1 || strings.Contains(text, "name=N") || !strings.Contains(text, "level=WARN") {
		t.Error(text)
	}
}

// leaky is a store that is not in this process.
type leaky struct {
	driver.Store
	kind string
}

func (s leaky) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.InProcess, g.Store = false, s.kind
	return g
}

// A Locker that is garbage without Close is logged, once for each kind of store.
func TestLockerWithoutClose(t *testing.T) {
	log := defaultLog(t)
	func() {
		padlock.New(leaky{memstore.New(), "kept open"}, padlock.KeepStoreOpen())
		if err := padlock.New(leaky{memstore.New(), "closed"}).Close(t.Context()); err != nil {
			t.Error(err)
		}
		padlock.New(memstore.New())
		for range 10 {
			padlock.New(leaky{memstore.New(), "leaky"})
		}
		padlock.New(leaky{memstore.New(), "marker"})
	}()
	awaitLog(t, log, "store=leaky")
	awaitLog(t, log, "store=marker")
	for range 3 {
		runtime.GC()
	}
	text := log.String()
	if strings.Count(text, "store=leaky") != 1 || strings.Contains(text, "kept open") || strings.Contains(text, "store=closed") || strings.Contains(text, "without Close, so its store stays open; call Close, and use one Locker for each store\" store=memory") {
		t.Error(text)
	}
	if !strings.Contains(text, "without Close") || !strings.Contains(text, "level=WARN") {
		t.Error(text)
	}
}
