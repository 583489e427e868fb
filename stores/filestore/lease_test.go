//go:build linux

package filestore_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/filestore"
)

// detached is a store whose holds are all detached. So it makes the same promises as a store with
// leases.
type detached struct{ *filestore.Store }

func (d detached) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	r.Detached = true
	return d.Store.Acquire(ctx, r)
}

func (d detached) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	r.Detached = true
	return d.Store.Wait(ctx, r, reserve)
}

func (d detached) Guarantees() driver.Guarantees {
	g := d.Store.Guarantees()
	g.Bound, g.Detached, g.Lease, g.Promotion = driver.BoundToNothing, false, true, driver.PromotionNone
	g.FIFO = false // the file is not locked, so waiters for the end of a lease poll
	return g
}

// This wrapper has the methods of these interfaces and no others. So it hides the methods that
// detached holds do not support.
type only struct {
	driver.Store
	driver.Waiter
	driver.Admin
	driver.FenceRaiser
}

func TestLeaseContract(t *testing.T) {
	dir := t.TempDir()
	drivertest.Run(t, drivertest.Harness{
		Open: func(context.Context) (driver.Store, error) {
			s, err := filestore.Open(dir)
			if err != nil {
				return nil, err
			}
			d := detached{s}
			return only{d, d, s, s}, nil
		},
	})
}

func openStore(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A key of a lock in a file store stays valid when the Locker that made it is closed. It excludes
// all other callers that use padlock.
func TestKeysOnFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := padlock.New(openStore(t, dir))
	lock, err := first.Acquire(t.Context(), "job", padlock.Detached(), padlock.TTL(time.Minute), padlock.Label("deploy"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := lock.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	second := padlock.New(openStore(t, dir))
	defer second.Close(t.Context())
	var held *padlock.HeldError
	for _, opts := range [][]padlock.Option{nil, {padlock.Shared()}, {padlock.Detached()}, {padlock.Detached(), padlock.Shared()}} {
		_, err := second.TryAcquire(t.Context(), "job", opts...)
		if !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Label != "deploy" || held.Holds[0].Cooling || time.Until(held.Until) < 30*time.Second {
			t.Errorf("while the key is good, the name is to be had: %v", err)
		}
	}
	state, err := second.Inspect(t.Context(), "job")
	if err != nil || len(state.Holds) != 1 || state.Holds[0].Cooling || state.Holds[0].Until.IsZero() || state.Fence == 0 {
		t.Errorf("Inspect shows %+v, %v", state, err)
	}
	if left, err := second.ExtendKey(t.Context(), key, time.Hour); err != nil || left < 50*time.Minute {
		t.Errorf("extended by %v, %v", left, err)
	}
	adopted, err := second.Adopt(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.ReleaseKey(t.Context(), key); !errors.Is(err, padlock.ErrLost) {
		t.Errorf("the old key releases the adopted lock: %v", err)
	}
	if _, err := adopted.File(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the file of a lock that no process holds: %v", err)
	}
	if err := adopted.Demote(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("it can be demoted: %v", err)
	}
	if err := errors.Join(adopted.Check(t.Context()), adopted.Promote(t.Context()), adopted.Release()); err != nil {
		t.Error(err)
	}
	if err := second.Do(t.Context(), "job", func(context.Context) error { return nil }, padlock.Wait(0)); err != nil {
		t.Errorf("after the release: %v", err)
	}
	bound, err := second.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bound.Export(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a lock of this process can be exported: %v", err)
	}
}

// A waiter of another process gets the name when the lease is released, and when it ends.
func TestLeaseWakesWaiters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := padlock.New(openStore(t, dir)), padlock.New(openStore(t, dir))
	defer a.Close(t.Context())
	defer b.Close(t.Context())
	for _, opts := range [][]padlock.Option{{padlock.Detached()}, nil} {
		lock, err := a.Acquire(t.Context(), "job", padlock.Detached(), padlock.TTL(24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() {
			next, err := b.Acquire(context.WithoutCancel(t.Context()), "job", opts...)
			if err == nil {
				err = next.Release()
			}
			got <- err
		}()
		for state, _ := a.Inspect(t.Context(), "job"); state.Waiters != 1; state, _ = a.Inspect(t.Context(), "job") {
			<-time.After(time.Millisecond)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
		if _, err := a.Acquire(t.Context(), "job", padlock.Detached(), padlock.NoRenewal(), padlock.TTL(100*time.Millisecond)); err != nil {
			t.Error(err)
		}
		if err := b.Do(t.Context(), "job", func(context.Context) error { return nil }, opts...); err != nil {
			t.Error(err)
		}
	}
}

// flock(1) does not see the lease and may lock the file. Meanwhile the lease cannot be extended or
// released, and the error says why.
func TestLeaseBesideFlock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := padlock.New(openStore(t, dir))
	defer l.Close(t.Context())
	lock, err := l.Acquire(t.Context(), "job", padlock.Detached())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("flock", "-n", dir+"/"+filestore.FileName("job"), "cat")
	stdin, err := cmd.StdinPipe()
	if err == nil {
		cmd.Stdout = nil
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for state, _ := l.Inspect(t.Context(), "job"); len(state.Holds) != 2; state, _ = l.Inspect(t.Context(), "job") {
		<-time.After(time.Millisecond)
	}
	if err := lock.Extend(t.Context(), time.Hour); !errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrLost) {
		t.Errorf("extended while flock(1) has the file: %v", err)
	}
	if err := lock.Check(t.Context()); err != nil {
		t.Errorf("the lease is not verified: %v", err)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Extend(t.Context(), time.Hour), lock.Release()); err != nil {
		t.Errorf("after flock(1): %v", err)
	}
}
