package advisory_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A connection ends while no statement runs. A look at the socket finds that within 0.1 s. If the
// socket says nothing, the ping finds it.
func TestWatch(t *testing.T) { synctest.Test(t, watch) }

func watch(t *testing.T) {
	for _, seen := range []bool{true, false} {
		l := advisory.NewLink(&advisory.Config{LossDelay: 8 * time.Second}, nil)
		var ended atomic.Bool
		broken := func(seen bool) func() error {
			return func() error {
				if ended.Load() && seen {
					return errCut
				}
				return nil
			}
		}
		ping := func() error {
			return l.Do(time.Second, func(context.Context) error {
				if ended.Load() {
					return &storekit.NoReply{Err: errCut}
				}
				return nil
			})
		}
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			l.Watch(broken(seen), ping)
		}()
		<-time.After(time.Minute + time.Millisecond)
		if !l.Alive() {
			t.Fatal("the connection has ended by itself")
		}
		synctest.Wait()
		ended.Store(true)
		began, limit := time.Now(), 100*time.Millisecond
		if !seen {
			limit += 2 * time.Second
		}
		<-watched
		if took := time.Since(began); took > limit || !seen && took < 200*time.Millisecond {
			t.Errorf("seen by a look: %v; noticed after %v, want %v", seen, took, limit)
		}
		if cause := context.Cause(l.Bound()); !errors.Is(cause, driver.ErrLost) || !errors.Is(cause, errCut) {
			t.Errorf("the cause is %v", cause)
		}
	}
}

// A statement without a reply ends the connection; a refused one does not. After the end, nothing
// is sent. Close ends a statement that is running.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := advisory.NewLink(&advisory.Config{}, nil)
		if err := l.Do(time.Second, func(context.Context) error { return errRefused }); err != errRefused || !l.Alive() {
			t.Errorf("a refused statement: %v; the connection is alive: %v", err, l.Alive())
		}
		began := time.Now()
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return &storekit.NoReply{Err: ctx.Err()}
		}
		if noReply, _ := storekit.IsNoReply(l.Do(time.Second, silent)); !noReply || l.Alive() || time.Since(began) != time.Second {
			t.Errorf("a silent server, after %v: no reply %v; the connection is alive: %v", time.Since(began), noReply, l.Alive())
		}
		err := l.Do(time.Second, func(context.Context) error {
			t.Error("a statement was sent after the end")
			return nil
		})
		if noReply, unsent := storekit.IsNoReply(err); !noReply || !unsent {
			t.Errorf("a statement after the end: %v", err)
		}
		l = advisory.NewLink(&advisory.Config{}, nil)
		waiting := make(chan error)
		go func() { waiting <- l.Do(0, silent) }()
		<-time.After(time.Hour)
		go l.Close(func() { waiting <- nil })
		if err, then := <-waiting, <-waiting; err == nil || then != nil {
			t.Errorf("the statement that waits: %v; then %v; want it to end, and then the connection to be closed", err, then)
		}
		if cause := context.Cause(l.Bound()); !errors.Is(cause, driver.ErrClosed) {
			t.Errorf("the cause is %v", cause)
		}
	})
}
