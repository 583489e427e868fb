package sampler

import (
	"testing"
	"time"
)

// The comments of the options say these ranges. Outside of them the default stays.
func TestRangesOfOptions(t *testing.T) {
	s := newSettings([]Option{Interval(0), Interval(-time.Second), MaxNames(0), nil})
	if s.interval != DefaultInterval || s.maxNames != DefaultMaxNames {
		t.Errorf("%+v", s)
	}
	if s := newSettings([]Option{MaxNames(1), Interval(1)}); s.maxNames != 1 || s.interval != 1 {
		t.Errorf("%+v", s)
	}
}
