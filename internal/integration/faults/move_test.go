package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/quorum"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// mover is a process that moves from one server to another in its own time: first only the old one,
// then both, then only the new one.
type mover struct {
	phases [3]*padlock.Locker
	visits [3]atomic.Int64
	losses atomic.Int64
	phase  atomic.Int32
	giveUp atomic.Value // a context.CancelFunc: ends the call of the phase before
}

// mayBeLost is how many locks each process may lose. site.visit still reports two that overlap.
const mayBeLost = 5

// newMover makes a mover of the stores of its three phases.
func newMover(t *testing.T, stores ...driver.Store) *mover {
	m := &mover{}
	for i, s := range stores {
		m.phases[i] = padlock.New(s)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := m.phases[i].Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	return m
}

// enter begins a phase. A process that still waits in the phase before gives up there, because a
// process that waits at two servers may wait long while others wait at one.
func (m *mover) enter(phase int) {
	m.phase.Store(int32(phase))
	if giveUp, ok := m.giveUp.Load().(context.CancelFunc); ok {
		giveUp()
	}
}

func (m *mover) work(ctx context.Context, s *site) error {
	for ctx.Err() == nil {
		inPhase, giveUp := context.WithCancel(ctx)
		m.giveUp.Store(giveUp) // before m.phase is read; see enter
		phase, began := m.phase.Load(), time.Now()
		err := m.phases[phase].Do(inPhase, "job", func(ctx context.Context) error {
			fence, _ := padlock.FenceFrom(ctx)
			s.visit(fence)
			return nil
		})
		gaveUp := inPhase.Err() != nil
		giveUp()
		switch {
		case ctx.Err() != nil:
			return nil
		case gaveUp:
			continue
		case errors.Is(err, driver.ErrUncertain), errors.Is(err, driver.ErrUnavailable):
			continue // on a busy machine a server may not answer in time
		case (errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired)) && time.Since(began) >= driver.MaxReservation/2 && m.losses.Add(1) <= mayBeLost:
			continue // on a busy machine a visit may take longer than a reservation lasts
		case err != nil:
			return fmt.Errorf("phase %d: %w", phase, err)
		}
		m.visits[phase].Add(1)
		<-time.After(rand.N(30 * time.Millisecond))
	}
	return nil
}

// TestMoveFromOneRedisToAnother moves names from one Redis to another under load. The fences of the
// old server are an hour ahead. A process begins to use the new server when it likes; it stops
// using the old one only when all processes use the new one. No two holds overlap, and no fence
// falls.
//
// A process that uses both servers takes no place in the old server's queue, and gets no turn while
// a waiter stands in it. So there are pauses here.
func TestMoveFromOneRedisToAnother(t *testing.T) {
	t.Parallel()
	r := newRack(t, 2)
	ahead := request("job")
	ahead.FenceAbove = uint64(time.Now().Add(time.Hour).UnixMicro())
	old := r.direct(0)
	take(t, old, &ahead)
	free(t, old, ahead)
	moveAll(t, ahead.FenceAbove, func() *mover {
		remember := redisstore.RememberRunIDs(&runIDs{})
		return newMover(t, member(t, r.servers[0].Addr(), remember), r.clientOf(quorum.All, r.servers).Store, member(t, r.servers[1].Addr(), remember))
	})
}

// TestMoveFromRedisToPostgreSQL does the same with two kinds of stores, as users configure them.
func TestMoveFromRedisToPostgreSQL(t *testing.T) {
	t.Parallel()
	old := "redis://" + server.Redis(t, server.RedisOptions{}).Addr()
	young := server.Postgres(t, server.PostgresOptions{}).URL()
	open := func(rawURL string) driver.Store {
		s, err := all.Store(t.Context(), rawURL)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ahead := request("job")
	ahead.FenceAbove = uint64(time.Now().Add(time.Hour).UnixMicro())
	s := open(old)
	take(t, s, &ahead)
	free(t, s, ahead)
	s.Close()
	moveAll(t, ahead.FenceAbove, func() *mover {
		return newMover(t, open(old), open("all:?"+url.Values{"store": {old, young}}.Encode()), open(young))
	})
}

// moveAll moves four processes from phase to phase. Each fence must be above last and above the one
// before.
func moveAll(t *testing.T, last uint64, process func() *mover) {
	s := &site{t: t, last: last}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var movers []*mover
	var wg sync.WaitGroup
	for i := range 4 {
		m := process()
		movers = append(movers, m)
		wg.Go(func() {
			if err := m.work(ctx, s); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	const enough = 8
	for phase := range 3 {
		for i, m := range movers {
			m.enter(phase)
			// This process is in its new phase already, and those after it are not. Its visits are
			// left to chance, because the processes of one phase have no common queue.
			server.Eventually(t, func() error {
				if n := m.visits[phase].Load(); n < enough && !t.Failed() {
					return fmt.Errorf("process %d has made %d visits in phase %d", i, n, phase)
				}
				return nil
			})
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d visits, the last fence is %d above the first", s.visits, s.last-last)
}
