package driver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		const def = 7 * time.Second
		lease, minute, hour := driver.Hold{Until: in(30 * time.Second)}, in(time.Minute), in(time.Hour)
		reader := func(planned time.Time) driver.Hold { return driver.Hold{Shared: true, PlannedEnd: planned} }
		for name, c := range map[string]struct {
			holds []driver.Hold
			want  time.Duration
		}{
			"nothing is known":                         {nil, def},
			"the end of a lease is no end of the hold": {[]driver.Hold{lease}, def},
			"a plan":                                    {[]driver.Hold{{Until: in(30 * time.Second), PlannedEnd: minute}}, time.Minute},
			"a plan that is over":                       {[]driver.Hold{{PlannedEnd: in(-time.Second)}}, def},
			"a cool-down":                               {[]driver.Hold{{Cooling: true, Until: minute, PlannedEnd: hour}}, time.Minute},
			"a cool-down whose end is unknown":          {[]driver.Hold{{Cooling: true}}, def},
			"the last of all readers":                   {[]driver.Hold{reader(minute), reader(hour)}, time.Hour},
			"one of the readers has no plan":            {[]driver.Hold{reader(minute), reader(time.Time{})}, def},
			"the first of all permits":                  {[]driver.Hold{{PlannedEnd: hour}, {PlannedEnd: minute}}, time.Minute},
			"one of the permits has no plan":            {[]driver.Hold{lease, {PlannedEnd: minute}}, time.Minute},
			"a program other than padlock has the name": {[]driver.Hold{{Foreign: true}}, def},
		} {
			e := &driver.HeldError{Holds: c.holds, Until: in(30 * time.Second)}
			if got := e.RetryAfter(def); got != c.want {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	})
}
