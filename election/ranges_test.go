package election

import (
	"testing"
	"time"
)

// The comment of BackOff says this range. Outside of it the default stays.
func TestRangeOfBackOff(t *testing.T) {
	s := settings{backOff: DefaultBackOff, maxBackOff: DefaultMaxBackOff}
	BackOff(0, -time.Second)(&s)
	OnError(nil)(&s)
	if s.backOff != DefaultBackOff || s.maxBackOff != DefaultMaxBackOff || s.onError != nil {
		t.Errorf("%+v", s)
	}
	if BackOff(time.Second, time.Minute)(&s); s.backOff != time.Second || s.maxBackOff != time.Minute {
		t.Errorf("%+v", s)
	}
}
