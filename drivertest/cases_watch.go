package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// watchCases check the results that the store returned in all other cases.
var watchCases = []testCase{
	{
		name:   "answers/secret-tokens",
		clause: "A token is a secret and never appears in an error or in a Hold that others see.",
		watch: func(r *run, k *call) string {
			for _, t := range k.tokens {
				if len(t) < 16 || k.err == nil {
					continue
				}
				var held *driver.HeldError
				text := k.err.Error()
				if errors.As(k.err, &held) {
					text += fmt.Sprintf("%+v", held.Holds)
				}
				if strings.Contains(text, t) {
					return fmt.Sprintf("returns an error that contains the token: %s", strings.ReplaceAll(text, t, "TOKEN"))
				}
			}
			return ""
		},
	},
	{
		name:   "answers/fence",
		clause: "A fence is below 2^53. It is 0 if Guarantees say that there is none, and only then.",
		watch: func(r *run, k *call) string {
			granted := k.hold && (k.op == "Acquire" || k.op == "Convert")
			switch f := k.grant.Fence; {
			case f >= driver.MaxFence:
				return fmt.Sprintf("returns fence %d", f)
			case r.g.Fence == driver.FenceNone && f != 0:
				return fmt.Sprintf("returns fence %d, though Guarantees say that there is none", f)
			case r.g.Fence != driver.FenceNone && f == 0 && granted:
				return "returns fence 0, though Guarantees say that there are fences"
			}
			return ""
		},
	},
	{
		name:   "answers/lease",
		clause: "In a store with leases, Grant.TTL is above 0, even right before the end of the lease: 0 means that a hold has no lease. In a store without leases it is 0, except for detached holds.",
		watch: func(r *run, k *call) string {
			if !k.hold || k.op == "Wait" {
				return ""
			}
			untrue := k.grant.TTL < 0 || r.g.Lease != (k.grant.TTL > 0)
			if untrue && !(r.g.Detached && k.grant.TTL > 0) {
				return fmt.Sprintf("returns TTL %v, and Guarantees.Lease is %v", k.grant.TTL, r.g.Lease)
			}
			return ""
		},
	},
	{
		name:   "answers/bound",
		clause: "Grant.Bound is nil for holds that are bound to nothing, and set for those that are bound to a connection.",
		watch: func(r *run, k *call) string {
			granted := k.hold && (k.op == "Acquire" || k.op == "Convert")
			switch {
			case r.g.Bound == driver.BoundToNothing && k.grant.Bound != nil:
				return "returns a Bound, though Guarantees say that holds are bound to nothing"
			case r.g.Bound == driver.BoundToConnection && granted && k.grant.Bound == nil:
				return "returns no Bound, though Guarantees say that holds are bound to a connection"
			}
			return ""
		},
	},
	{
		name:   "answers/in-process",
		clause: "Every Grant of a store in this process has From.",
		needs:  []need{inProcess},
		watch: func(r *run, k *call) string {
			if k.hold && k.grant.From == 0 {
				return "returns a grant without From"
			}
			return ""
		},
	},
	{
		name:   "answers/errors",
		clause: "ErrHeld is always a *HeldError, and a refused Acquire is nothing else: it is not joined with ErrUncertain, ErrUnavailable or ErrInvalid. An error that is context.Canceled or DeadlineExceeded comes from the context, and is not ErrHeld, ErrLost or ErrExpired.",
		watch: func(r *run, k *call) string {
			var held *driver.HeldError
			ctx := errors.Is(k.err, context.Canceled) || errors.Is(k.err, context.DeadlineExceeded)
			switch {
			case errors.Is(k.err, driver.ErrHeld) && !errors.As(k.err, &held):
				return fmt.Sprintf("returns ErrHeld without a *HeldError: %v", k.err)
			case k.op == "Acquire" && errors.As(k.err, &held) && (isSilence(k.err) || isLoss(k.err) || errors.Is(k.err, driver.ErrInvalid) || errors.Is(k.err, driver.ErrClosed)):
				return fmt.Sprintf("returns a refusal that is another error, too: %v", k.err)
			case ctx && k.op != "Wait" && (errors.Is(k.err, driver.ErrHeld) || isLoss(k.err)):
				return fmt.Sprintf("returns an error of the context as a refusal or a loss: %v", k.err)
			}
			return ""
		},
	},
}
