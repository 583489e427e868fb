//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// Several variants of padlock are measured, and each variant has its own row. A lock is PHP's
// sorted set or a plain string, with or without fences. Some rows use the store directly, without
// package padlock. Some other rows use PassLocally.
const (
	ours              = "padlock"
	oursNoFence       = "padlock-nofence"
	oursString        = "padlock-string"
	oursStringNoFence = "padlock-string-nofence"
	byDriver          = "/driver"
	locally           = "/locally" // with PassLocally
)

// The rows with PassLocally use these limits. A process passes the lock from one of its callers to
// the next for at most batchTime, and at most batchSize times. Then other processes can get the
// lock.
const batchSize, batchTime = 256, 10 * time.Millisecond

func padlocks() (rows []contestant) {
	for _, kind := range []struct {
		name    string
		options []redisstore.Option
	}{
		{oursStringNoFence, []redisstore.Option{redisstore.PlainStrings(), redisstore.NoFences()}},
		{oursString, []redisstore.Option{redisstore.PlainStrings()}},
		{oursNoFence, []redisstore.Option{redisstore.NoFences()}},
		{ours, nil},
	} {
		open := func(s site) (*redisstore.Store, error) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return redisstore.Open(ctx, redisstore.Config{Addrs: []string{s.addr}, Dial: s.dial}, kind.options...)
		}
		// The rows without fences show what fences cost. These rows are only in the tables of an
		// uncontended lock.
		direct, full := alone, alone
		if kind.name == ours || kind.name == oursString {
			direct, full = alone|oneDrain|eachDrain, allOfThem|renewing
		}
		rows = append(rows,
			contestant{name: kind.name + byDriver, in: direct, open: func(s site) (client, error) { return openDriver(open(s)) }},
			contestant{name: kind.name, in: full, open: func(s site) (client, error) { return openFace(open(s)) }},
		)
		if full == allOfThem|renewing {
			rows = append(rows, contestant{name: kind.name + locally, in: oneDrain | steadily, open: func(s site) (client, error) {
				store, err := open(s)
				return openFace(store, err, padlock.PassLocally(batchSize, batchTime))
			}})
		}
	}
	return rows
}

// face is a client that uses package padlock, as applications do. Other clients call the driver
// without that package.
type face struct{ *padlock.Locker }

func openFace(s *redisstore.Store, err error, opts ...padlock.LockerOption) (client, error) {
	if err != nil {
		return nil, err
	}
	return face{padlock.New(s, append(opts, padlock.TTL(ttl))...)}, nil
}

func (f face) close() error { return f.Close(context.Background()) }

func (f face) locker(name string) (Locker, error) {
	return lockFunc(func(ctx context.Context) (func() error, error) {
		h, err := f.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return func() error { return h.Release() }, nil
	}), nil
}

// plain is the store without package padlock. Each waiter waits at the server itself, and nothing
// is renewed.
type plain struct {
	store  *redisstore.Store
	tokens atomic.Int64
}

func openDriver(s *redisstore.Store, err error) (client, error) {
	if err != nil {
		return nil, err
	}
	return &plain{store: s}, nil
}

func (p *plain) close() error { return p.store.Close() }

// token returns a new token. It contains the pid, because each process of a trial has its own
// counter.
func (p *plain) token() string {
	return fmt.Sprintf("%p-%d-%d-padding-to-the-length-of-ours", p, os.Getpid(), p.tokens.Add(1))
}

func (p *plain) locker(name string) (Locker, error) {
	request := driver.Request{Name: name, TTL: ttl, Holder: driver.Holder{Host: "bench", PID: os.Getpid()}}
	return lockFunc(func(ctx context.Context) (func() error, error) {
		r := request
		r.Token = p.token()
		_, err := p.store.Acquire(ctx, r)
		if errors.Is(err, driver.ErrHeld) {
			err = p.wait(ctx, &r)
		}
		if err != nil {
			return nil, err
		}
		return func() error {
			found, err := p.store.Release(context.Background(), name, r.Token, 0)
			if err == nil && found != driver.Released {
				err = fmt.Errorf("the release found the lock %v", found)
			}
			return err
		}, nil
	}), nil
}

// wait waits until r is granted, as package padlock does.
func (p *plain) wait(ctx context.Context, r *driver.Request) error {
	for {
		r.Token = p.token()
		g, err := p.store.Wait(ctx, *r, true)
		if err != nil {
			return err
		}
		if g.From != 0 && g.TTL > driver.MaxReservation {
			return nil // the reservation needs no claim
		}
		if g.TTL == 0 {
			r.Token = p.token() // the old token must not be used again
		}
		if _, err = p.store.Acquire(ctx, *r); !errors.Is(err, driver.ErrHeld) {
			return err
		}
	}
}
