package storekit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// TestFailure goes through the table in the comment of Failure.
func TestFailure(t *testing.T) {
	refusal := errors.New("the server refuses")
	for _, c := range []struct {
		err  error
		want error // nil for no error
		not  error
	}{
		{nil, nil, nil},
		{driver.ErrFencesUsedUp, driver.ErrFencesUsedUp, driver.ErrUnavailable},
		{fmt.Errorf("%w: Close", driver.ErrClosed), driver.ErrClosed, driver.ErrUnavailable},
		{&NoReply{Err: fmt.Errorf("%w: a wrong session", driver.ErrInvalid)}, driver.ErrInvalid, driver.ErrUncertain},
		{fmt.Errorf("%w: not settled", driver.ErrUncertain), driver.ErrUncertain, driver.ErrUnavailable},
		{&NoReply{Err: io.EOF}, driver.ErrUncertain, driver.ErrUnavailable},
		{fmt.Errorf("take: %w", &NoReply{Err: context.DeadlineExceeded}), driver.ErrUncertain, context.DeadlineExceeded},
		{&NoReply{Err: context.Canceled, Unsent: true}, driver.ErrUnavailable, context.Canceled},
		{context.DeadlineExceeded, driver.ErrUnavailable, context.DeadlineExceeded},
		{refusal, driver.ErrUnavailable, driver.ErrUncertain},
		{refusal, refusal, driver.ErrUncertain},
	} {
		got := Failure(c.err)
		if !errors.Is(got, c.want) || c.not != nil && errors.Is(got, c.not) {
			t.Errorf("%v: Failure returns %v; want %v and not %v", c.err, got, c.want, c.not)
		}
	}
}

func TestHoldOf(t *testing.T) {
	at := time.Unix(1000, 0)
	if h := HoldOf(driver.Holder{PID: 7, Plan: time.Minute}, true, at); h.PID != 7 || !h.Shared || !h.Since.Equal(at) || !h.PlannedEnd.Equal(at.Add(time.Minute)) {
		t.Errorf("a holder with a plan: %+v", h)
	}
	if h := HoldOf(driver.Holder{}, false, at); h.Shared || !h.PlannedEnd.IsZero() {
		t.Errorf("a holder without a plan: %+v", h)
	}
}
