package register_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/register"
)

// A shelf is a service in memory. Its front ends are what the stores connect to.
type shelf struct {
	mu      sync.Mutex
	items   map[string]item
	writes  int
	wakes   map[string]chan struct{} // closed at the next write of the name; wake its watchers
	overdue atomic.Bool              // a request came after its time limit: the machine is busy
	clock   register.Clock
	tells   bool          // a refusal has the value
	rounds  int           // to give front ends different clocks
	skew    time.Duration // of the clocks of all front ends
	limit   int           // the length of the longest value; 0 means no limit
	resume  chan struct{} // closed when the service goes on; nil if it does not stand still
}

type item struct {
	data    string
	version int
}

func newShelf(clock register.Clock) *shelf {
	return &shelf{items: map[string]item{}, wakes: map[string]chan struct{}{}, clock: clock, tells: clock.Grain > 0}
}

// A front is a front end of the service: it may lose replies, and carry out a Put late or twice.
type front struct {
	*shelf
	ahead time.Duration // by how much its clock is ahead

	mu     sync.Mutex
	broken bool
	fault  func(apply func() error) error // of the next Put
	gets   atomic.Int64
	closed bool
}

// open returns another front end. Every second one has a clock that is ahead.
func (s *shelf) open() *front {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds++
	return &front{shelf: s, ahead: time.Duration(s.rounds%2) * s.clock.Skew}
}

// stand returns a channel that is closed when the service goes on.
func (s *shelf) stand() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resume == nil {
		s.resume = make(chan struct{})
		close(s.resume)
	}
	return s.resume
}

// pause makes the service stand still.
func (s *shelf) pause() (goOn func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume = make(chan struct{})
	return sync.OnceValue(func() error { close(s.resume); return nil })
}

// cut makes the next request fail: a Get finds nothing, and a Put has an effect that nobody sees.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = true
}

func (f *front) isCut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	broken := f.broken
	f.broken = false
	return broken
}

func (f *front) Get(ctx context.Context, name string) (register.Value, error) {
	select {
	case <-f.stand():
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		f.overdue.Store(true)
		return register.Value{}, err
	}
	if f.isCut() {
		return register.Value{}, errCut
	}
	f.gets.Add(1)
	return f.value(name), nil
}

func (f *front) value(name string) register.Value {
	f.shelf.mu.Lock()
	defer f.shelf.mu.Unlock()
	v := register.Value{Now: time.Now().Add(f.ahead + f.skew)}
	if f.clock.Grain > 0 {
		v.Now = v.Now.Truncate(f.clock.Grain)
	}
	if it, ok := f.items[name]; ok {
		v.Data, v.Version = []byte(it.data), strconv.Itoa(it.version)
	}
	return v
}

func (f *front) Put(ctx context.Context, name string, data []byte, version string) error {
	if err := ctx.Err(); err != nil {
		f.overdue.Store(true)
		return errors.Join(driver.ErrUnavailable, err)
	}
	if f.limit > 0 && len(data) > f.limit {
		return errTooLong
	}
	apply := func() error {
		err := f.apply(name, string(data), version)
		if err != nil && f.tells {
			return &register.Changed{Value: f.value(name)}
		}
		return err
	}
	select {
	case <-f.stand():
	case <-ctx.Done():
		go func(goOn <-chan struct{}) { // the effect comes late
			<-goOn
			apply()
		}(f.stand())
		return ctx.Err()
	}
	if f.isCut() {
		apply()
		return errCut
	}
	f.mu.Lock()
	fault := f.fault
	f.fault = nil
	f.mu.Unlock()
	if fault != nil {
		return fault(apply)
	}
	return apply()
}

func (s *shelf) apply(name, data, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, ok := s.items[name]
	if ok != (version != "") || ok && strconv.Itoa(it.version) != version {
		return register.ErrChanged
	}
	s.writes++
	s.items[name] = item{data, s.writes}
	if wake := s.wakes[name]; wake != nil {
		close(wake)
		delete(s.wakes, name)
	}
	return nil
}

func (f *front) Watch(ctx context.Context, name, version string) error {
	for {
		f.shelf.mu.Lock()
		wake, it := f.wakes[name], f.items[name]
		if wake == nil {
			wake = make(chan struct{})
			f.wakes[name] = wake
		}
		f.shelf.mu.Unlock()
		if strconv.Itoa(it.version) != version {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *front) Names(_ context.Context, prefix string) (names []string, err error) {
	f.shelf.mu.Lock()
	defer f.shelf.mu.Unlock()
	for name := range f.items {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (f *front) Close() error { f.closed = true; return nil }

// next sets the fault of the next Put.
func (f *front) next(fault func(apply func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

var errTooLong = fmt.Errorf("%w: the service takes no value as long as this one", driver.ErrUnavailable)

var errCut = errors.New("the connection was cut")

// restart forgets everything, unless the data is kept.
func (s *shelf) restart(keepData bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !keepData {
		clear(s.items)
	}
	return nil
}

// setClock sets the clocks of all front ends.
func (s *shelf) setClock(skew time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = skew
	return nil
}
