package storekit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

func bubble(t *testing.T, f func(t *testing.T, c *Calls)) {
	synctest.Test(t, func(t *testing.T) {
		c := &Calls{}
		c.Open()
		defer c.Work.Wait()
		defer c.End()
		f(t, c)
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T, c *Calls) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		slow := func() (int, error) { <-time.After(time.Minute); return 1, nil }
		began := time.Now()
		if n, err := Do(ctx, c, func() (int, error) { return 7, nil }); n != 7 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		if _, err := Do(ctx, c, slow); !errors.Is(err, driver.ErrUncertain) || time.Since(began) != Patience {
			t.Errorf("a silent server: %v after %v", err, time.Since(began))
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := Do(short, c, slow); !errors.Is(err, driver.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context ended: %v", err)
		}
		began = time.Now()
		if _, err := Do(context.Background(), c, slow); !errors.Is(err, driver.ErrUncertain) || time.Since(began) != Patience {
			t.Errorf("a silent server and a context that never ends: %v after %v", err, time.Since(began))
		}
	})
}

func TestEnd(t *testing.T) {
	bubble(t, func(t *testing.T, c *Calls) {
		lost := errors.New("the connection is lost")
		begun := make(chan error)
		go func() {
			_, err := Do(t.Context(), c, func() (int, error) { <-c.Closing.Done(); return 0, lost })
			begun <- err
		}()
		synctest.Wait()
		if !c.End() || c.End() {
			t.Error("the first End is not told from the second")
		}
		if err := <-begun; !errors.Is(err, driver.ErrClosed) || !errors.Is(err, lost) {
			t.Errorf("a call that End ended: %v", err)
		}
		if err := c.Begin(t.Context()); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("a call after End: %v", err)
		}
	})
}

func TestAwait(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Calls) {
		turn := make(chan struct{}, 1)
		if err := Await(t.Context(), turn); err != nil {
			t.Error(err)
		}
		if err := Await(t.Context(), turn); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("the turn is taken: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := Await(ctx, turn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context ended: %v", err)
		}
		<-turn
		if err := Await(t.Context(), turn); err != nil {
			t.Error(err)
		}
	})
}

func TestRegularly(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Calls) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		n := 0
		Regularly(ctx, time.Hour, func() { n++ })
		if n < 20 || n > 40 {
			t.Errorf("%d times in ten hours, want 20 to 40", n)
		}
	})
}
