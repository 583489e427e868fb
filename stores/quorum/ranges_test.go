package quorum_test

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// The comment of MemberTimeout says this range.
func TestRangeOfMemberTimeout(t *testing.T) {
	for d, valid := range map[time.Duration]bool{
		-1: false, 0: true, time.Millisecond - 1: false, time.Millisecond: true, time.Second: true, time.Second + 1: false,
	} {
		s, err := quorum.New(quorum.Majority, []driver.Store{memstore.New()}, quorum.MemberTimeout(d), quorum.WithClock(nil))
		if (err == nil) != valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("MemberTimeout(%v): %v", d, err)
		}
		if err == nil {
			s.Close()
		}
	}
}
