package sampler

import (
	"testing"
	"time"
)

// The comments of the options say these ranges. Outside of them the default stays.
func TestRangesOfOptions(t *testing.T) {
	s := newSettings([]Option{
		Interval(0), Interval(-time.Second), Patience(0), Patience(-time.Second), MaxNames(0), MaxRate(0), MaxGroups(-1), GroupBy(nil), nil,
	})
	if s.interval != DefaultInterval || s.patience != DefaultPatience || s.maxNames != DefaultMaxNames || s.maxRate != DefaultMaxRate ||
		s.maxGroups != DefaultMaxGroups || s.group == nil {
		t.Errorf("%+v", s)
	}
	if s := newSettings([]Option{MaxGroups(0), MaxNames(1), MaxRate(1), Interval(1)}); s.maxGroups != 0 || s.maxNames != 1 || s.maxRate != 1 || s.interval != 1 {
		t.Errorf("%+v", s)
	}
}
