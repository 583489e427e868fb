package register_test

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/register"
)

// The comments of Skew and Clock say this range. Open checks it even without a request.
func TestRangeOfSkew(t *testing.T) {
	for d, valid := range map[time.Duration]bool{-1: false, 0: true, time.Minute: true, time.Minute + 1: false} {
		target := &register.Target{Options: register.Options{Name: "shelf", Clock: register.Clock{Skew: time.Second}}}
		register.Skew(d)(target)
		s, err := register.Open(t.Context(), newShelf(register.Clock{}).open(), target.Options, true)
		if (err == nil) != valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Skew(%v): %v", d, err)
		}
		if err == nil {
			s.Close()
		}
	}
}
