package sqlstore

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/storekit/decide"
)

// A waiter comes to the head of a queue, behind holders that all keep the name for two seconds. It
// looks at the row from time to time.
func TestPace(t *testing.T) {
	var p pace
	second := decide.Time(time.Second / time.Microsecond)
	look := func(now decide.Time, position int) time.Duration {
		began := now - now%(2*second)
		st := &state{State: decide.State{Holds: []decide.Hold{{Token: "holder", Since: began, Until: now + 30*second}}}}
		p.noteLook(st, position, now)
		return p.firstPause(now)
	}
	for _, one := range []struct {
		now      decide.Time
		position int
		want     time.Duration
	}{
		{101 * second, 3, headPause}, // the first hold: nothing is known
		{101*second + 500_000, 3, headPause},
		{105 * second, 1, earlyPause}, // two hand-overs in four seconds
		{106*second - 200_000, 1, nearbyPause},
		{106 * second, 0, earlyPause},
		{107*second + 700_000, 0, 50 * time.Millisecond}, // an eighth of the step is left after this pause
		{107*second + 760_000, 0, nearbyPause},
		{107*second + 999_999, 0, nearbyPause},
	} {
		if got := look(one.now, one.position); got != one.want {
			t.Errorf("at %v with %d ahead: %v, want %v", time.Duration(one.now)*time.Microsecond, one.position, got, one.want)
		}
	}
	// This holder keeps the name for longer than the others did.
	for late, want := range map[decide.Time]time.Duration{200_000: nearbyPause, 260_000: headPause, 20 * second: headPause} {
		if got := p.firstPause(108*second + late); got != want {
			t.Errorf("%d µs late: %v, want %v", late, got, want)
		}
	}
	// From now on, the holders are quick.
	p.ahead = 4
	p.noteLook(&state{State: decide.State{Holds: []decide.Hold{{Token: "quick", Since: 106*second + 400_000, Until: 200 * second}}}}, 0, 107*second)
	if got := p.firstPause(106*second + 480_000); got != headPause {
		t.Errorf("steps of 100 ms: %v", got)
	}
	// A free name, or a hold that has lapsed, teaches nothing.
	before := p
	p.noteLook(&state{}, 0, 109*second)
	p.noteLook(&state{State: decide.State{Holds: []decide.Hold{{Token: "lapsed", Since: 108 * second, Until: 109 * second}}}}, 0, 109*second)
	if p != before {
		t.Errorf("%+v, want %+v", p, before)
	}
}
