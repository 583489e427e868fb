package drivertest

import (
	"context"
	"slices"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

const (
	batchEndsEarly    bug = "ExtendBatch ends at the first hold that is lost"
	batchOutOfOrder   bug = "ExtendBatch answers in another order"
	batchOnlyVerifies bug = "ExtendBatch only verifies"
	batchUnchecked    bug = "ExtendBatch does not check its arguments"

	fullExtendsNoBatch bug = "a full store extends no batch"
)

var batchBugs = []bug{batchEndsEarly, batchOutOfOrder, batchOnlyVerifies, batchUnchecked, fullExtendsNoBatch}

// ExtendBatch implements fast.BatchExtender.
func (s relay) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	out := make([]fast.Extended, len(holds))
	for i, h := range holds {
		if err := s.check(h.Name, h.Token.Text(), "TTL", h.TTL); err != nil && !s.is(batchUnchecked) {
			return nil, err
		}
		if s.is(batchOnlyVerifies) {
			holds[i].TTL = 0
		}
	}
	if s.w.isFull() && s.is(fullExtendsNoBatch) {
		return nil, driver.ErrUnavailable
	}
	for i, h := range holds {
		out[i].Grant, out[i].Err = s.Extend(ctx, h.Name, h.Token.Text(), h.TTL)
		if s.is(batchEndsEarly) && i > 0 && out[i-1].Err != nil {
			out[i] = out[i-1]
		}
	}
	if s.is(batchOutOfOrder) {
		slices.Reverse(out)
	}
	return out, nil
}
