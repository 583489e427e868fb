package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
)

// examineWork checks that the user may use locks. It takes a lock of its own, uses it as a program
// would, and releases it. It also measures the round trips and compares the clocks.
func (v *visit) examineWork(ctx context.Context, l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(ctx, patience+v.Measure)
	defer cancel()
	g := l.Guarantees()
	c := &clock{base: time.Now()}
	err := v.cycle(ctx, l, c)
	if errors.Is(err, padlock.ErrHeld) {
		v.unknown("rights", "the lock "+v.Name+" is held, perhaps by another doctor", "the rights of the user could not be tested", "try again, or use another --name")
		return
	}
	if err != nil {
		v.reportRefusal("rights", err)
		return
	}
	if !v.tryOthers(ctx, l) {
		return
	}
	v.good("rights", "a lock was taken, extended, waited for, handed over and released")
	v.roundTrip(c.trips)
	if g.Bound != 0 || g.Fence.String() != "durable" {
		return // only leases depend on clocks, and only durable fences tell the server's time
	}
	v.clocks(ctx, l, c)
}

// tryOthers tries all operations except taking and releasing a lock. Those two were tried before;
// see [visit.cycle].
func (v *visit) tryOthers(ctx context.Context, l *padlock.Locker) bool {
	name := v.Name + "-2"
	lock, err := l.Acquire(ctx, name, padlock.Wait(5*time.Second), padlock.Label("padlock doctor"))
	if err != nil {
		v.reportRefusal("rights", err)
		return false
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"extend", func() error { return lock.Extend(ctx, 0) }},
		{"status", func() error { _, err := l.Inspect(ctx, name); return err }},
		{"wait", func() error { return v.handOver(ctx, l, lock) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			_ = lock.Release() // a failure is reported below
			v.reportRefusal("rights", fmt.Errorf("%s: %w", s.what, err))
			return false
		}
	}
	if _, err := l.List(ctx, name); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		v.problem("ls", plain(err), "locks work; padlock ls, top, serve and the metrics of all names do not", doAbout(err))
	}
	return true
}

// handOver tests that a lock is handed over to a waiter. Its caller holds the lock. handOver makes
// a second client wait for the lock, and then releases it.
func (v *visit) handOver(ctx context.Context, l *padlock.Locker, first *padlock.Lock) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	waits := make(chan struct{}, 1)
	store, err := v.Open(ctx, v.raw, open.Lenient())
	if err != nil {
		return err
	}
	other := padlock.New(store, padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
		if e.Kind != padlock.EventContended {
			return
		}
		select {
		case waits <- struct{}{}:
		default:
		}
	})))
	defer v.close(other)
	result := make(chan error, 1)
	go func() {
		lock, err := other.Acquire(ctx, first.Name(), padlock.Label("padlock doctor"), padlock.NoRenewal())
		if err == nil {
			err = lock.Release()
		}
		result <- err
	}()
	select {
	case <-waits:
	case err := <-result:
		_ = first.Release()
		return err
	}
	return errors.Join(first.Release(), <-result)
}

// reportRefusal reports an operation that failed.
func (v *visit) reportRefusal(check string, err error) {
	if errors.Is(err, padlock.ErrInvalid) { // the store does not take the names of doctor
		v.unknown(check, plain(err), "nothing is known about the rights of the user", "accept this (--accept "+check+"), or try the store with a name of yours: padlock run NAME -- true")
		return
	}
	v.problem(check, plain(err), "programs that use the store fail in the same way", doAbout(err))
}

// doAbout returns what to do about a call that failed.
func doAbout(err error) string {
	for _, denied := range []string{"NOPERM", "permission", "can't run this command", "403 Forbidden"} {
		if strings.Contains(plain(err), denied) {
			return "give the user the rights that its page in docs/stores lists; on Redis, ACL LOG names the refused command"
		}
	}
	return doAboutOpening(err)
}

// roundTrip compares the round trip with the time that is available for a renewal.
func (v *visit) roundTrip(trips []time.Duration) {
	slices.Sort(trips)
	worst, usual := trips[len(trips)-1], trips[len(trips)/2]
	seen := fmt.Sprintf("%s usually, %s at worst", texts.Span(usual), texts.Span(worst))
	if worst > v.TTL/60 {
		v.problem("round-trip", fmt.Sprintf("%s, with a TTL of %v", seen, v.TTL),
			"a renewal may take a sixth of the lease; with slower answers, locks that are held are lost",
			fmt.Sprintf("use a --ttl of at least %s, or a store that is nearer", texts.Span(60*worst)))
		return
	}
	if usual > nearTable && slices.Contains(tables, v.u.Scheme) {
		v.problem("round-trip", seen, fmt.Sprintf("above %v, a waiter may claim its lock too late, and never get it", nearTable),
			"run the programs that wait near the database, or use another store for them")
		return
	}
	v.good("round-trip", seen)
}

// tables are the schemes of the stores whose waiters have driver.MaxReservation to claim a lock,
// however far away they are. Telling a waiter and the claim take two round trips and a pause.
var tables = []string{"postgres", "postgresql", "mysql", "mariadb"}

const nearTable = 2 * driver.MaxReservation / 5
