package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// reporting is a store that reports facts about its server.
type reporting struct {
	driver.Store
	err error
}

func (r reporting) Status(context.Context) ([]driver.Finding, error) {
	return []driver.Finding{{Name: "uptime", Value: "1h"}}, r.err
}

func TestStatus(t *testing.T) {
	found, err := newLocker(t, reporting{memstore.New(), nil}).Status(t.Context())
	if err != nil || len(found) != 1 || found[0].Value != "1h" {
		t.Errorf("found %v, %v", found, err)
	}
	found, err = newLocker(t, reporting{memstore.New(), padlock.ErrUnavailable}).Status(t.Context())
	if !errors.Is(err, padlock.ErrUnavailable) || found != nil {
		t.Errorf("out of reach: %v, %v", found, err)
	}
	if _, err = newLocker(t, memstore.New()).Status(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("nothing to tell: %v", err)
	}
}

// Every later Close waits for the first one and returns its result; its own context ends only its
// wait.
func TestALaterCloseWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := padlock.New(store)
		acquire(t, l, "job")
		store.request("release", takes(3*time.Second))
		errDisk := errors.New("disk on fire")
		store.request("close", fails(errDisk))
		first := make(chan error, 1)
		go func() { first <- l.Close(context.Background()) }()
		synctest.Wait()
		start := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantOnly(t, l.Close(short), "close", context.DeadlineExceeded)
		if d := time.Since(start); d != time.Second || len(first) != 0 {
			t.Errorf("the second Close returned after %v; the first had returned: %v", d, len(first) != 0)
		}
		err := l.Close(context.Background())
		if d := time.Since(start); d != 3*time.Second || !errors.Is(err, errDisk) {
			t.Errorf("the third Close returned %v after %v", err, d)
		}
		if again := l.Close(short); again != err || <-first != err {
			t.Errorf("a Close afterwards returned %v", again)
		}
	})
}
