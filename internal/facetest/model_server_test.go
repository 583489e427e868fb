package facetest

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/memstore"
)

// modelServer is a server that both processes reach: a memory store, and a service that keeps the
// values of registers.
type modelServer struct {
	clock *aheadClock
	mem   *memstore.Store

	mu      sync.Mutex
	value   string
	version int
	changed chan struct{} // closed at the next write
}

// aheadClock is the clock of a server. It is ahead of that of the processes.
type aheadClock struct {
	driver.Clock
	ahead atomic.Int64
}

func (c *aheadClock) Now() driver.Instant { return c.Clock.Now() + driver.Instant(c.ahead.Load()) }

func newModelServer(random *rand.Rand, isMember bool) *modelServer {
	s := &modelServer{clock: &aheadClock{Clock: driver.SystemClock()}, changed: make(chan struct{})}
	s.mem = memstore.New(memstore.WithClock(s.clock))
	if isMember {
		s.clock.ahead.Store(random.Int64N(int64(3 * time.Hour))) // its fences are ahead, too
	}
	return s
}

// modelLink is the network between a process and a server: that of a pairModel.
type modelLink struct {
	*pairModel
	*modelServer
	process int
}

// link returns a network whose late requests come up to modelLate later. The promises of a quorum end
// at half a second.
func (s *modelServer) link(process int, random *rand.Rand) *modelLink {
	x := &pairModel{random: random, server: s.mem, clock: &stepClock{base: time.Now()}, late: int(modelLate.Microseconds()), history: map[string][]step{}}
	return &modelLink{x, s, process}
}

// change changes the weather until the run is over: for up to a second, a fault hits every request,
// a few of a hundred, or none.
func (l *modelLink) change() {
	for stopped := false; !stopped; {
		l.pairModel.mu.Lock()
		clear(l.weather[:])
		switch f := l.random.IntN(int(refusal) + 1); l.random.IntN(6) {
		case 0:
			l.weather[f] = 100
		case 1, 2, 3:
			for f := range refusal + 1 {
				l.weather[f] = 2
			}
		}
		stopped = l.stopped
		l.pairModel.mu.Unlock()
		sleep(context.Background(), l.ms(1000))
	}
}

// set ends the faults, or lets them begin.
func (l *modelLink) set(stopped bool) {
	l.pairModel.mu.Lock()
	defer l.pairModel.mu.Unlock()
	l.stopped = stopped
}

func toMemory(l *modelLink) driver.Store { return l.mem.Open() }

func toPolling(l *modelLink) driver.Store { return bare{l.connect()} }

func toAble(l *modelLink) driver.Store { return modelWire{ableWire{l.connect()}, l.modelServer} }

func toRegister(clock register.Clock) func(*modelLink) driver.Store {
	return func(l *modelLink) driver.Store {
		return register.New(front{l.connect(), l.modelServer, clock, time.Duration(l.process) * clock.Skew}, register.Options{Name: "model", Clock: clock})
	}
}

// modelWire is a wire to a server on which people see and break locks.
type modelWire struct {
	ableWire
	s *modelServer
}

func (c modelWire) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	g, err := c.ableWire.Wait(ctx, r, reserve)
	if g.From != 0 {
		g.From -= driver.Instant(c.s.clock.ahead.Load())
	}
	return g, err
}

func (c modelWire) Inspect(ctx context.Context, name string) (driver.State, error) {
	return send(c.wire, ctx, step{what: "inspect"}, name, func(ctx context.Context) (driver.State, error) { return c.s.mem.Inspect(ctx, name) })
}

func (c modelWire) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return send(c.wire, ctx, step{what: "list"}, prefix, func(ctx context.Context) ([]driver.State, error) { return c.s.mem.List(ctx, prefix) })
}

func (c modelWire) Break(ctx context.Context, name string, seen uint64) (uint64, error) {
	return send(c.wire, ctx, step{what: "break"}, name, func(ctx context.Context) (uint64, error) { return c.s.mem.Break(ctx, name, seen) })
}

// front is a front end of the service. It keeps one value, so a test uses one name.
type front struct {
	*wire
	s     *modelServer
	clock register.Clock
	ahead time.Duration
}

func (f front) Get(ctx context.Context, name string) (register.Value, error) {
	return send(f.wire, ctx, step{what: "get"}, name, func(context.Context) (register.Value, error) {
		f.s.mu.Lock()
		defer f.s.mu.Unlock()
		v := register.Value{Now: time.Now().Add(f.ahead).Truncate(f.clock.Grain)}
		if f.s.version > 0 {
			v.Data, v.Version = []byte(f.s.value), strconv.Itoa(f.s.version)
		}
		return v, nil
	})
}

func (f front) Put(ctx context.Context, name string, data []byte, version string) error {
	_, err := send(f.wire, ctx, step{what: "put"}, name, func(context.Context) (bool, error) {
		f.s.mu.Lock()
		defer f.s.mu.Unlock()
		if is := f.s.version; is == 0 && version != "" || is > 0 && version != strconv.Itoa(is) {
			return false, register.ErrChanged
		}
		f.s.version++
		f.s.value = string(data)
		close(f.s.changed)
		f.s.changed = make(chan struct{})
		return true, nil
	})
	return err
}

// Watch returns at the next write.
func (f front) Watch(ctx context.Context, _, version string) error {
	f.s.mu.Lock()
	is, changed := f.s.version, f.s.changed
	f.s.mu.Unlock()
	if version != strconv.Itoa(is) && (is > 0 || version != "") {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
