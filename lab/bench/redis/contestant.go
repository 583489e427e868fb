//go:build linux

package main

import (
	"context"
	"errors"
	"time"
)

// A Locker locks one name, for one goroutine. Lock waits for the lock until ctx ends.
type Locker interface {
	Lock(ctx context.Context) (unlock func() error, err error)
}

type lockFunc func(ctx context.Context) (func() error, error)

func (f lockFunc) Lock(ctx context.Context) (func() error, error) { return f(ctx) }

// A client holds the connections of one process. Its lockers share them.
type client interface {
	locker(name string) (Locker, error)
	close() error
}

// ttl is the lease for contestants that let the caller choose it. It is longer than every trial.
const ttl = 30 * time.Second

// scenario says in which tables a contestant appears.
type scenario int

const (
	alone     scenario = 1 << iota // uncontended
	oneDrain                       // the drain experiments in which all waiters share a client
	eachDrain                      // the drain experiments in which each waiter has its own client
	steadily                       // the experiments in which workers lock and unlock for a fixed time
	blocked                        // many processes that only wait
	renewing                       // holds that are renewed
)

// A contestant is one row of the tables.
type contestant struct {
	name string
	in   scenario
	open func(s site) (client, error)

	// prime prepares the server before a name is locked for the first time; it may be nil.
	prime func(r *resp, name string) error
}

// opened is a client with its lockers.
type opened struct {
	client
	lockers []Locker
}

// openFor opens a client. It locks and unlocks one name (the argument warm) once, so that the
// connections exist and the server knows the scripts.
func (c *contestant) openFor(r *rig, s site, warm string, names ...string) (*opened, error) {
	cl, err := c.open(s)
	if err != nil {
		return nil, err
	}
	o := &opened{client: cl}
	if err := c.ready(r, warm); err != nil {
		return nil, errors.Join(err, o.close())
	}
	for _, name := range append([]string{warm}, names...) {
		l, err := cl.locker(name)
		if err != nil {
			return nil, errors.Join(err, o.close())
		}
		o.lockers = append(o.lockers, l)
	}
	if err := lockOnce(o.lockers[0]); err != nil {
		return nil, errors.Join(err, o.close())
	}
	o.lockers = o.lockers[1:]
	return o, nil
}

// ready calls prime for each name.
func (c *contestant) ready(r *rig, names ...string) error {
	if c.prime == nil {
		return nil
	}
	for _, name := range names {
		if err := c.prime(r.admin, name); err != nil {
			return err
		}
	}
	return nil
}

func lockOnce(l Locker) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	unlock, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return unlock()
}

// patience is how long a worker waits for a lock before the trial counts it as stranded. Only tests
// change it, before the benchmark begins.
var patience = 20 * time.Second
