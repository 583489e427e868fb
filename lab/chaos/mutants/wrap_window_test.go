package mutants

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/soak"
)

// windows are the mutants of reservations that are used before they are claimed. Each believes in a
// window that ends too late.
var windows = []mutant{
	{name: "a reservation used after it lapsed", within: 1000, seen: []string{"I1"}, load: longer, sound: inWindow,
		open: func(s driver.Store, _ *shared) driver.Store { return reserving{onServer{wrap{s}}, tooLate} }},
	{name: "a sample of the server's clock that is too old", within: 1000, seen: []string{"I1"}, load: longer, sound: inWindow,
		open: func(s driver.Store, _ *shared) driver.Store {
			const age, drift = 70 * time.Second, 0.01 // the clocks drift apart, and nobody renews the sample
			return reserving{onServer{wrap{s}}, time.Duration(drift * float64(age))}
		}},
	{name: "a sample of another server's clock", within: 1000, seen: []string{"I1"}, load: longer, sound: inWindow,
		open: func(s driver.Store, _ *shared) driver.Store {
			const ahead = 800 * time.Millisecond // the lead of the clock that is asked
			return reserving{onServer{wrap{s}}, ahead}
		}},
}

// tooLate is a delay after which the claim, too, comes after the end of the reservation.
const tooLate = driver.MaxReservation + 100*time.Millisecond

// longer makes holders work for longer than a reservation lasts.
func longer(l *soak.Load) {
	crowded(l)
	l.Cancel, l.MinHold, l.MaxHold, l.MinTTL, l.MaxTTL = 0, 650*time.Millisecond, 750*time.Millisecond, 2*time.Second, 3*time.Second
}

func inWindow(s driver.Store, _ *shared) driver.Store { return reserving{onServer{wrap{s}}, 0} }

// reserving hands names over as reservations that can be used without a claim. Their windows begin
// late.
type reserving struct {
	onServer
	late time.Duration
}

func (s reserving) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if !reserve || r.Shared {
		return s.onServer.Wait(ctx, r, reserve)
	}
	r.TTL, r.AtLeast = driver.MaxReservation, 0
	g, err := s.wrap.Wait(ctx, r, reserve)
	if g.From != 0 {
		g.From = g.From.Add(s.late)
	}
	return g, err
}
