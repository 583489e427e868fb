package adapters

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"github.com/tus/tusd/v2/pkg/memorylocker"
)

// runTusd is a server that gets uploads.
func runTusd(p *process) error {
	composer := handler.NewStoreComposer()
	filestore.New(p.dir).UseIn(composer)
	composer.UseLocker(uploadLocks{p.locker})
	h, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		return err
	}
	s := httptest.NewServer(http.StripPrefix("/files/", h))
	defer s.Close()
	p.say(s.URL)
	p.next()
	return nil
}

// newUploadLock returns the lock of an upload at a server.
func newUploadLock(t *testing.T, server handler.Locker) handler.Lock {
	t.Helper()
	lock, err := server.NewLock("1")
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// A loss interrupts the upload, a release does not, and a caller that gives up gets tusd's own
// error.
func TestTusdLossAndCancel(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	lock := newUploadLock(t, uploadLocks{l})
	interrupted := make(chan struct{}, 1)
	interrupt := func() { interrupted <- struct{}{} }
	if err := lock.Lock(t.Context(), interrupt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newUploadLock(t, uploadLocks{l}).Lock(ctx, nil); !errors.Is(err, handler.ErrLockTimeout) {
		t.Error(err)
	}
	script.Lose("upload:1")
	<-interrupted
	if err := lock.Unlock(); !errors.Is(err, padlock.ErrLost) {
		t.Error(err)
	}
	for range 2 {
		if err := lock.Lock(t.Context(), interrupt); err != nil {
			t.Fatal(err)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
	if len(interrupted) > 0 {
		t.Error("a release interrupts the request")
	}
	script.Fail(padlocktest.Acquire, 1, padlock.ErrUnavailable)
	if err := lock.Lock(t.Context(), interrupt); !errors.Is(err, padlock.ErrUnavailable) {
		t.Error(err)
	}
}

// A request that has waited keeps its own ":next" for a while if the store does not confirm the
// release. That interrupts nothing, but the next request that waits does.
func TestTusdOwnNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		free := script.Hold("upload:1", padlock.Hold{})
		lock, got := newUploadLock(t, uploadLocks{l}), make(chan error)
		interrupted := make(chan struct{}, 1)
		go func() { got <- lock.Lock(t.Context(), func() { interrupted <- struct{}{} }) }()
		synctest.Wait()
		script.Fail(padlocktest.Release, padlocktest.Always, padlock.ErrUnavailable)
		free()
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		for end := time.After(10 * time.Second); end != nil; {
			select {
			case <-interrupted:
				t.Fatal("the request interrupts itself")
			case <-end:
				end = nil
			}
		}
		if s, err := l.Inspect(t.Context(), "upload:1:next"); err != nil || len(s.Holds) != 1 {
			t.Fatalf("the release of :next was confirmed: %v, %v", s, err)
		}
		script.Heal()
		if err := padlock.New(script.Peer()).Do(t.Context(), "upload:1:next", func(context.Context) error {
			<-interrupted
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// The memorylocker of tusd knows one process only: two servers work on an upload at once.
func TestTheLockOfTusd(t *testing.T) {
	t.Parallel()
	for range 2 {
		if err := newUploadLock(t, memorylocker.New()).Lock(t.Context(), func() {}); err != nil {
			t.Errorf("the lock of tusd counts on two servers: %v", err)
		}
	}
}
